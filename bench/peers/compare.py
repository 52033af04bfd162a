#!/usr/bin/env python3
"""Holds results against each other: the same rows, each as often, in any order.

compare.py EXPECTED ACTUAL [QUERY...] takes folders of files QUERY.jsonl, as the runs with --results leave them.
Numbers with a fraction may differ by a billionth, times by zeros at their end. Where rows tie for a place that only some get, each engine
chooses as it likes: these queries are compared by the columns in which all choices are the same, and as whole rows for the record.
"""

import argparse
import collections
import dataclasses
import decimal
import json
import math
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import common  # noqa: E402

TIES = {
    "q9": ("id", "price", "bid_dateTime"),
    "q18": ("auction", "bidder", "dateTime"),
    "q19": ("auction", "price", "rank_number"),
}

NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?")
TIME = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:\.(\d+))?")
TOLERANCE = 1e-9


@dataclasses.dataclass(frozen=True)
class Comparison:
    """What came of it. `note` says what differs, also among ties."""

    agrees: bool
    rows: int
    note: str


def compare(name, expected, actual):
    """Compares two files of rows."""
    want, have = read(expected), read(actual)
    whole = difference(want, have)
    columns = TIES.get(name)
    if not whole or not columns:
        return Comparison(not whole, len(want), whole)
    left = difference([only(row, columns) for row in want], [only(row, columns) for row in have])
    return Comparison(not left, len(want), left or f"but for ties: {whole}")


def read(path):
    """The rows, each a tuple of names and cells in the order of the names."""
    with path.open() as lines:
        rows = (json.loads(line, parse_float=decimal.Decimal) for line in lines)
        return [tuple(sorted((name.lower(), cell(value)) for name, value in row.items())) for row in rows]


def cell(value):
    """A value as all engines would have it: an engine may write a number with a fraction, or a time, in several ways."""
    if not isinstance(value, str):
        return value
    if time := TIME.fullmatch(value):
        fraction = (time[3] or "").rstrip("0")
        return f"{time[1]} {time[2]}" + (f".{fraction}" if fraction else "")
    return decimal.Decimal(value) if NUMBER.fullmatch(value) else value


def only(row, columns):
    wanted = {column.lower() for column in columns}
    return tuple((name, value) for name, value in row if name in wanted)


def difference(want, have):
    """In words; nothing where there is none."""
    want, have = collections.Counter(want), collections.Counter(have)
    missing, extra = list((want - have).elements()), list((have - want).elements())
    if len(missing) == len(extra):
        pairs = zip(sorted(missing, key=repr), sorted(extra, key=repr))
        if all(near(a, b) for a, b in pairs):
            return ""
    shown = "; ".join(f"{what} {shorten(rows[0])}" for what, rows in (("missing", missing), ("too many", extra)) if rows)
    return f"{len(missing)} rows missing, {len(extra)} too many, as {shown}"


def shorten(row):
    text = ", ".join(f"{name}={value}" for name, value in row)
    return text if len(text) <= 200 else f"{text[:200]}…"


def near(a, b):
    """Whether two rows are equal but for rounding."""
    return len(a) == len(b) and all(x[0] == y[0] and near_cells(x[1], y[1]) for x, y in zip(a, b))


def near_cells(x, y):
    if isinstance(x, decimal.Decimal) and isinstance(y, decimal.Decimal):
        return math.isclose(x, y, rel_tol=TOLERANCE)
    return x == y


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("expected", type=pathlib.Path)
    parser.add_argument("actual", type=pathlib.Path)
    parser.add_argument("queries", nargs="*", help="all that the first folder has, without any")
    arguments = parser.parse_args()
    names = arguments.queries or sorted((path.stem for path in arguments.expected.glob("*.jsonl")), key=common.order)
    outcomes = []
    for name in names:
        outcome = compare(name, arguments.expected / f"{name}.jsonl", arguments.actual / f"{name}.jsonl")
        print(f"{name:<6} {'agrees' if outcome.agrees else 'DIFFERS'}, {outcome.rows} rows {outcome.note}".rstrip(), flush=True)
        outcomes.append(outcome)
    if not outcomes:
        sys.exit(f"there are no results in {arguments.expected}")
    sys.exit(0 if all(outcome.agrees for outcome in outcomes) else 1)


if __name__ == "__main__":
    main()
