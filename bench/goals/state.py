"""State: what groups and rows take in memory, what a checkpoint costs, and how a small budget slows a job."""

import time

from common import measure
from server import Server

from . import at_least, at_most, plain

GROUPS = 20_000_000
CHANGES = 10_000
# What a change of a group is: its key, and its count.
CHANGE_BYTES = 16


def run(binary, scale):
    yield from groups(binary, int(GROUPS * scale))
    yield from rows(binary, int(2_000_000 * scale))
    yield from budget(binary, int(GROUPS * scale))


def groups(binary, count):
    """A count by key: first every key once, then a few a second at random."""
    with Server(binary, flags=["--job-memory", "8GB"]) as server:
        empty = server.memory_mb()
        server.run(
            f"CREATE SOURCE every (id bigint) WITH (connector = 'datagen', rows = {count}, splits = 2, fields.id.kind = 'sequence')",
            f"CREATE SOURCE few (id bigint) WITH (connector = 'datagen', rate = {CHANGES}, splits = 2, fields.id.max = {count - 1})",
            "CREATE SINK counts AS SELECT id, count(*) AS n FROM (SELECT id FROM every UNION ALL SELECT id FROM few) AS u GROUP BY id "
            "WITH (connector = 'blackhole', type = 'upsert', primary_key = 'id')",
        )
        server.wait_for("SELECT count(*) > 0 AND bool_and(ended) FROM thalweg.sources WHERE source = 'every'")
        # What was read at once is written out by then.
        time.sleep(30)
        resident = (server.memory_mb() - empty) * 2**20 / count
        yield at_most(f"memory of a group, of {count:,}", resident, 100, "bytes")
        yield plain("of these counted as state", server.value("SELECT state_bytes FROM thalweg.jobs WHERE name = 'counts'") / count, "bytes")
        seconds, cpu, written = 30, server.cpu_seconds(), server.written_bytes()
        took = "SELECT count(*), coalesce(sum(uploaded_bytes), 0) FROM thalweg.checkpoints WHERE state = 'durable'"
        checkpoints = server.rows(took)[0]
        time.sleep(seconds)
        server.check()
        share = (server.cpu_seconds() - cpu) / seconds * 100
        after = server.rows(took)[0]
        changed = CHANGES * seconds * CHANGE_BYTES
        yield at_most(f"{CHANGES:,} of them changed a second, a checkpoint each second: processor", share, 10, "% of a core", 1)
        yield at_most("written to disk, by key and count of the changed", (server.written_bytes() - written) / changed, 3, "times", 1)
        yield plain("uploaded", (int(after[1]) - int(checkpoints[1])) / changed, "times", 1)


KEPT = {
    "first rows (DISTINCT ON)": ("SELECT DISTINCT ON (id) id, v, a FROM r ORDER BY id, v DESC", "upsert', primary_key = 'id"),
    "top 10 (ROW_NUMBER)": (
        "SELECT id, v, a FROM (SELECT id, v, a, ROW_NUMBER() OVER (PARTITION BY id / 10 ORDER BY v) AS n FROM r) AS x WHERE n <= 10",
        "changelog",
    ),
    "a join's rows": ("SELECT r.id, r.v, r.a FROM r JOIN t ON r.id = t.id", "append-only"),
}


def rows(binary, count):
    """Rows of two numbers and a text of 100 letters that an operator keeps all of."""
    payload = 8 + 8 + 100
    for name, (text, kind) in KEPT.items():
        with Server(binary, flags=["--job-memory", "8GB"]) as server:
            empty = server.memory_mb()
            server.run(
                "CREATE TABLE t (id bigint PRIMARY KEY)",
                f"CREATE SOURCE r (id bigint, v bigint, a text) WITH (connector = 'datagen', rows = {count}, splits = 2, "
                "fields.id.kind = 'sequence', fields.a.length = 100)",
                f"CREATE SINK kept AS {text} WITH (connector = 'blackhole', type = '{kind}')",
            )
            server.wait_for("SELECT count(*) > 0 AND bool_and(ended) FROM thalweg.sources WHERE source = 'r'")
            time.sleep(5)
            state = server.value("SELECT state_bytes FROM thalweg.jobs WHERE name = 'kept'") / count / payload
            yield at_most(f"{name}: state by the payload of {count:,} rows", state, 1.3, "times", 2)
            yield plain(f"{name}: memory by the payload", (server.memory_mb() - empty) * 2**20 / count / payload, "times", 2)


def budget(binary, events):
    """Counts of skewed keys, with memory for all of them and for a tenth."""
    script = (
        f"CREATE SOURCE r (k bigint) WITH (connector = 'datagen', rows = {events}, splits = 2, fields.k.max = 999999999);\n"
        f"CREATE SINK counts AS SELECT (k / 1e9::float8 * (k / 1e9::float8) * (k / 1e9::float8) * {events})::bigint AS id, count(*) AS n FROM r GROUP BY 1 "
        "WITH (connector = 'blackhole', type = 'upsert', primary_key = 'id');\n"
    )
    ample = measure(binary, 2, script, ["--job-memory", "8GB"])
    state = ample.memory_mb
    tight = measure(binary, 2, script, ["--job-memory", f"{max(8, int(state / 10))}MB"])
    yield plain(f"{events:,} rows of skewed keys, all in memory ({state:,.0f} MB)", events / ample.seconds, "rows a second")
    yield at_least(f"with a tenth of that ({tight.memory_mb:,.0f} MB), of that rate", ample.seconds / tight.seconds * 100, 30, "%")
