-- psql: creates, inserts, reads, prepared too, and the commands that describe.
\set ON_ERROR_STOP on
DROP TABLE IF EXISTS psql_orders CASCADE;
CREATE TABLE psql_orders (id int PRIMARY KEY, customer text NOT NULL, amount numeric(10, 2));
CREATE MATERIALIZED VIEW psql_totals AS SELECT customer, count(*) AS n, sum(amount) AS total FROM psql_orders GROUP BY customer;
INSERT INTO psql_orders VALUES (1, 'ann', 1.5), (2, 'bob', 2.25), (3, 'ann', NULL);
SELECT customer, n FROM psql_totals ORDER BY customer;
PREPARE one (int) AS SELECT customer FROM psql_orders WHERE id = $1;
EXECUTE one (2);
UPDATE psql_orders SET amount = amount + 1 WHERE id = 1 RETURNING id, amount;
\copy psql_orders (id, customer) from stdin
10	copied
11	copied
\.
SELECT n FROM psql_totals WHERE customer = 'copied';
\copy (SELECT id FROM psql_orders ORDER BY id) to stdout
SELECT id, customer FROM psql_orders WHERE id < 3 ORDER BY id \gdesc
\d psql_orders
\dt psql_*
\dm psql_*
DROP TABLE psql_orders CASCADE;
