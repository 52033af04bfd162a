"""psycopg 3: connects, creates, inserts, reads; prepared, in binary form, by COPY, in a transaction.

check.py HOST PORT
"""

import datetime
import decimal
import sys

import psycopg

OBJECTS = """
CREATE TABLE py_orders (id bigint PRIMARY KEY, customer text, amount numeric(10, 2), at timestamp, paid boolean)
"""
VIEW = "CREATE MATERIALIZED VIEW py_totals AS SELECT customer, count(*) AS n, sum(amount) AS total FROM py_orders GROUP BY customer"


class Enough(Exception):
    """Ends a copy that has no end of its own: the driver then cancels it."""


def follow(feed, connection):
    """Reads a view's changes by COPY while another connection writes: each comes before the next is written."""
    with feed.cursor() as cursor:
        with cursor.copy("COPY (SUBSCRIBE TO py_totals WITH (snapshot = false)) TO STDOUT") as changes:
            rows = changes.rows()
            for n in (1, 2, 3):
                connection.execute("INSERT INTO py_orders (id, customer) VALUES (%s, 'followed')", (1000 + n,))
                came = []
                while ("1", "followed", str(n)) not in came:
                    came.append(next(rows)[1:4])
                assert n == 1 or ("-1", "followed", str(n - 1)) in came, came
            raise Enough


def main(host, port):
    where = dict(host=host, port=port, user="python", dbname="thalweg")
    with psycopg.connect(**where, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS py_orders CASCADE")
        connection.execute(OBJECTS)
        connection.execute(VIEW)
        at = datetime.datetime(2024, 1, 31, 12, 0, 0, 500000)
        rows = [(1, "ann", decimal.Decimal("1.50"), at, True), (2, "bob", decimal.Decimal("2.25"), None, False), (3, "ann", None, at, None)]
        with connection.cursor() as cursor:
            cursor.executemany("INSERT INTO py_orders VALUES (%s, %s, %s, %s, %s)", rows)
        found = connection.execute("SELECT * FROM py_orders ORDER BY id").fetchall()
        assert found == rows, found

        # A prepared statement, used often enough that the driver keeps it by name.
        for _ in range(7):
            found = connection.execute("SELECT n, total FROM py_totals WHERE customer = %s", ("ann",), prepare=True).fetchone()
            assert found == (2, decimal.Decimal("1.50")), found

        with connection.cursor(binary=True) as cursor:
            cursor.execute("SELECT id, customer, paid, at FROM py_orders ORDER BY id")
            assert cursor.fetchall() == [(row[0], row[1], row[4], row[3]) for row in rows]

        with connection.cursor() as cursor:
            with cursor.copy("COPY py_orders (id, customer) FROM STDIN") as copy:
                for number in range(10, 20):
                    copy.write_row((number, "copied"))
            cursor.execute("SELECT n FROM py_totals WHERE customer = 'copied'")
            found = cursor.fetchone()
            assert found == (10,), found
            with cursor.copy("COPY (SELECT id FROM py_orders WHERE customer = 'copied' ORDER BY id) TO STDOUT") as copy:
                copy.set_types(["int8"])
                assert [row[0] for row in copy.rows()] == list(range(10, 20))

        with psycopg.connect(**where, autocommit=True) as feed:
            try:
                follow(feed, connection)
            except Enough:
                assert feed.execute("SELECT 1").fetchone() == (1,)
        connection.execute("DELETE FROM py_orders WHERE customer = 'followed'")
        try:
            connection.execute("SELECT * FROM nosuch")
            raise AssertionError("a relation that is not there was read")
        except psycopg.errors.UndefinedTable:
            pass
        try:
            connection.execute("INSERT INTO py_orders (id) VALUES (1)")
            raise AssertionError("a key was taken twice")
        except psycopg.errors.UniqueViolation:
            pass

    # The driver's own way: a transaction that begins by itself.
    with psycopg.connect(**where) as connection:
        assert connection.execute("SELECT count(*) FROM py_orders").fetchone() == (13,)
        with connection.cursor(name="by_parts") as cursor:
            cursor.itersize = 5
            cursor.execute("SELECT id FROM py_orders ORDER BY id")
            assert len(cursor.fetchall()) == 13
    with psycopg.connect(**where, autocommit=True) as connection:
        connection.execute("DROP TABLE py_orders CASCADE")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
    print("psycopg", psycopg.__version__, "ok")
