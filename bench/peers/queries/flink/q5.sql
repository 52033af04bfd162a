SELECT c.auction, c.num
FROM (SELECT auction, COUNT(*) AS num, window_start, window_end
      FROM TABLE(HOP(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
      GROUP BY auction, window_start, window_end) AS c
JOIN (SELECT MAX(num) AS maxn, window_start, window_end
      FROM (SELECT auction, COUNT(*) AS num, window_start, window_end
            FROM TABLE(HOP(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
            GROUP BY auction, window_start, window_end)
      GROUP BY window_start, window_end) AS m
ON c.window_start = m.window_start AND c.window_end = m.window_end AND c.num >= m.maxn
