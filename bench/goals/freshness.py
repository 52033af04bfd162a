"""Freshness: from the moment at which a row was read to that at which a client has what it changed.

A row carries an epoch, the time in milliseconds when its epoch was opened, which is just before the row was read. So the time of a
change's arrival less its epoch is what is measured, and a little too much.
"""

import bisect
import multiprocessing
import time

import psycopg

from server import Server

from . import at_most, percentile, plain

RATE = 100_000
SECONDS = 300

# Each view with a query that tells any two of its states apart, and how the same is found from its changes.
VIEWS = {
    "hot": ("SELECT coalesce(sum(auction * num), 0)::bigint FROM hot", lambda row: row[0] * row[1]),
    "winning": ("SELECT coalesce(sum(category * n), 0)::bigint FROM winning", lambda row: row[0] * row[1]),
}

SCRIPT = """
CREATE SOURCE bid (auction bigint, bidder bigint, price bigint, "dateTime" timestamp, WATERMARK FOR "dateTime" AS "dateTime" - INTERVAL '1 second')
WITH (connector = 'nexmark', table = 'bid', rate = {rate}, event_rate = {rate}, splits = 2);
CREATE SOURCE auction (id bigint, category bigint, "dateTime" timestamp, expires timestamp, WATERMARK FOR "dateTime" AS "dateTime" - INTERVAL '1 second')
WITH (connector = 'nexmark', table = 'auction', rate = {rate}, event_rate = {rate}, splits = 2);
CREATE MATERIALIZED VIEW hot AS
SELECT c.auction, c.num
FROM (SELECT auction, COUNT(*) AS num, window_start, window_end
      FROM HOP(bid, "dateTime", INTERVAL '2 seconds', INTERVAL '10 seconds') GROUP BY auction, window_start, window_end) AS c
JOIN (SELECT MAX(num) AS maxn, window_start, window_end
      FROM (SELECT auction, COUNT(*) AS num, window_start, window_end
            FROM HOP(bid, "dateTime", INTERVAL '2 seconds', INTERVAL '10 seconds') GROUP BY auction, window_start, window_end) AS counts
      GROUP BY window_start, window_end) AS m
ON c.window_start = m.window_start AND c.window_end = m.window_end AND c.num >= m.maxn;
CREATE MATERIALIZED VIEW winning AS
SELECT a.category, count(*) AS n, sum(b.price) AS total
FROM bid AS b JOIN auction AS a ON b.auction = a.id AND b."dateTime" BETWEEN a."dateTime" AND a.expires
GROUP BY a.category;
"""


def run(binary, scale):
    seconds = max(10, SECONDS * scale)
    with Server(binary) as server:
        server.run(*(text for text in SCRIPT.format(rate=RATE).split(";") if text.strip()))
        # Windows are full and plans are warm by then.
        time.sleep(15)
        cpu, started = server.cpu_seconds(), time.monotonic()
        seen = watch(server.address(), seconds)
        server.check()
        yield plain(f"{RATE:,} events a second for {seconds:.0f} s, processor", (server.cpu_seconds() - cpu) / (time.monotonic() - started) * 100, "% of a core")
        yield plain("memory", server.memory_mb(), "MB")
        for view in VIEWS:
            subscribed, selected = ages(seen[view, "subscribe"], seen[view, "select"])
            for name, values in (("SUBSCRIBE", subscribed), ("SELECT", selected)):
                yield at_most(f"{view}: {name}, p50 of {len(values):,}", percentile(values, 50), 20, "ms")
                yield at_most(f"{view}: {name}, p99", percentile(values, 99), 50, "ms")
                yield plain(f"{view}: {name}, longest", max(values), "ms")
                yield plain(f"{view}: {name}, histogram", len(values), histogram(values))


def watch(address, seconds):
    """What readers saw, each in a process of its own so that none waits for another."""
    with multiprocessing.get_context("fork").Pool(2 * len(VIEWS)) as pool:
        pending = {
            (view, how): pool.apply_async(reader, (address, view, seconds))
            for view in VIEWS
            for how, reader in (("subscribe", subscribe), ("select", select))
        }
        return {key: result.get(timeout=seconds + 120) for key, result in pending.items()}


def subscribe(address, view, seconds):
    """When each epoch's changes came: time in milliseconds, epoch, and what the view's query gives from then on."""
    state, came, deadline = 0, [], time.time() + seconds
    measure = VIEWS[view][1]
    with psycopg.connect(address, autocommit=True) as connection, connection.cursor() as cursor:
        try:
            with cursor.copy(f"COPY (SUBSCRIBE TO {view}) TO STDOUT") as copy:
                for line in copy:
                    now = time.time()
                    if now > deadline:
                        connection.cancel()
                        deadline = float("inf")
                    for row in bytes(line).decode().splitlines():
                        epoch, weight, *columns = row.split("\t")
                        state += int(weight) * measure([int(column) for column in columns])
                        if came and came[-1][1] == int(epoch):
                            came[-1] = (now * 1000, int(epoch), state)
                        else:
                            came.append((now * 1000, int(epoch), state))
        except psycopg.errors.QueryCanceled:
            pass
    return came[1:]  # the first is what was there before


def select(address, view, seconds):
    """Answers of the view's query, asked again and again: when they came, and what they were."""
    answers, deadline = [], time.time() + seconds
    with psycopg.connect(address, autocommit=True) as connection:
        while time.time() < deadline:
            state = connection.execute(VIEWS[view][0], prepare=True).fetchone()[0]
            answers.append((time.time() * 1000, state))
            time.sleep(0.004)
    return answers


def ages(subscribed, selected):
    """How old changes were when they came, in milliseconds: as rows of SUBSCRIBE, and in the first answer that shows them."""
    epochs = [epoch for _, epoch, _ in subscribed]
    by_state = {state: epoch for _, epoch, state in subscribed}
    shown, newest = [], None
    for came, state in selected:
        epoch = by_state.get(int(state))
        if epoch is None or (newest is not None and epoch <= newest):
            continue
        if newest is not None:
            first = bisect.bisect_right(epochs, newest)
            shown += [came - e for e in epochs[first : bisect.bisect_right(epochs, epoch)]]
        newest = epoch
    return [came - epoch for came, epoch, _ in subscribed], shown


def histogram(values):
    bounds = [10, 20, 30, 40, 50, 75, 100, 200, 500]
    counts = [0] * (len(bounds) + 1)
    for value in values:
        counts[bisect.bisect_left(bounds, value)] += 1
    parts = [f"≤{bound}: {count}" for bound, count in zip(bounds, counts) if count]
    return "changes, in ms: " + ", ".join(parts + ([f"more: {counts[-1]}"] if counts[-1] else []))
