"""psycopg2: connects, creates, inserts, reads; in the driver's transactions, by named cursors and COPY, and follows a view as it changes.

check.py HOST PORT
"""

import datetime
import decimal
import io
import sys

import psycopg2
import psycopg2.errors
import psycopg2.extras


def follow(where, connection):
    """Reads a view's changes through a cursor while another connection writes: each comes before the next is written."""
    with psycopg2.connect(**where) as feed, feed.cursor() as reader, connection.cursor() as writer:
        reader.execute("DECLARE feed CURSOR FOR SUBSCRIBE TO p2_totals WITH (snapshot = false)")
        for n in (1, 2, 3):
            writer.execute("INSERT INTO p2_orders (id, customer) VALUES (%s, 'followed')", (1000 + n,))
            came = []
            while (1, "followed", n) not in came:
                reader.execute("FETCH 1 feed")
                came += [(row[1], row[2], row[3]) for row in reader.fetchall()]
            assert n == 1 or (-1, "followed", n - 1) in came, came
        reader.execute("CLOSE feed")


def main(host, port):
    where = dict(host=host, port=port, user="psycopg2", dbname="thalweg")
    connection = psycopg2.connect(**where)
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS p2_orders CASCADE")
        cursor.execute(
            "CREATE TABLE p2_orders (id bigint PRIMARY KEY, customer text, amount numeric(10, 2), at timestamptz, paid boolean,"
            " tags text[], note jsonb, raw bytea, took interval)"
        )
        cursor.execute(
            "CREATE MATERIALIZED VIEW p2_totals AS SELECT customer, count(*) AS n, sum(amount) AS total FROM p2_orders GROUP BY customer"
        )
        at = datetime.datetime(2024, 1, 31, 12, 0, 0, 500000, tzinfo=datetime.timezone.utc)
        rows = [
            (1, "it's \\ 100%", decimal.Decimal("1.50"), at, True, ["a", "b,c"], {"k": [1]}, b"\x00\xff", datetime.timedelta(1, 2)),
            (2, None, None, None, None, [], None, b"", None),
        ]
        sent = [row[:6] + (row[6] and psycopg2.extras.Json(row[6]),) + row[7:] for row in rows]
        cursor.execute("INSERT INTO p2_orders VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)", sent[0])
        psycopg2.extras.execute_values(cursor, "INSERT INTO p2_orders VALUES %s", sent[1:])
        cursor.execute("SELECT * FROM p2_orders ORDER BY id")
        found = [row[:7] + (bytes(row[7]),) + row[8:] for row in cursor.fetchall()]
        assert found == rows, found
        assert [c.type_code for c in cursor.description] == [20, 25, 1700, 1184, 16, 1009, 3802, 17, 1186], cursor.description

        copied = io.StringIO("".join(f"{n}\tcopied\t\\N\n" for n in range(10, 20)))
        cursor.copy_expert("COPY p2_orders (id, customer, amount) FROM STDIN", copied)
        cursor.execute("SELECT n, total FROM p2_totals WHERE customer = %s", ("copied",))
        assert cursor.fetchone() == (10, None)
        out = io.StringIO()
        cursor.copy_expert("COPY (SELECT id FROM p2_orders WHERE customer = 'copied' ORDER BY id) TO STDOUT (FORMAT csv, HEADER)", out)
        assert out.getvalue().split() == ["id"] + [str(n) for n in range(10, 20)]
        cursor.execute("SELECT id FROM p2_orders WHERE id = ANY(%s) AND customer IN %s ORDER BY id", ([10, 11, 99], ("copied", "x")))
        assert cursor.fetchall() == [(10,), (11,)]

    # The driver's own way: a transaction begins with the first statement.
    with psycopg2.connect(**where) as other, other.cursor() as cursor:
        cursor.execute("INSERT INTO p2_orders (id) VALUES (100)")
        try:
            cursor.execute("INSERT INTO p2_orders (id) VALUES (100)")
            raise AssertionError("a key was taken twice")
        except psycopg2.errors.UniqueViolation as error:
            assert error.diag.constraint_name == "p2_orders_pkey", error.diag.constraint_name
        try:
            cursor.execute("SELECT 1")
            raise AssertionError("a failed transaction goes on")
        except psycopg2.errors.InFailedSqlTransaction:
            other.rollback()
        cursor.execute("SELECT count(*) FROM p2_orders")
        assert cursor.fetchone() == (12,)
    with psycopg2.connect(**where) as other, other.cursor(name="by_parts", cursor_factory=psycopg2.extras.DictCursor) as cursor:
        cursor.itersize = 5
        cursor.execute("SELECT id, note FROM p2_orders ORDER BY id")
        assert [row["id"] for row in cursor] == [1, 2, *range(10, 20)]

    follow(where, connection)
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE p2_orders CASCADE")
    connection.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
    print("psycopg2", psycopg2.__version__.split()[0], "ok")
