"""What the measurements share: the tables, the scripts that Thalweg runs, the events as files, and how a run is measured."""

import ctypes
import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
QUERIES = HERE / "queries"

COLUMNS = {
    "person": 'id bigint, name text, "emailAddress" text, "creditCard" text, city text, state text, "dateTime" timestamp, extra text',
    "auction": 'id bigint, "itemName" text, description text, "initialBid" bigint, reserve bigint, "dateTime" timestamp, '
    "expires timestamp, seller bigint, category bigint, extra text",
    "bid": 'auction bigint, bidder bigint, price bigint, channel text, url text, "dateTime" timestamp, extra text',
}

# Results whose rows can go, though no key tells them apart.
CHANGELOGS = {"q5", "q7", "q13"}

# Results of windows alone, which can be given when they close.
WINDOWS = {"hop", "q5", "q8", "q12"}

# What makes a row of a result that changes known again. Without an entry here or above a result only grows.
KEYS = {
    "hop": "auction,starttime",
    "q4": "category",
    "q8": "id,name,starttime",
    "q9": "id",
    "q12": "bidder,starttime",
    "q15": "day",
    "q16": "channel,day",
    "q17": "auction,day",
    "q18": "bidder,auction",
    "q19": "auction,rank_number",
}

SIDE_INPUT = """
CREATE TABLE side_input ("key" bigint PRIMARY KEY, "value" text);
INSERT INTO side_input SELECT value, 'value ' || value FROM generate_series(0, 9999) AS s(value);
"""


@dataclasses.dataclass(frozen=True)
class Cost:
    """What a run took."""

    seconds: float
    cpu_seconds: float
    memory_mb: float


def target():
    """Where cargo builds, and where events are kept as files."""
    return pathlib.Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent / "target"))


def names(chosen):
    """The queries with these names, commas between them; all without any."""
    if chosen:
        return chosen.split(",")
    return sorted((path.stem for path in QUERIES.glob("*.sql")), key=order)


def order(name):
    return (name[0] != "q", int(name[1:]) if name[1:].isdigit() else 0)


def query(name):
    return (QUERIES / f"{name}.sql").read_text()


def columns(table):
    """Names and types of a table's columns."""
    return [tuple(word.strip('"') for word in column.split(" ")) for column in COLUMNS[table].split(", ")]


def reads(text):
    """The tables among the three that a query reads."""
    found = re.findall(rf"(?:FROM|JOIN|TUMBLE\(|HOP\()\s*({'|'.join(COLUMNS)})\b", text)
    return sorted(set(found))


def sources(kind, events, workers, files):
    """The three sources, from the generator or from files."""
    text = ""
    for table, declared in COLUMNS.items():
        watermark = 'WATERMARK FOR "dateTime" AS "dateTime" - INTERVAL \'4 seconds\''
        if kind == "generator":
            options = f"connector = 'nexmark', table = '{table}', events = {events}, splits = {workers}"
            encode = ""
        else:
            options = f"connector = 'file', path = '{files / table}'"
            encode = " FORMAT PLAIN ENCODE JSON"
        text += f"CREATE SOURCE {table} ({declared}, {watermark}) WITH ({options}){encode};\n"
    return text


def side_input(text):
    """The table that a query reads beside the three, if it does."""
    return SIDE_INPUT if "side_input" in text else ""


def sink(name, text):
    key = KEYS.get(name)
    kind = "changelog" if name in CHANGELOGS else "append-only"
    shape = f"type = 'upsert', primary_key = '{key}'" if key else f"type = '{kind}'"
    return f"CREATE SINK result AS {text} WITH (connector = 'blackhole', {shape});\n"


def measure(binary, workers, script, flags=(), output=subprocess.DEVNULL):
    """Runs a script; what it took."""
    with tempfile.TemporaryDirectory(prefix="thalweg-bench.") as folder:
        path = pathlib.Path(folder) / "script.sql"
        path.write_text(script)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("THALWEG_")}
        command = [binary, "run", str(path), "--workers", str(workers), "--data-dir", str(pathlib.Path(folder) / "data"), *flags]
        return watch(command, environment, output)


def watch(command, environment, output=subprocess.DEVNULL):
    """Runs a program to its end, and to that of its orphans if they were adopted; what they took together, in memory the sum of peaks."""
    started = time.monotonic()
    process = subprocess.Popen(command, stdout=output, stderr=subprocess.PIPE, env=environment)
    errors = process.stderr.read()
    cpu, memory, code = 0.0, 0.0, None
    while True:
        try:
            pid, status, usage = os.wait4(-1, 0)
        except ChildProcessError:
            break
        cpu += usage.ru_utime + usage.ru_stime
        memory += usage.ru_maxrss / 1024
        if pid == process.pid:
            code = process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.monotonic() - started
    if code != 0:
        raise RuntimeError(errors.decode(errors="replace").strip() or f"exit code {code}")
    return Cost(seconds, cpu, memory)


def adopt_orphans():
    """Makes this process the parent of those whose own has ended, so that they are waited for and counted. Linux only."""
    pr_set_child_subreaper = 36
    if ctypes.CDLL(None, use_errno=True).prctl(pr_set_child_subreaper, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def generate(binary, workers, events, files):
    """Writes the events as JSON lines, a folder for each kind, unless they are there."""
    done = files / ".done"
    if done.exists():
        return
    shutil.rmtree(files, ignore_errors=True)
    files.mkdir(parents=True)
    print(f"writing {events:,} events to {files}", file=sys.stderr)
    script = sources("generator", events, 1, files)
    for table in COLUMNS:
        script += (
            f"CREATE SINK {table}_out AS SELECT * FROM {table} "
            f"WITH (connector = 'file', path = '{files / table}', type = 'append-only') FORMAT PLAIN ENCODE JSON;\n"
        )
    measure(binary, 1, script)
    done.touch()
