#!/usr/bin/env python3
"""Runs queries as a batch in DuckDB or DataFusion over the whole of the files: the least that they could cost.

With --results each result goes to a folder, as lines of JSON. Without, its rows are drawn and dropped.
"""

import argparse
import datetime
import decimal
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import common  # noqa: E402

BATCH_ROWS = 100_000
SIDE_INPUT_ROWS = 10_000


class DuckDb:
    def __init__(self, files, threads):
        import duckdb

        self.connection = duckdb.connect(config={"threads": threads, "preserve_insertion_order": False})
        for table in common.COLUMNS:
            columns = ", ".join(f"'{name}': '{sql_type}'" for name, sql_type in common.columns(table))
            self.connection.execute(
                f"CREATE VIEW {table} AS FROM read_json('{files / table}/*.jsonl', format = 'newline_delimited', columns = {{{columns}}})"
            )
        self.connection.execute(
            f"""CREATE TABLE side_input AS SELECT range AS "key", 'value ' || range AS "value" FROM range({SIDE_INPUT_ROWS})"""
        )

    def batches(self, text):
        return self.connection.sql(text).to_arrow_reader(BATCH_ROWS)


class DataFusion:
    def __init__(self, files, threads):
        import pyarrow
        from datafusion import SessionConfig, SessionContext

        types = {"bigint": pyarrow.int64(), "text": pyarrow.string(), "timestamp": pyarrow.timestamp("ms")}
        # Without it 0.908 is a float.
        config = SessionConfig().with_target_partitions(threads).set("datafusion.sql_parser.parse_float_as_decimal", "true")
        self.context = SessionContext(config)
        for table in common.COLUMNS:
            schema = pyarrow.schema([(name, types[sql_type]) for name, sql_type in common.columns(table)])
            self.context.register_json(table, str(files / table) + "/", schema=schema, file_extension=".jsonl")
        keys = range(SIDE_INPUT_ROWS)
        rows = pyarrow.RecordBatch.from_pydict({"key": list(keys), "value": [f"value {key}" for key in keys]})
        self.context.register_record_batches("side_input", [[rows]])

    def batches(self, text):
        return (batch.to_pyarrow() for batch in self.context.sql(text).execute_stream())


ENGINES = {"duckdb": DuckDb, "datafusion": DataFusion}


def query(engine, name):
    """A query in an engine's words: its own, else DuckDB's, else those of Thalweg, where all understand them."""
    places = [HERE / "queries" / engine, HERE / "queries" / "duckdb", HERE.parent / "queries"]
    return next(place / f"{name}.sql" for place in places if (place / f"{name}.sql").exists()).read_text()


def plain(value):
    """What JSON has no form for, as text."""
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return str(value)
    raise TypeError(f"{type(value).__name__} is not known")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", choices=ENGINES, required=True)
    parser.add_argument("--files", type=pathlib.Path, required=True, help="a folder with a folder of JSON lines for each table")
    parser.add_argument("--queries", required=True, help="names with commas between them")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--results", type=pathlib.Path)
    arguments = parser.parse_args()
    engine = ENGINES[arguments.engine](arguments.files, arguments.threads)
    for name in arguments.queries.split(","):
        batches = engine.batches(query(arguments.engine, name))
        if not arguments.results:
            sum(batch.num_rows for batch in batches)
            continue
        with (arguments.results / f"{name}.jsonl").open("w") as out:
            for batch in batches:
                out.writelines(json.dumps(row, default=plain) + "\n" for row in batch.to_pylist())


if __name__ == "__main__":
    main()
