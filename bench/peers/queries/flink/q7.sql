SELECT b.auction, b.bidder, b.price, b.`dateTime`, b.extra
FROM bid AS b
JOIN (SELECT MAX(price) AS maxprice, window_end AS wend
      FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))
      GROUP BY window_start, window_end) AS m
ON b.price = m.maxprice
WHERE b.`dateTime` BETWEEN m.wend - INTERVAL '10' SECOND AND m.wend
