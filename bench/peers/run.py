#!/usr/bin/env python3
"""Measures the nexmark queries in Thalweg and in other engines over the same files, and holds the results against each other.

First each engine's results over few events are compared with Thalweg's. Then each query runs in a process of its own, for each engine and
size, into a sink that drops everything. Rows are those of the tables that a query reads. The slope is what more rows cost: the rows by
which two sizes differ, by the CPU-seconds by which their runs do, so that start-up is taken off.
"""

import argparse
import json
import multiprocessing
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import common  # noqa: E402
import compare  # noqa: E402
import data  # noqa: E402
import engines  # noqa: E402
import quiet  # noqa: E402

THALWEG = "thalweg"
GIB = 2**30


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", default=str(common.target() / "release" / "thalweg"), help="Thalweg's program")
    parser.add_argument("--sizes", default="1000000,10000000", help="how many events, with commas between; none to compare only")
    parser.add_argument("--compare", type=int, default=100_000, help="over how many events results are compared; 0 for not at all")
    parser.add_argument("--queries", default="", help="names with commas between them; all without it")
    parser.add_argument("--engines", default="thalweg-on-close,flink,flink-minibatch,duckdb,datafusion", help="with commas between; Thalweg always runs")
    parser.add_argument("--workers", type=int, default=2, help="workers, parallelism, threads; and files for each table")
    parser.add_argument("--repeat", type=int, default=1, help="so many runs of each, of which the one with the least CPU time counts")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    parser.add_argument("--heap", default=f"{memory * 2 // 3 // GIB}g", help="Flink's heap at most; two thirds of the memory without it")
    parser.add_argument("--files", type=pathlib.Path, default=common.target() / "bench", help="where events and results are kept as files")
    parser.add_argument("--log", type=pathlib.Path, help="a file to which every measurement is added, a line of JSON each")
    arguments = parser.parse_args()
    if not pathlib.Path(arguments.bin).is_file():
        parser.error(f"there is no program at {arguments.bin}: build it, or give --bin")
    known = engines.all_engines(arguments.bin, arguments.workers, arguments.heap)
    chosen = [THALWEG, *(name for name in arguments.engines.split(",") if name and name != THALWEG)]
    if unknown := [name for name in chosen if name not in known]:
        parser.error(f"there is no engine {unknown[0]}: there are {', '.join(known)}")
    arguments.engines = [known[name] for name in chosen]
    arguments.queries = common.names(arguments.queries)
    arguments.sizes = sorted(int(size) for size in arguments.sizes.split(",") if size)
    return arguments


def agreement(arguments):
    """By query and engine: `yes`, or what is wrong. Details go to standard error."""
    events = data.prepare(arguments.bin, arguments.workers, arguments.compare, arguments.files)
    root = arguments.files.resolve() / f"results-{arguments.compare}"
    found = {}
    for engine in arguments.engines:  # Thalweg first
        out = root / engine.name
        out.mkdir(parents=True, exist_ok=True)
        print(f"results of {engine.name} over {arguments.compare:,} events", file=sys.stderr, flush=True)
        errors = engine.results(arguments.queries, events.folder, out)
        for query in arguments.queries:
            if query in errors:
                print(f"  {query} {failure(arguments, engine, query, errors[query])}", file=sys.stderr, flush=True)
                found[query, engine.name] = "failed"
            elif found.get((query, THALWEG)) == "failed":
                found[query, engine.name] = "unknown"
            elif engine.name != THALWEG:
                found[query, engine.name] = agrees(query, root / THALWEG, out)
    return found


def agrees(query, expected, out):
    # In a process of its own: one that is started later counts the peak of this one's memory for its own.
    with multiprocessing.get_context("fork").Pool(1) as pool:
        outcome = pool.apply(compare.compare, (query, expected / f"{query}.jsonl", out / f"{query}.jsonl"))
    if outcome.note:
        print(f"  {query} {'agrees' if outcome.agrees else 'differs'}, {outcome.rows} rows: {outcome.note}", file=sys.stderr, flush=True)
    if not outcome.agrees:
        return "NO"
    return "yes, ties" if outcome.note else "yes"


