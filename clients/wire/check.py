#!/usr/bin/env python3
"""Plays the traces against a server and compares its answers with those of Postgres 15.

check.py HOST PORT            fails for every answer that the traces don't hold, and for every difference that is gone
check.py HOST PORT --accept   writes down what Thalweg answers otherwise; new differences are to be named and explained
check.py HOST PORT --record   writes down what Postgres answers: HOST PORT must be a fresh Postgres 15

Every difference has a name, which docs/postgres-compatibility.md explains, and only those that it explains may be there.
"""

import argparse
import difflib
import json
import pathlib
import re
import struct
import sys
import time

import protocol
import trace

HERE = pathlib.Path(__file__).parent
EXPLAINED = HERE.parent.parent / "docs" / "postgres-compatibility.md"
UNEXPLAINED = "unexplained"
# A cancel that comes between two messages of an extended query is lost with Postgres, so it is sent again.
CANCEL_AGAIN_S = 1.0
# How long a statement may take to begin, and to end when it is cancelled, on a machine that does much else.
CANCEL_MAX_S = protocol.SILENCE_S


def play(step, connection):
    """Sends a step's messages; the lines of what is answered."""
    wanted, lines = [], []
    for line in step.sent:
        verb, _, rest = line.partition(" ")
        if verb == "await":
            wanted.append(rest)
        elif verb == "cancel":
            lines += cancel(connection)
        else:
            connection.send(line)
            if verb in ("query", "sync"):
                wanted.append("ReadyForQuery")
    # What is awaited by name takes the place of what usually ends an answer.
    named = [line.partition(" ")[2] for line in step.sent if line.startswith("await")]
    lines += answers(connection, named or wanted)
    return without_rows(lines) if "cancel" in step.sent else lines


def without_rows(lines):
    """Whether the columns were described before a cancel came is a matter of chance."""
    return [line for line in lines if not line.startswith(("RowDescription", "  "))]


def cancel(connection):
    """Cancels what runs. Says what is not as it should be: an answer to the request itself, or a statement that goes on."""
    if not runs(connection):
        return ["(the statement does not run)"]
    until = time.monotonic() + CANCEL_MAX_S
    while time.monotonic() < until:
        answered = connection.cancel()
        if answered:
            return [f"(the request is answered {protocol.shown(answered)})"]
        if connection.fails_within(CANCEL_AGAIN_S):
            return []
    return ["(the statement goes on)"]


def runs(connection):
    """Whether the connection's statement has begun; a cancel that came before would be lost. Waits for it."""
    until = time.monotonic() + CANCEL_MAX_S
    other = protocol.Connection(*connection.where, {})
    answers(other, ["ReadyForQuery"])
    active = False
    while not active and time.monotonic() < until:
        other.send(f"query SELECT state FROM pg_stat_activity WHERE pid = {connection.key[0]}")
        active = 'DataRow "active"' in answers(other, ["ReadyForQuery"])
    other.close()
    return active


def answers(connection, wanted):
    """The lines of what comes up to the last message that is wanted, or to where the client has to go on."""
    lines = []
    while wanted:
        try:
            kind, body = connection.receive()
        except protocol.Closed:
            return lines + ["(closed)"]
        except protocol.Silent:
            return lines + ["(silent)"]
        if kind == "K":
            connection.key = struct.unpack("!ii", body)
            lines.append("BackendKeyData")
        else:
            lines += protocol.lines_of(kind, body)
        name = protocol.NAMES.get(kind, kind)
        if name == wanted[0]:
            wanted = wanted[1:]
        elif name == "CopyInResponse":
            return lines
    return lines


def run(path, host, port, handle):
    """Plays a file's scenarios and hands each step with its answer to `handle`; gives them back as they then are."""
    scenarios = trace.read(path)
    for scenario in scenarios:
        settings = {name: value for name, value in scenario.settings.items() if name != "rows"}
        connection = protocol.Connection(host, port, settings)
        answer = answers(connection, ["ReadyForQuery"])
        for step in scenario.steps:
            # What is answered at the start belongs to a first step that sends nothing.
            answer = play(step, connection) if step.sent else answer
            shown = in_short(answer) if scenario.settings.get("rows") == "hidden" else answer
            handle(f"{path.name}: {scenario.name}: {step.name}", step, shown)
        connection.close()
    return scenarios


def in_short(lines):
    """What is the same on any server with these relations: the names of columns, the tags without counts, the errors."""
    short = []
    for line in lines:
        if line.startswith("  ") and short and short[-1].startswith("RowDescription"):
            short[-1] += " " + json.dumps(line.split(" oid=")[0].strip())
        elif line.startswith("CommandComplete"):
            short.append(line.rstrip(" 0123456789"))
        elif not line.startswith(("DataRow", "CopyData", "ParameterDescription", "BindComplete", "ParseComplete", "  ")):
            short.append(line)
    return short


def record(_, step, answer):
    step.answer = answer


def accept(_, step, answer):
    if answer == step.answer:
        step.difference, step.instead = "", []
    elif answer != step.expected():
        step.difference, step.instead = step.difference or UNEXPLAINED, answer


def explained():
    """The names of the differences that the document explains."""
    text = EXPLAINED.read_text()
    return set(re.findall(r"^\| `([a-z0-9-]+)` \|", text, re.MULTILINE))


class Comparison:
    """What is not as the traces say."""

    def __init__(self):
        self.steps, self.differing, self.faults, self.names = 0, 0, [], set()

    def compare(self, where, step, answer):
        self.steps += 1
        if step.difference:
            self.names.add(step.difference)
            self.differing += 1
        if answer == step.expected():
            return
        if step.difference and answer == step.answer:
            self.faults.append(f"{where}\n  now as Postgres: the difference {step.difference} is gone; run check.py --accept")
            return
        lines = difflib.unified_diff(step.expected(), answer, "expected", "answered", lineterm="", n=1)
        self.faults.append(where + "".join(f"\n  {line}" for line in lines))

    def close(self):
        known = explained()
        self.faults += [f"difference {name} is not explained in {EXPLAINED.name}" for name in sorted(self.names - known)]
        self.faults += [f"{EXPLAINED.name} explains {name}, which no trace has" for name in sorted(known - self.names)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("host")
    parser.add_argument("port", type=int)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--accept", action="store_true")
    parser.add_argument("--only", help="the name of one file of traces")
    options = parser.parse_args()
    comparison = Comparison()
    handle = record if options.record else accept if options.accept else comparison.compare
    for path in sorted((HERE / "traces").glob("**/*.trace")):
        if options.only in (None, path.stem):
            scenarios = run(path, options.host, options.port, handle)
            if options.record or options.accept:
                trace.write(path, scenarios)
    if not options.record and not options.accept:
        if not options.only:
            comparison.close()
        if comparison.faults:
            sys.exit("\n".join(comparison.faults) + f"\n{len(comparison.faults)} faults")
        print(f"wire: {comparison.steps} steps as Postgres 15, but for {comparison.differing} that are explained: ok")


if __name__ == "__main__":
    main()
