SELECT auction, strftime("dateTime", '%Y-%m-%d') AS "day",
       COUNT(*) AS total_bids,
       COUNT(*) FILTER (WHERE price < 10000) AS rank1_bids,
       COUNT(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bids,
       COUNT(*) FILTER (WHERE price >= 1000000) AS rank3_bids,
       MIN(price) AS min_price, MAX(price) AS max_price, CAST(SUM(price) // COUNT(*) AS BIGINT) AS avg_price,
       CAST(SUM(price) AS BIGINT) AS sum_price
FROM bid
GROUP BY auction, strftime("dateTime", '%Y-%m-%d')
