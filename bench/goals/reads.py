"""Reads: lookups by key and whole scans of a large view, and what they cost who keeps views up to date."""

import multiprocessing
import os
import pathlib
import random
import subprocess
import sys
import time

import psycopg

from server import Server

from . import at_most, percentile, plain

ROWS = 10_000_000
LOOKUPS = 5_000
SCAN = "SELECT count(*), sum(total), max(n) FROM v"

# The same query by DataFusion over the same number of rows in memory, in an environment of `bench/peers/setup.sh datafusion`.
DATAFUSION = """
import sys, time, datafusion, pyarrow
from pyarrow import compute
rows = int(sys.argv[1])
numbers = compute.cast(compute.floor(compute.multiply(compute.random(rows), 2.0**31)), pyarrow.int64())
table = pyarrow.table({"id": pyarrow.array(range(rows)), "total": numbers, "n": pyarrow.repeat(1, rows)})
context = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(2))
context.register_record_batches("v", [table.to_batches(8192)[i::2] for i in range(2)])
took = []
for _ in range(7):
    started = time.monotonic()
    context.sql(sys.argv[2]).collect()
    took.append(time.monotonic() - started)
print(sorted(took)[3])
"""


def run(binary, scale):
    rows = int(ROWS * scale)
    with Server(binary, flags=["--job-memory", "4GB"]) as server:
        server.run(
            f"CREATE SOURCE r (id bigint, amount bigint) WITH (connector = 'datagen', rows = {rows}, splits = 2, fields.id.kind = 'sequence')",
            "CREATE MATERIALIZED VIEW v AS SELECT id, sum(amount)::bigint AS total, count(*) AS n FROM r GROUP BY id",
        )
        server.wait_until_read("v")
        yield from lookups(server, rows)
        yield from scan(server, rows)
    yield from maintenance(binary, scale)


def lookups(server, rows):
    """One after another from each of some connections."""
    for connections in (1, 8):
        with multiprocessing.get_context("fork").Pool(connections) as pool:
            times = pool.starmap(look_up, [(server.address(), rows, LOOKUPS // connections, seed) for seed in range(connections)])
        times = [t * 1000 for part in times for t in part]
        yield plain(f"lookup by key among {rows:,} rows, {connections} connections, p50", percentile(times, 50), "ms", 2)
        yield at_most("its p99", percentile(times, 99), 2, "ms", 2)


def look_up(address, rows, count, seed, pause=0.0):
    times, numbers = [], random.Random(seed)
    with psycopg.connect(address, autocommit=True) as connection:
        for _ in range(count):
            key = numbers.randrange(rows)
            started = time.monotonic()
            found = connection.execute("SELECT total FROM v WHERE id = %s", (key,), prepare=True).fetchall()
            times.append(time.monotonic() - started)
            assert len(found) == 1
            time.sleep(pause)
    return times[count // 20 :]


def scan(server, rows):
    """A whole scan with an aggregate."""
    took = []
    for _ in range(5):
        started = time.monotonic()
        counted = server.value(SCAN)
        took.append(time.monotonic() - started)
        assert counted == rows
    own = percentile(took, 50)
    yield plain(f"scan of {rows:,} rows with an aggregate, median of 5", own, "s", 3)
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
    python = cache / "thalweg" / "peers" / "datafusion" / "bin" / "python"
    if not python.exists():
        print("DataFusion is not there to compare with: bench/peers/setup.sh datafusion", file=sys.stderr)
        return
    done = subprocess.run([python, "-c", DATAFUSION, str(rows), SCAN], capture_output=True, text=True, check=True)
    yield at_most("by DataFusion's over rows in memory", own / float(done.stdout), 2, "times", 1)


def maintenance(binary, scale):
    """The rate at which a view takes rows, with and without lookups and scans."""
    rows = int(8_000_000 * scale)
    rates = []
    for reading in (False, True, False, True):
        with Server(binary) as server:
            server.run(
                f"CREATE SOURCE r (id bigint, amount bigint) WITH (connector = 'datagen', rows = {rows}, splits = 2, fields.id.max = 1000000)",
                "CREATE MATERIALIZED VIEW v AS SELECT id % 1000000 AS id, sum(amount)::bigint AS total FROM r GROUP BY id % 1000000",
            )
            started, before = time.monotonic(), server.cpu_seconds()
            readers = [multiprocessing.Process(target=keep_reading, args=(server.address(),)) for _ in range(4 if reading else 0)]
            for reader in readers:
                reader.start()
            server.wait_until_read("v")
            rates.append((time.monotonic() - started, server.cpu_seconds() - before))
            for reader in readers:
                reader.kill()
    quiet, read = (min(rates[i][0], rates[i + 2][0]) for i in (0, 1))
    yield plain("a view over 8 million rows, without readers", quiet, "s", 2)
    yield at_most("four readers with 100 lookups a second each make that longer by", (read / quiet - 1) * 100, 10, "%")


def keep_reading(address):
    while True:
        try:
            with psycopg.connect(address, autocommit=True) as connection:
                while True:
                    connection.execute("SELECT total FROM v WHERE id = %s", (random.randrange(1_000_000),), prepare=True).fetchall()
                    time.sleep(0.01)
        except psycopg.OperationalError:
            return
