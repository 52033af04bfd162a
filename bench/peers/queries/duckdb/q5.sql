-- Bids are counted by two seconds first; each window is five of these.
WITH steps AS (
    SELECT auction, time_bucket(INTERVAL '2 seconds', "dateTime") AS step, COUNT(*) AS bids FROM bid GROUP BY auction, step
), counts AS (
    SELECT auction, step - INTERVAL '2 seconds' * back AS window_start, SUM(bids) AS num
    FROM steps CROSS JOIN range(0, 5) AS windows(back) GROUP BY auction, window_start
), highest AS (
    SELECT window_start, MAX(num) AS maxn FROM counts GROUP BY window_start
)
SELECT c.auction, CAST(c.num AS BIGINT) AS num
FROM counts AS c JOIN highest AS m ON c.window_start = m.window_start AND c.num >= m.maxn
