SELECT auction, bidder, price, channel, url, "dateTime", extra, rank_number
FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS rank_number
      FROM bid) AS ranked
WHERE rank_number <= 10
