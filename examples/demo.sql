-- The events of an online auction, made up as fast as one would watch them, and a few views over them.

CREATE SOURCE IF NOT EXISTS person WITH (connector = 'nexmark', table = 'person', rate = 1000);

CREATE SOURCE IF NOT EXISTS auction WITH (connector = 'nexmark', table = 'auction', rate = 1000);

CREATE SOURCE IF NOT EXISTS bid (
    auction bigint, bidder bigint, price bigint, channel text, url text, "dateTime" timestamp, extra text,
    WATERMARK FOR "dateTime" AS "dateTime" - INTERVAL '4 seconds'
) WITH (connector = 'nexmark', table = 'bid', rate = 1000);

-- How many bids, and of what worth, so far.
CREATE MATERIALIZED VIEW IF NOT EXISTS bids AS
SELECT count(*) AS bids, sum(price) AS worth, max(price) AS highest FROM bid;

-- The channels by what is bid through them.
CREATE MATERIALIZED VIEW IF NOT EXISTS channels AS
SELECT channel, count(*) AS bids, sum(price) AS worth FROM bid GROUP BY channel;

-- The five auctions with the most bids.
CREATE MATERIALIZED VIEW IF NOT EXISTS hot_auctions AS
SELECT auction, count(*) AS bids, max(price) AS highest FROM bid GROUP BY auction ORDER BY bids DESC, auction LIMIT 5;

-- Bids in windows of ten seconds, each shown once, when it can change no more.
CREATE MATERIALIZED VIEW IF NOT EXISTS bids_each_ten_seconds AS
SELECT window_start, count(*) AS bids, max(price) AS highest
FROM TUMBLE(bid, "dateTime", INTERVAL '10 seconds')
GROUP BY window_start, window_end
EMIT ON WINDOW CLOSE;

-- Who sells what, and where they live: a join of two streams.
CREATE MATERIALIZED VIEW IF NOT EXISTS sellers AS
SELECT p.state, count(*) AS auctions
FROM auction AS a JOIN person AS p ON a.seller = p.id
GROUP BY p.state;
