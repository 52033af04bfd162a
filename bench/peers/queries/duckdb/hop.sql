-- Bids are added up by two seconds first; each window is five of these.
WITH steps AS (
    SELECT auction, time_bucket(INTERVAL '2 seconds', "dateTime") AS step,
           COUNT(*) AS num, SUM(price) AS sum_price, MAX(price) AS max_price
    FROM bid GROUP BY auction, step
), windows AS (
    SELECT auction, step - INTERVAL '2 seconds' * back AS starttime,
           SUM(num) AS num, SUM(sum_price) AS sum_price, MAX(max_price) AS max_price
    FROM steps CROSS JOIN range(0, 5) AS windows(back) GROUP BY auction, starttime
)
SELECT auction, starttime, starttime + INTERVAL '10 seconds' AS endtime,
       CAST(num AS BIGINT) AS num, CAST(sum_price AS BIGINT) AS sum_price, max_price
FROM windows
