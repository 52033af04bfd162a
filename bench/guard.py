#!/usr/bin/env python3
"""Compares how many instructions the nexmark queries take for each event with the recorded numbers in guard.txt.

Each query runs under callgrind, over two small files of events; what the larger takes more, divided by the events that it has
more, is what an event costs, without the start. The count of instructions does not depend on what else the machine does. One
worker, one epoch, no checkpoint before the end. A query that takes more than 5 % more than recorded fails; with --update the numbers are
recorded anew, to be committed with the change that explains them.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from common import HERE, generate, order, query, side_input, sink, sources, target

RECORD = HERE / "guard.txt"
GROWTH_MAX = 1.05
QUERIES = "q0,q2,q3,q4,q5,q7,q9,q12,q15,q17,q18,q20,hop"


def instructions(binary, script):
    """How many instructions a script takes."""
    with tempfile.TemporaryDirectory(prefix="thalweg-guard.") as folder:
        folder = pathlib.Path(folder)
        (folder / "script.sql").write_text(script)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("THALWEG_")}
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder / 'out'}", binary, "run", str(folder / "script.sql")]
        command += ["--workers", "1", "--checkpoint-interval", "1h", "--epoch-interval", "1min", "--data-dir", str(folder / "data")]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip())
        return int(re.search(r"^(?:summary|totals): (\d+)", (folder / "out").read_text(), re.M).group(1))


def cost(binary, name, sizes, files):
    """Instructions for each event of a query."""
    text, counts = query(name), []
    for events in sizes:
        script = sources("file", events, 1, files / str(events))
        script += side_input(text) + sink(name, text)
        counts.append(instructions(binary, script))
    return (counts[1] - counts[0]) / (sizes[1] - sizes[0])


def recorded():
    lines = RECORD.read_text().split("\n") if RECORD.exists() else []
    return {name: int(number) for name, number in (line.split() for line in lines if line and line[0] != "#")}


def record(costs):
    text = "# Instructions for each event, by query. Written by `make bench-guard GUARD=--update`.\n"
    RECORD.write_text(text + "".join(f"{name} {number:.0f}\n" for name, number in sorted(costs.items(), key=lambda c: order(c[0]))))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=str(target() / "release" / "thalweg"), help="the program")
    parser.add_argument("--queries", default=QUERIES, help="names with commas between them")
    parser.add_argument("--sizes", default="5000,65000", help="how many events the two files have")
    parser.add_argument("--update", action="store_true", help="record the numbers anew")
    arguments = parser.parse_args()
    if shutil.which("valgrind") is None:
        sys.exit("valgrind is missing: install the package valgrind")

    sizes = [int(size) for size in arguments.sizes.split(",")]
    before, costs = recorded(), {}
    with tempfile.TemporaryDirectory(prefix="thalweg-guard.") as folder:
        files = pathlib.Path(folder)
        for events in sizes:
            generate(arguments.bin, 1, events, files / str(events))
        print(f"{'query':<6} {'recorded':>10} {'now':>10} {'change':>8}")
        for name in arguments.queries.split(","):
            costs[name] = cost(arguments.bin, name, sizes, files)
            change = f"{costs[name] / before[name] - 1:+8.1%}" if name in before else f"{'new':>8}"
            print(f"{name:<6} {before.get(name, 0):>10,} {costs[name]:>10,.0f} {change}", flush=True)
    if arguments.update:
        record({**before, **costs})
        return
    grown = [name for name in costs if name not in before or costs[name] > before[name] * GROWTH_MAX]
    if grown:
        sys.exit(f"more than {GROWTH_MAX - 1:.0%} above what is recorded, or not recorded: {', '.join(grown)}")


if __name__ == "__main__":
    main()
