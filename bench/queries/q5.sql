-- The auctions with the most bids in each window of ten seconds, every two seconds.
SELECT c.auction, c.num
FROM (SELECT auction, COUNT(*) AS num, window_start, window_end
      FROM HOP(bid, "dateTime", INTERVAL '2 seconds', INTERVAL '10 seconds')
      GROUP BY auction, window_start, window_end) AS c
JOIN (SELECT MAX(num) AS maxn, window_start, window_end
      FROM (SELECT auction, COUNT(*) AS num, window_start, window_end
            FROM HOP(bid, "dateTime", INTERVAL '2 seconds', INTERVAL '10 seconds')
            GROUP BY auction, window_start, window_end) AS counts
      GROUP BY window_start, window_end) AS m
ON c.window_start = m.window_start AND c.window_end = m.window_end AND c.num >= m.maxn
