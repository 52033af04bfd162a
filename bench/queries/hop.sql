-- Bids and prices of each auction in windows of ten seconds, every two seconds.
SELECT auction, window_start AS starttime, window_end AS endtime,
       COUNT(*) AS num, SUM(price) AS sum_price, MAX(price) AS max_price
FROM HOP(bid, "dateTime", INTERVAL '2 seconds', INTERVAL '10 seconds')
GROUP BY auction, window_start, window_end
