"""Idle: many views over sources that give nothing."""

import time

from server import Server

from . import at_most

VIEWS = 500
SOURCES = 10


def run(binary, scale):
    views = max(1, int(VIEWS * scale))
    with Server(binary) as server:
        folder = server.folder / "in"
        folder.mkdir()
        for source in range(SOURCES):
            (folder / f"{source}.json").write_text('{"k": 1, "v": 2}\n')
        server.run(
            *(
                f"CREATE SOURCE s{i} (k bigint, v bigint) WITH (connector = 'file', path = '{folder / f'{i}.json'}', follow = 'true') "
                "FORMAT PLAIN ENCODE JSON"
                for i in range(SOURCES)
            ),
            *(f"CREATE MATERIALIZED VIEW v{i} AS SELECT k, count(*) AS n, sum(v + {i}) AS s FROM s{i % SOURCES} GROUP BY k" for i in range(views)),
        )
        server.wait_for(f"SELECT count(*) = {views} FROM thalweg.jobs WHERE state = 'running' AND kind = 'materialized view'")
        server.wait_for(f"SELECT coalesce(sum(s), 0) = {views + 1} FROM v{views - 1}")
        # What was created is written out by then, and sources are looked at as seldom as they ever are.
        time.sleep(30)
        before, started = server.cpu_seconds(), time.monotonic()
        time.sleep(30)
        share = (server.cpu_seconds() - before) / (time.monotonic() - started) * 100
        server.check()
        yield at_most(f"processor time with {views} idle views", share, 2, "% of a core", 2)
        yield at_most("memory", server.memory_mb(), 200, "MB")
