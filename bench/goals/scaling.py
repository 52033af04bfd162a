"""Scaling: more workers, more events, more windows for each row, more rows kept by a top-N."""

from common import measure, query, sink, sources

from . import at_least, at_most, plain

QUERIES = ["q0", "q4", "q5", "q7", "q9", "q12", "q16", "q17", "q18", "q20", "hop"]


def run(binary, scale):
    yield from workers(binary, int(3_000_000 * scale))
    yield from events(binary, scale)
    yield from windows(binary, int(2_000_000 * scale))
    yield from top_n(binary, int(1_000_000 * scale))


def generated(name, events, workers):
    text = query(name)
    return sources("generator", events, workers, None) + sink(name, text)


def workers(binary, events):
    """Wall time with one worker by that with two."""
    for name in QUERIES:
        one, two = (measure(binary, n, generated(name, events, n)).seconds for n in (1, 2))
        yield at_least(f"{name}, {events:,} events: two workers by one", one / two, 1.8, "times", 2)


def events(binary, scale):
    """What an event costs as there are more of them."""
    for name in ("q0", "q5", "q17"):
        costs = []
        for millions in (1, 10, 100):
            count = int(millions * 1e6 * scale)
            cost = measure(binary, 2, generated(name, count, 2))
            costs.append(cost.cpu_seconds / count * 1e9)
            yield plain(f"{name}, {count:,} events, {cost.memory_mb:,.0f} MB", costs[-1], "ns of CPU an event")
        yield at_most(f"{name}: an event of the most by one of the fewest", costs[-1] / costs[0], 1.3, "times", 2)


def windows(binary, events):
    """A count over hopping windows of which each row is in more and more."""
    costs = []
    for size in (10, 100, 1000):
        text = (
            'SELECT auction, COUNT(*) AS num, window_start AS starttime FROM '
            f"HOP(bid, \"dateTime\", INTERVAL '2 seconds', INTERVAL '{size} seconds') WHERE auction % 100 = 0 GROUP BY auction, window_start, window_end"
        )
        cost = measure(binary, 2, sources("generator", events, 2, None) + sink("hop", text))
        costs.append(cost.cpu_seconds / events * 1e9)
        yield plain(f"hopping windows, {size // 2} for each row", costs[-1], "ns of CPU an event")


def top_n(binary, rows):
    """The first rows of one partition, where each new row is one of them."""
    costs = []
    for limit in (10, 1000, 100_000):
        script = (
            f"CREATE SOURCE r (id bigint, v bigint) WITH (connector = 'datagen', rows = {rows}, splits = 2, fields.id.kind = 'sequence');\n"
            "CREATE SINK result AS SELECT id, v FROM (SELECT id, v, ROW_NUMBER() OVER (PARTITION BY id % 2 ORDER BY id DESC) AS n FROM r) AS x "
            f"WHERE n <= {limit} WITH (connector = 'blackhole', type = 'changelog');\n"
        )
        cost = measure(binary, 2, script)
        costs.append(cost.cpu_seconds / rows * 1e9)
        yield plain(f"top {limit:,}, every row comes in first", costs[-1], "ns of CPU a row")
