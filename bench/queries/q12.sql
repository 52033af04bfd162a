-- How many bids each bidder makes in each ten seconds.
SELECT bidder, COUNT(*) AS bid_count, window_start AS starttime, window_end AS endtime
FROM TUMBLE(bid, "dateTime", INTERVAL '10 seconds')
GROUP BY bidder, window_start, window_end
