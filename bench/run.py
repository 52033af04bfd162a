#!/usr/bin/env python3
"""Measures the nexmark queries: events per second, events per CPU-second and peak memory, as a table.

Each query runs in a process of its own (`thalweg run`) into a blackhole sink, once from the generator and once from files of JSON
lines with the same events. Times are those of the whole process, from its start to its end. The events are those of all three
kinds together, one person and three auctions to 46 bids, whichever of them a query reads.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent

COLUMNS = {
    "person": 'id bigint, name text, "emailAddress" text, "creditCard" text, city text, state text, "dateTime" timestamp, extra text',
    "auction": 'id bigint, "itemName" text, description text, "initialBid" bigint, reserve bigint, "dateTime" timestamp, '
    "expires timestamp, seller bigint, category bigint, extra text",
    "bid": 'auction bigint, bidder bigint, price bigint, channel text, url text, "dateTime" timestamp, extra text',
}

# What makes a row of a result that changes known again. Without an entry a result only grows.
KEYS = {
    "hop": "auction,starttime",
    "q4": "category",
    "q5": "auction,num",
    "q7": "auction,bidder,price",
    "q8": "id,name,starttime",
    "q9": "id",
    "q12": "bidder,starttime",
    "q13": "auction,bidder,price,dateTime",
    "q15": "day",
    "q16": "channel,day",
    "q17": "auction,day",
    "q18": "bidder,auction",
    "q19": "auction,rank_number",
}

SIDE_INPUT = """
CREATE TABLE side_input ("key" bigint PRIMARY KEY, "value" text);
INSERT INTO side_input SELECT value, 'value ' || value FROM generate_series(0, 9999) AS s(value);
"""


def order(name):
    return (name[0] != "q", int(name[1:]) if name[1:].isdigit() else 0)


def sources(kind, events, workers, files):
    """The three sources, from the generator or from files."""
    text = ""
    for table, columns in COLUMNS.items():
        watermark = 'WATERMARK FOR "dateTime" AS "dateTime" - INTERVAL \'4 seconds\''
        if kind == "generator":
            options = f"connector = 'nexmark', table = '{table}', events = {events}, splits = {workers}"
            encode = ""
        else:
            options = f"connector = 'file', path = '{files / table}'"
            encode = " FORMAT PLAIN ENCODE JSON"
        text += f"CREATE SOURCE {table} ({columns}, {watermark}) WITH ({options}){encode};\n"
    return text


def sink(name, query):
    key = KEYS.get(name)
    shape = f"type = 'upsert', primary_key = '{key}'" if key else "type = 'append-only'"
    return f"CREATE SINK result AS {query} WITH (connector = 'blackhole', {shape});\n"


def measure(binary, workers, script, flags=()):
    """Runs a script; seconds, CPU-seconds and peak memory in MB."""
    with tempfile.TemporaryDirectory(prefix="thalweg-bench.") as folder:
        path = pathlib.Path(folder) / "script.sql"
        path.write_text(script)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("THALWEG_")}
        command = [binary, "run", str(path), "--workers", str(workers), "--data-dir", str(pathlib.Path(folder) / "data"), *flags]
        started = time.monotonic()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment)
        errors = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise RuntimeError(errors.decode(errors="replace").strip() or f"exit code {process.returncode}")
        return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def generate(binary, workers, events, files):
    """Writes the events as JSON lines, a folder for each kind, unless they are there."""
    done = files / ".done"
    if done.exists():
        return
    shutil.rmtree(files, ignore_errors=True)
    files.mkdir(parents=True)
    print(f"writing {events:,} events to {files}", file=sys.stderr)
    script = sources("generator", events, 1, files)
    for table in COLUMNS:
        script += (
            f"CREATE SINK {table}_out AS SELECT * FROM {table} "
            f"WITH (connector = 'file', path = '{files / table}', type = 'append-only') FORMAT PLAIN ENCODE JSON;\n"
        )
    measure(binary, 1, script)
    done.touch()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent / "target"))
    parser.add_argument("--bin", default=str(target / "release" / "thalweg"), help="the program")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--queries", default="", help="names with commas between them; all without it")
    parser.add_argument("--input", choices=["file", "generator", "both"], default="both")
    parser.add_argument("--files", type=pathlib.Path, help="where the events are kept as files")
    arguments = parser.parse_args()

    names = arguments.queries.split(",") if arguments.queries else sorted((p.stem for p in (HERE / "queries").glob("*.sql")), key=order)
    kinds = ["file", "generator"] if arguments.input == "both" else [arguments.input]
    files = (arguments.files or target / "bench" / f"nexmark-{arguments.events}").resolve()
    if "file" in kinds:
        generate(arguments.bin, arguments.workers, arguments.events, files)
    start = min(measure(arguments.bin, arguments.workers, "SELECT 1;")[0] for _ in range(3))
    print(f"{arguments.events:,} events, {arguments.workers} workers; a process without a query takes {start:.2f} s\n")
    print(f"{'query':<6} {'input':<10} {'seconds':>8} {'events/s':>12} {'events/CPU-s':>13} {'peak MB':>8}")
    failed = False
    for name in names:
        query = (HERE / "queries" / f"{name}.sql").read_text()
        for kind in kinds:
            script = sources(kind, arguments.events, arguments.workers, files)
            script += (SIDE_INPUT if "side_input" in query else "") + sink(name, query)
            try:
                seconds, cpu, memory = measure(arguments.bin, arguments.workers, script)
            except RuntimeError as error:
                failed = True
                print(f"{name:<6} {kind:<10} failed: {error}", flush=True)
                continue
            rate, per_cpu = arguments.events / seconds, arguments.events / cpu
            print(f"{name:<6} {kind:<10} {seconds:>8.2f} {rate:>12,.0f} {per_cpu:>13,.0f} {memory:>8.0f}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
