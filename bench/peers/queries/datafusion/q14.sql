SELECT auction, bidder, 0.908 * price AS price,
       CASE WHEN date_part('hour', "dateTime") >= 8 AND date_part('hour', "dateTime") <= 18 THEN 'dayTime'
            WHEN date_part('hour', "dateTime") <= 6 OR date_part('hour', "dateTime") >= 20 THEN 'nightTime'
            ELSE 'otherTime' END AS "bidTimeType",
       "dateTime", extra,
       length(extra) - length(replace(extra, 'c', '')) AS c_counts
FROM bid
WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000
