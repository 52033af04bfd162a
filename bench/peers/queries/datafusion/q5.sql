-- Bids are counted by two seconds first; each window is five of these.
WITH steps AS (
    SELECT auction, date_bin(INTERVAL '2 seconds', "dateTime") AS step, COUNT(*) AS bids
    FROM bid GROUP BY auction, date_bin(INTERVAL '2 seconds', "dateTime")
), counts AS (
    SELECT auction, step - back AS window_start, SUM(bids) AS num
    FROM steps CROSS JOIN (VALUES (INTERVAL '0 seconds'), (INTERVAL '2 seconds'), (INTERVAL '4 seconds'),
                                  (INTERVAL '6 seconds'), (INTERVAL '8 seconds')) AS windows(back)
    GROUP BY auction, step - back
), highest AS (
    SELECT window_start, MAX(num) AS maxn FROM counts GROUP BY window_start
)
SELECT c.auction, c.num
FROM counts AS c JOIN highest AS m ON c.window_start = m.window_start AND c.num >= m.maxn
