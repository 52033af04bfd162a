#!/usr/bin/env python3
"""Runs queries in Flink SQL: streaming, on the cluster that a process holds in itself, to the end of the files.

With --results the last state of each result goes to a folder, as lines of JSON. Without, results go to a blackhole sink.
"""

import argparse
import collections
import json
import pathlib
import sys
import tempfile

from pyflink.common import Configuration
from pyflink.table import EnvironmentSettings, FormatDescriptor, TableDescriptor, TableEnvironment

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import common  # noqa: E402

TYPES = {"bigint": "BIGINT", "text": "STRING", "timestamp": "TIMESTAMP(3)"}

# What Flink's documents name to let operators that aggregate take rows by the batch.
VARIANTS = {
    "plain": {},
    "minibatch": {
        "table.exec.mini-batch.enabled": "true",
        "table.exec.mini-batch.allow-latency": "2 s",
        "table.exec.mini-batch.size": "50000",
        "table.optimizer.distinct-agg.split.enabled": "true",
    },
}

# Flink 2.3 takes the first row by two columns for one that never changes (FLINK-40368), so what a new one replaces is not
# taken back. Such changes are read as a table with this key.
REPLACED_BY = {"q9": ("id",)}


def environment(arguments, scratch):
    settings = {
        "parallelism.default": str(arguments.parallelism),
        "pipeline.object-reuse": "true",
        "pipeline.jars": arguments.lookup.resolve().as_uri(),
        "state.backend.type": "hashmap",
        "taskmanager.memory.network.min": "128m",
        "taskmanager.memory.network.max": "128m",
        "restart-strategy.type": "none",
        "table.local-time-zone": "UTC",
        "io.tmp.dirs": scratch,
        **VARIANTS[arguments.variant],
    }
    if arguments.results:
        # One reader may read two small files, one after the other: without watermarks before the end nothing is late.
        settings["pipeline.auto-watermark-interval"] = "0"
    configuration = Configuration()
    for name, value in settings.items():
        configuration.set_string(name, value)
    made = EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(configuration).build()
    return TableEnvironment.create(made)


def declare(tables, files):
    for table in common.COLUMNS:
        columns = [f"`{name}` {TYPES[sql_type]}" for name, sql_type in common.columns(table)]
        columns.append("WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '4' SECOND")
        tables.execute_sql(
            f"CREATE TABLE {table} ({', '.join(columns)}) WITH ('connector' = 'filesystem', "
            f"'path' = '{(files / table).resolve().as_uri()}', 'format' = 'json', 'json.timestamp-format.standard' = 'ISO-8601')"
        )
    tables.execute_sql(
        "CREATE TABLE side_input (`key` BIGINT, `value` STRING) WITH ('connector' = 'side-input', 'rows' = '10000')"
    )


def changes_to(folder):
    """A sink that keeps every change, with what it replaces."""
    form = FormatDescriptor.for_format("debezium-json").option("timestamp-format.standard", "ISO-8601").build()
    return TableDescriptor.for_connector("filesystem").option("path", folder.as_uri()).format(form).build()


def add_up(folder, key):
    """The lines of JSON that are left after all changes. With a key a row replaces the one before it; else counts say."""
    counts, latest = collections.Counter(), {}
    # A task's files are numbered as they were written, and rows of a key are all of one task.
    files = sorted((path for path in folder.rglob("part-*")), key=lambda path: int(path.name.rsplit("-", 1)[1]))
    for path in files:
        for line in path.open():
            change = json.loads(line, parse_float=str)
            for image, step in (("before", -1), ("after", 1)):
                if (row := change.get(image)) is not None:
                    text = json.dumps(row)
                    counts[text] += step
                    if key and step > 0:
                        latest[tuple(row[column] for column in key)] = text
    if key:
        return list(latest.values())
    if negative := [row for row, count in counts.items() if count < 0]:
        raise RuntimeError(f"{len(negative)} rows were taken back that were not there, as {negative[0]}")
    return list(counts.elements())


def run(tables, name, arguments, scratch):
    text = (HERE / "queries" / "flink" / f"{name}.sql").read_text()
    table = tables.sql_query(text)
    if not arguments.results:
        table.execute_insert(TableDescriptor.for_connector("blackhole").build()).wait()
        return
    folder = pathlib.Path(scratch) / name
    table.execute_insert(changes_to(folder)).wait()
    lines = add_up(folder, REPLACED_BY.get(name))
    (arguments.results / f"{name}.jsonl").write_text("".join(line + "\n" for line in lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=pathlib.Path, required=True, help="a folder with a folder of JSON lines for each table")
    parser.add_argument("--queries", required=True, help="names with commas between them")
    parser.add_argument("--lookup", type=pathlib.Path, required=True, help="the jar with the table that q13 looks up")
    parser.add_argument("--variant", choices=VARIANTS, default="plain")
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--results", type=pathlib.Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="thalweg-flink.") as scratch:
        tables = environment(arguments, scratch)
        declare(tables, arguments.files)
        for name in arguments.queries.split(","):
            run(tables, name, arguments, scratch)


if __name__ == "__main__":
    main()
