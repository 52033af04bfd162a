SELECT bidder, COUNT(*) AS bid_count, starttime, starttime + INTERVAL '10 seconds' AS endtime
FROM (SELECT bidder, date_bin(INTERVAL '10 seconds', "dateTime") AS starttime FROM bid) AS windows
GROUP BY bidder, starttime