def measure(arguments, engine, query, events):
    """The rows and the run of each size; of several runs the one that took the least CPU time."""
    rows, runs = [], []
    for size in arguments.sizes:
        tries = [quiet.watched(lambda: engine.time(query, events[size].folder)) for _ in range(arguments.repeat)]
        rows.append(events[size].rows_read(common.query(query)))
        runs.append(min(tries, key=lambda run: run.cost.cpu_seconds))
        for run in tries:
            log(arguments, {"engine": engine.name, "query": query, "events": size, "rows": rows[-1]}, run)
    return rows, runs


def log(arguments, what, run):
    if arguments.log:
        record = {**what, "workers": arguments.workers, **vars(run.cost), "others_cpu_seconds": run.others}
        with arguments.log.open("a") as file:
            file.write(json.dumps(record) + "\n")


def slope(rows, runs):
    """Rows by CPU-second from the smallest to the largest size, or of the run where there is one size. None if noise is all there is."""
    more, seconds = rows[-1], runs[-1].cost.cpu_seconds
    if len(rows) > 1:
        more, seconds = rows[-1] - rows[0], seconds - runs[0].cost.cpu_seconds
    return more / seconds if more > 0 and seconds > 0 else None


def table(arguments, agreed):
    """Measures and prints, a line for each query and engine. Whether all went well."""
    events = {size: data.prepare(arguments.bin, arguments.workers, size, arguments.files) for size in arguments.sizes}
    sizes = " and ".join(f"{size:,}" for size in arguments.sizes)
    rate = "rows/CPU-s, slope" if len(arguments.sizes) > 1 else "rows/CPU-s, whole"
    print(f"{sizes} events, {arguments.workers} workers; rows, seconds and memory of the last; ~ where others used the machine\n")
    print(f"{'query':<6} {'engine':<16} {'rows':>12} {'seconds':>8} {'CPU-s':>8}  {'peak MB':>8} {rate:>18} {'Thalweg/peer':>13}  agrees")
    well = True
    for query in arguments.queries:
        own = None
        for engine in arguments.engines:
            try:
                rows, runs = measure(arguments, engine, query, events)
            except RuntimeError as error:
                well = False
                print(f"{query:<6} {engine.name:<16} {failure(arguments, engine, query, error)}", flush=True)
                continue
            speed = slope(rows, runs)
            own = speed if engine.name == THALWEG else own
            ratio = f"{own / speed:.2f}" if own and speed and engine.name != THALWEG else ""
            line = f"{query:<6} {engine.name:<16} {figures(rows[-1], runs)} {f'{speed:,.0f}' if speed else '-':>18} {ratio:>13}"
            print(f"{line}  {agreed.get((query, engine.name), '')}".rstrip(), flush=True)
    return well


def figures(rows, runs):
    cost, mark = runs[-1].cost, "~" if any(run.disturbed for run in runs) else " "
    return f"{rows:>12,} {cost.seconds:>8.2f} {cost.cpu_seconds:>8.2f}{mark} {cost.memory_mb:>8.0f}"


def failure(arguments, engine, query, error):
    """What went wrong, in a line; all that the engine said goes to a file."""
    path = arguments.files / "errors" / f"{engine.name}-{query}.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(str(error))
    lines = str(error).strip().splitlines()
    # Java's last cause is the first, Thalweg's first line says it, Python's last one.
    told = [line for line in lines if line.startswith("Caused by: ")][-1:] or [line for line in lines if line.startswith("ERROR: ")]
    return f"failed: {(told or lines[-1:])[0]} (see {path})"


def main():
    arguments = parse()
    common.adopt_orphans()
    if needed := sorted({engine.needs for engine in arguments.engines if engine.needs}):
        subprocess.run([HERE / "setup.sh", *needed], check=True)
    agreed = agreement(arguments) if arguments.compare else {}
    well = all(outcome not in ("NO", "failed") for outcome in agreed.values())
    if arguments.sizes:
        well = table(arguments, agreed) and well
    else:
        for (query, engine), outcome in sorted(agreed.items(), key=lambda item: common.order(item[0][0])):
            print(f"{query:<6} {engine:<15} {outcome}")
    sys.exit(0 if well else 1)


if __name__ == "__main__":
    main()
