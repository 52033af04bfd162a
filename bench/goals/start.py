"""Start and stop: a script's first row, and a server with much state after `kill -9`."""

import subprocess
import tempfile
import time

from common import watch
from server import Server

from . import at_least, at_most, percentile, plain

VIEWS = 100
RATE_EVENTS = 20_000


def run(binary, scale):
    yield from script(binary)
    yield from server(binary, scale)


def script(binary):
    """The whole process for one row, which is more than the time to it."""
    runs = []
    for _ in range(21):
        with tempfile.TemporaryDirectory(prefix="thalweg-bench.") as folder:
            runs.append(watch([binary, "run", "-e", "SELECT 1", "--data-dir", folder], None, subprocess.DEVNULL))
    yield at_most("`thalweg run -e 'SELECT 1'`, median of 21", percentile([r.seconds for r in runs], 50) * 1000, 60, "ms")
    yield at_most("its peak memory", max(r.memory_mb for r in runs), 40, "MB")


def server(binary, scale):
    """Views over a wide table of state, killed while rows come in."""
    gigabytes = 10 * scale
    rows = int(gigabytes * 1e9 / 1024)
    with Server(binary, flags=["--checkpoint-interval", "1s"]) as server:
        server.run(
            f"CREATE SOURCE wide (id bigint, a text, b text) WITH (connector = 'datagen', rows = {rows}, splits = 2, "
            "fields.id.kind = 'sequence', fields.a.length = 500, fields.b.length = 500)",
            "CREATE MATERIALIZED VIEW big AS SELECT id, max(a) AS a, max(b) AS b FROM wide GROUP BY id",
        )
        server.wait_until_read("big")
        server.run(
            f"CREATE SOURCE event (k bigint, v bigint) WITH (connector = 'datagen', rate = {RATE_EVENTS}, splits = 2, fields.k.max = 1000)",
            *(f"CREATE MATERIALIZED VIEW v{i} AS SELECT k, count(*) AS n, sum(v) AS s FROM event WHERE k % {VIEWS} = {i} GROUP BY k" for i in range(VIEWS - 2)),
            "CREATE MATERIALIZED VIEW rate AS SELECT count(*) AS n FROM event",
        )
        server.wait_for("SELECT n > 100000 FROM rate")
        before = rate(server)
        yield plain(f"state of {VIEWS} views", server.value("SELECT sum(size_bytes) / 1e9 FROM (SELECT size_bytes FROM thalweg.checkpoints WHERE state = 'durable' ORDER BY epoch DESC LIMIT 1) AS c"), "GB", 1)
        server.kill()
        started = time.monotonic()
        server.start()
        assert server.rows("SELECT id FROM big WHERE id = 7") == [(7,)]
        yield at_most("start after `kill -9` to the first answer", time.monotonic() - started, 1, "s", 2)
        while rate(server) < before * 0.9:
            server.check()
        yield at_most("to the full rate", time.monotonic() - started, 10, "s", 1)
        yield at_least("rate after it, of that before", rate(server) / before * 100, 90, "%")


def rate(server, seconds=1.0):
    """Rows a second that a view has taken."""
    first, started = server.value("SELECT n FROM rate"), time.monotonic()
    time.sleep(seconds)
    return (server.value("SELECT n FROM rate") - first) / (time.monotonic() - started)
