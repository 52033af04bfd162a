"""ADBC: queries and tables as Arrow, which the driver takes through binary COPY in both directions.

check.py HOST PORT
"""

import datetime
import decimal
import sys

import adbc_driver_postgresql
import adbc_driver_postgresql.dbapi
import pyarrow as pa


def main(host, port):
    uri = f"postgresql://adbc@{host}:{port}/thalweg"
    with adbc_driver_postgresql.dbapi.connect(uri, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS adbc_orders CASCADE")
        cursor.execute(
            "CREATE TABLE adbc_orders (id bigint PRIMARY KEY, customer text, amount numeric(10, 2), at timestamp, day date,"
            " paid boolean, score double precision, tags text[])"
        )
        cursor.execute("CREATE MATERIALIZED VIEW adbc_totals AS SELECT customer, count(*) AS n FROM adbc_orders GROUP BY customer")
        at = datetime.datetime(2024, 1, 31, 12, 0, 0, 500000)
        cursor.execute("INSERT INTO adbc_orders (id, customer, at, paid, score) VALUES ($1, $2, $3, $4, $5)", (1, "ann", at, True, 0.5))
        cursor.execute("UPDATE adbc_orders SET amount = 1.50, day = '2024-01-31', tags = ARRAY['a', 'b,c'] WHERE id = 1")
        cursor.execute("SELECT * FROM adbc_orders")
        table = cursor.fetch_arrow_table()
        row = (1, "ann", "1.50", at, at.date(), True, 0.5, ["a", "b,c"])
        assert [str(c) if isinstance(c, decimal.Decimal) else c for c in table.to_pylist()[0].values()] == list(row), table.to_pylist()

        # A whole table at once, as COPY in binary form.
        batch = pa.table({"id": pa.array(range(10, 1010), pa.int64()), "customer": ["copied"] * 1000})
        assert cursor.adbc_ingest("adbc_orders", batch, mode="append") == 1000
        cursor.execute("SELECT n FROM adbc_totals WHERE customer = 'copied'")
        assert cursor.fetchone() == (1000,)
        cursor.execute("DROP TABLE IF EXISTS adbc_made")
        made = pa.table({"a": pa.array([1, None], pa.int32()), "b": ["x", None], "c": [0.5, None], "d": pa.array([at, None], pa.timestamp("us"))})
        cursor.adbc_ingest("adbc_made", made, mode="create")
        cursor.execute("SELECT * FROM adbc_made ORDER BY a")
        assert cursor.fetch_arrow_table().to_pylist() == made.to_pylist()

        schema = connection.adbc_get_table_schema("adbc_orders")
        assert [str(t) for t in schema.types][:2] + [str(schema.field("tags").type)] == ["int64", "string", "list<item: string>"], schema
        objects = connection.adbc_get_objects(depth="columns", catalog_filter="thalweg", db_schema_filter="public").read_all().to_pylist()
        tables = {t["table_name"]: t for t in objects[0]["catalog_db_schemas"][0]["db_schema_tables"]}
        assert tables["adbc_totals"]["table_type"] == "materialized view", tables["adbc_totals"]
        places = {c["ordinal_position"]: c["column_name"] for c in tables["adbc_orders"]["table_columns"]}
        assert [places[n] for n in (1, 2, 3)] == ["id", "customer", "amount"]
        cursor.execute("DROP TABLE adbc_orders CASCADE")
        cursor.execute("DROP TABLE adbc_made")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
    print("ADBC", adbc_driver_postgresql.__version__, "ok")
