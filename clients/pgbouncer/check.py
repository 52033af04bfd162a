"""PgBouncer in transaction mode: many clients over few connections, each transaction on whichever is free.

check.py HOST PORT: of the pooler, in front of a server.
"""

import concurrent.futures
import sys

import psycopg

CLIENTS = 40
SERVERS_MAX = 4


def work(where, number):
    """A client that writes, in transactions of which every third is rolled back, and reads between them."""
    with psycopg.connect(**where, prepare_threshold=None) as connection:
        for round in range(6):
            connection.execute("SET LOCAL application_name = 'bounced'")
            connection.execute("INSERT INTO pool_orders VALUES (%s, %s)", (number * 100 + round, f"c{number}"))
            count = connection.execute("SELECT count(*) FROM pool_orders WHERE customer = %s", (f"c{number}",)).fetchone()[0]
            # What it has written itself it sees on whichever connection it is.
            kept = 2 * (round // 3) + min(round % 3, 2)
            assert count == kept + 1, (number, round, count)
            connection.rollback() if round % 3 == 2 else connection.commit()
        try:
            connection.execute("INSERT INTO pool_orders VALUES (%s, 'twice')", (number * 100,))
            raise AssertionError("a key was taken twice")
        except psycopg.errors.UniqueViolation:
            connection.rollback()
        # The setting lasted as long as its transaction.
        assert connection.execute("SHOW application_name").fetchone() != ("bounced",)


def main(host, port):
    where = dict(host=host, port=port, user="pgbouncer", dbname="thalweg")
    with psycopg.connect(**where, autocommit=True, prepare_threshold=None) as connection:
        connection.execute("DROP TABLE IF EXISTS pool_orders CASCADE")
        connection.execute("CREATE TABLE pool_orders (id bigint PRIMARY KEY, customer text)")
        connection.execute("CREATE MATERIALIZED VIEW pool_totals AS SELECT count(*) AS n FROM pool_orders")
    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as clients:
        list(clients.map(lambda number: work(where, number), range(CLIENTS)))

    with psycopg.connect(**{**where, "dbname": "pgbouncer"}, autocommit=True) as admin:
        admin.prepare_threshold = None
        cursor = psycopg.ClientCursor(admin)
        rows = cursor.execute("SHOW POOLS").fetchall()
        names = [column.name for column in cursor.description]
        pools = [dict(zip(names, row)) for row in rows]
        pool = next(pool for pool in pools if pool["database"] == "thalweg")
        assert pool["pool_mode"] == "transaction", pool
        servers = sum(int(pool[name]) for name in ("sv_active", "sv_idle", "sv_used"))
        assert 1 <= servers <= SERVERS_MAX, pool

    with psycopg.connect(**where, autocommit=True, prepare_threshold=None) as connection:
        connection.execute("FLUSH")
        assert connection.execute("SELECT n FROM pool_totals").fetchone() == (CLIENTS * 4,)
        connection.execute("DROP TABLE pool_orders CASCADE")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
    print("PgBouncer ok")
