SELECT b.auction, b.bidder, b.price, b."dateTime", b.extra
FROM bid AS b
JOIN (SELECT MAX(price) AS maxprice, date_bin(INTERVAL '10 seconds', "dateTime") AS wstart
      FROM bid GROUP BY date_bin(INTERVAL '10 seconds', "dateTime")) AS m
ON b.price = m.maxprice
WHERE b."dateTime" BETWEEN m.wstart AND m.wstart + INTERVAL '10 seconds'
