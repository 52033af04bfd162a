#!/usr/bin/env python3
"""Measures what Thalweg wants to reach beside the benchmark's queries: state, inputs, freshness, reads, start, scaling, idling.

Prints a table of what was seen beside what is wanted. With a scale below 1 less is done, for a first look.
"""

import argparse
import importlib
import sys

from common import target

KINDS = ["start", "idle", "inputs", "freshness", "reads", "state", "scaling"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=str(target() / "release" / "thalweg"), help="the program")
    parser.add_argument("--only", default=",".join(KINDS), help="kinds with commas between them; all without it")
    parser.add_argument("--scale", type=float, default=1.0, help="how much of each to do")
    arguments = parser.parse_args()
    chosen = arguments.only.split(",")
    if unknown := [kind for kind in chosen if kind not in KINDS]:
        parser.error(f"there is no {unknown[0]}: there are {', '.join(KINDS)}")

    failed = False
    print("| | | seen | wanted | |\n|---|---|---|---|---|")
    for kind in chosen:
        try:
            for figure in importlib.import_module(f"goals.{kind}").run(arguments.bin, arguments.scale):
                reached = {True: "yes", False: "no", None: ""}[figure.reached]
                print(f"| {kind} | {figure.what} | {figure.seen} | {figure.wanted} | {reached} |", flush=True)
        except Exception as error:  # what one kind meets must not hide the others
            failed = True
            print(f"| {kind} | failed: {error} | | | |", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
