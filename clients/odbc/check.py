"""psqlODBC, through pyodbc: connects, creates, inserts, reads; by parameters, in transactions, and by the catalog functions that tools call.

check.py HOST PORT DRIVER
"""

import datetime
import decimal
import sys

import pyodbc


def main(host, port, driver):
    where = f"DRIVER={driver};SERVER={host};PORT={port};DATABASE=thalweg;UID=odbc;SSLmode=disable"
    connection = pyodbc.connect(where, autocommit=True)
    version = connection.getinfo(pyodbc.SQL_DRIVER_VER)
    cursor = connection.cursor()
    cursor.execute("DROP TABLE IF EXISTS odbc_orders CASCADE")
    cursor.execute(
        "CREATE TABLE odbc_orders (id integer PRIMARY KEY, customer varchar(40) NOT NULL, amount numeric(10, 2), at timestamp, day date,"
        " paid boolean, score double precision, note text)"
    )
    cursor.execute("CREATE MATERIALIZED VIEW odbc_totals AS SELECT customer, count(*) AS n FROM odbc_orders GROUP BY customer")
    at = datetime.datetime(2024, 1, 31, 12, 0, 0, 500000)
    rows = [(1, "ann", decimal.Decimal("1.50"), at, at.date(), "1", 0.5, "it's"), (2, "bob", None, None, None, None, None, None)]
    cursor.executemany("INSERT INTO odbc_orders VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
    found = [tuple(row) for row in cursor.execute("SELECT * FROM odbc_orders ORDER BY id")]
    assert found == rows, found
    assert [d[1] for d in cursor.description][:4] == [int, str, decimal.Decimal, datetime.datetime], cursor.description
    for _ in range(3):
        assert cursor.execute("SELECT customer FROM odbc_orders WHERE id = ?", 2).fetchval() == "bob"
    assert cursor.execute("SELECT n FROM odbc_totals WHERE customer = ?", "ann").fetchval() == 1

    assert [(t.table_name, t.table_type) for t in cursor.tables("odbc_%", schema="public")] == [
        ("odbc_orders", "TABLE"), ("odbc_totals", "MATVIEW")], [tuple(t) for t in cursor.tables("odbc_%")]
    columns = [(c.column_name, c.type_name, c.column_size, c.nullable) for c in cursor.columns("odbc_orders")]
    assert columns[:3] == [("id", "int4", 10, 0), ("customer", "varchar", 40, 0), ("amount", "numeric", 10, 1)], columns
    assert [(k.column_name, k.key_seq, k.pk_name) for k in cursor.primaryKeys("odbc_orders")] == [("id", 1, "odbc_orders_pkey")]
    statistics = [(s.index_name, s.column_name) for s in cursor.statistics("odbc_orders", unique=True) if s.index_name]
    assert statistics == [("odbc_orders_pkey", "id")], statistics
    assert [c.type_name for c in cursor.rowVerColumns("odbc_orders")] == ["xid"]
    assert cursor.foreignKeys("odbc_orders").fetchall() == []
    assert "varchar" in [row.type_name for row in cursor.getTypeInfo()]

    connection.autocommit = False
    cursor.execute("INSERT INTO odbc_orders (id, customer) VALUES (3, 'cat')")
    connection.rollback()
    try:
        cursor.execute("INSERT INTO odbc_orders (id, customer) VALUES (1, 'ann')")
        raise AssertionError("a key was taken twice")
    except pyodbc.IntegrityError as error:
        assert error.args[0] == "23505", error
    connection.rollback()
    assert cursor.execute("SELECT count(*) FROM odbc_orders").fetchval() == 2
    connection.commit()
    connection.close()

    # Large results by parts, through a cursor that the driver declares.
    connection = pyodbc.connect(where + ";UseDeclareFetch=1;Fetch=10", autocommit=True)
    cursor = connection.cursor()
    assert [n for (n,) in cursor.execute("SELECT n FROM generate_series(1, 35) AS n")] == list(range(1, 36))
    cursor.execute("DROP TABLE odbc_orders CASCADE")
    connection.close()
    return version


if __name__ == "__main__":
    print("psqlODBC", main(sys.argv[1], int(sys.argv[2]), sys.argv[3]), "ok")
