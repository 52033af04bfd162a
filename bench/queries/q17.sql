-- Prices of each auction on each day; the average in whole units.
SELECT auction, to_char("dateTime", 'YYYY-MM-DD') AS "day",
       COUNT(*) AS total_bids,
       COUNT(*) FILTER (WHERE price < 10000) AS rank1_bids,
       COUNT(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bids,
       COUNT(*) FILTER (WHERE price >= 1000000) AS rank3_bids,
       MIN(price) AS min_price, MAX(price) AS max_price, CAST(SUM(price) AS BIGINT) / COUNT(*) AS avg_price, SUM(price) AS sum_price
FROM bid
GROUP BY auction, to_char("dateTime", 'YYYY-MM-DD')
