-- A lookup keeps no bids, as a join of two streams would. Nothing is lost by it, since the table does not change.
SELECT b.auction, b.bidder, b.price, b.`dateTime`, s.`value`
FROM (SELECT *, PROCTIME() AS looked_up FROM bid) AS b
JOIN side_input FOR SYSTEM_TIME AS OF b.looked_up AS s ON MOD(b.auction, 10000) = s.`key`
