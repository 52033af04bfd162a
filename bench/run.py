#!/usr/bin/env python3
"""Measures the nexmark queries: events per second, events per CPU-second and peak memory, as a table.

Each query runs in a process of its own (`thalweg run`) into a blackhole sink, once from the generator and once from files of JSON
lines with the same events. Times are those of the whole process, from its start to its end. The events are those of all three
kinds together, one person and three auctions to 46 bids, whichever of them a query reads.
"""

import argparse
import pathlib
import sys

from common import generate, measure, names, query, side_input, sink, sources, target


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", default=str(target() / "release" / "thalweg"), help="the program")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--queries", default="", help="names with commas between them; all without it")
    parser.add_argument("--input", choices=["file", "generator", "both"], default="both")
    parser.add_argument("--files", type=pathlib.Path, help="where the events are kept as files")
    arguments = parser.parse_args()

    kinds = ["file", "generator"] if arguments.input == "both" else [arguments.input]
    files = (arguments.files or target() / "bench" / f"nexmark-{arguments.events}").resolve()
    if "file" in kinds:
        generate(arguments.bin, arguments.workers, arguments.events, files)
    start = min(measure(arguments.bin, arguments.workers, "SELECT 1;").seconds for _ in range(3))
    print(f"{arguments.events:,} events, {arguments.workers} workers; a process without a query takes {start:.2f} s\n")
    print(f"{'query':<6} {'input':<10} {'seconds':>8} {'events/s':>12} {'events/CPU-s':>13} {'peak MB':>8}")
    failed = False
    for name in names(arguments.queries):
        text = query(name)
        for kind in kinds:
            script = sources(kind, arguments.events, arguments.workers, files)
            script += side_input(text) + sink(name, text)
            try:
                cost = measure(arguments.bin, arguments.workers, script)
            except RuntimeError as error:
                failed = True
                print(f"{name:<6} {kind:<10} failed: {error}", flush=True)
                continue
            rate, per_cpu = arguments.events / cost.seconds, arguments.events / cost.cpu_seconds
            print(f"{name:<6} {kind:<10} {cost.seconds:>8.2f} {rate:>12,.0f} {per_cpu:>13,.0f} {cost.memory_mb:>8.0f}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
