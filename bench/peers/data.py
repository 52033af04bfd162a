"""The events that all engines read: those of `make bench`, dealt to as many files as there are workers."""

import dataclasses
import itertools
import json
import pathlib
import shutil
import sys

import common

# Lines go to one file after another in runs of so many, so that readers of the files stay close in event time.
RUN = 100


@dataclasses.dataclass(frozen=True)
class Data:
    """A folder for each table, and how many rows each has."""

    folder: pathlib.Path
    rows: dict

    def rows_read(self, text):
        """Rows of the tables that a query (in Thalweg's words) reads."""
        return sum(self.rows[table] for table in common.reads(text))


def prepare(binary, workers, events, root):
    """The events as files, written unless they are there. The generator alone leaves a file for each checkpoint that it lived through."""
    written = (root / f"nexmark-{events}").resolve()
    folder = written.with_name(f"{written.name}-in-{workers}")
    done = folder / ".rows.json"
    if not done.exists():
        common.generate(binary, workers, events, written)
        shutil.rmtree(folder, ignore_errors=True)
        print(f"dealing {events:,} events to {folder}", file=sys.stderr)
        rows = {table: deal(written / table, folder / table, workers) for table in common.COLUMNS}
        done.write_text(json.dumps(rows))
    return Data(folder, json.loads(done.read_text()))


def deal(written, folder, parts):
    """Deals the lines of a table, in the order in which they were written; how many there are."""
    folder.mkdir(parents=True)
    files = [open(folder / f"part-{part}.jsonl", "wb") for part in range(parts)]
    turn = itertools.cycle(files)
    lines = itertools.chain.from_iterable(open(path, "rb") for path in sorted(written.glob("*.json*")))
    count = 0
    while run := list(itertools.islice(lines, RUN)):
        next(turn).writelines(run)
        count += len(run)
    for file in files:
        file.close()
    return count
