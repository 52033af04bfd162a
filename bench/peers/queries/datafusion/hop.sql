-- Bids are added up by two seconds first; each window is five of these.
WITH steps AS (
    SELECT auction, date_bin(INTERVAL '2 seconds', "dateTime") AS step,
           COUNT(*) AS num, SUM(price) AS sum_price, MAX(price) AS max_price
    FROM bid GROUP BY auction, date_bin(INTERVAL '2 seconds', "dateTime")
)
SELECT auction, step - back AS starttime, step - back + INTERVAL '10 seconds' AS endtime,
       SUM(num) AS num, SUM(sum_price) AS sum_price, MAX(max_price) AS max_price
FROM steps CROSS JOIN (VALUES (INTERVAL '0 seconds'), (INTERVAL '2 seconds'), (INTERVAL '4 seconds'),
                              (INTERVAL '6 seconds'), (INTERVAL '8 seconds')) AS windows(back)
GROUP BY auction, step - back
