-- Bids in a range of prices, with the time of day and a count of letters.
SELECT auction, bidder, 0.908 * price AS price,
       CASE WHEN EXTRACT(HOUR FROM "dateTime") >= 8 AND EXTRACT(HOUR FROM "dateTime") <= 18 THEN 'dayTime'
            WHEN EXTRACT(HOUR FROM "dateTime") <= 6 OR EXTRACT(HOUR FROM "dateTime") >= 20 THEN 'nightTime'
            ELSE 'otherTime' END AS "bidTimeType",
       "dateTime", extra,
       CHAR_LENGTH(extra) - CHAR_LENGTH(REPLACE(extra, 'c', '')) AS c_counts
FROM bid
WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000
