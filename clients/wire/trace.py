"""Trace files: what a client sends, what Postgres answers, and where Thalweg answers otherwise.

    == what the scenario is about [setting=value ...]     with rows=hidden only columns and errors are compared
    -- what the step is about
    > query SELECT 1,             sent
    >   2                         (a line that goes on begins with two blanks)
    < ReadyForQuery I             what Postgres answers
    ~ no-indexes                  the name of a difference, as docs/postgres-compatibility.md lists it
    | ReadyForQuery I             what Thalweg answers instead
"""

import dataclasses
import re

CONTINUED = "  "


@dataclasses.dataclass
class Step:
    name: str
    sent: list = dataclasses.field(default_factory=list)
    answer: list = dataclasses.field(default_factory=list)
    difference: str = ""
    instead: list = dataclasses.field(default_factory=list)
    comments: list = dataclasses.field(default_factory=list)

    def expected(self):
        return self.instead if self.difference else self.answer


@dataclasses.dataclass
class Scenario:
    name: str
    settings: dict = dataclasses.field(default_factory=dict)
    steps: list = dataclasses.field(default_factory=list)
    comments: list = dataclasses.field(default_factory=list)


def read(path):
    """The scenarios of a file."""
    scenarios, comments = [], []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        mark, _, rest = line.partition(" ")
        if not line.strip():
            continue
        if mark == "#":
            comments.append(line)
        elif mark == "==":
            name, _, settings = rest.partition(" [")
            pairs = re.findall(r"(\w+)=((?:[^\s\]\\]|\\ )+)", settings)
            scenarios.append(Scenario(name, {key: value.replace("\\ ", " ") for key, value in pairs}, comments=comments))
            comments = []
        elif mark == "--":
            scenarios[-1].steps.append(Step(rest, comments=comments))
            comments = []
        elif mark in (">", "<", "|"):
            step = scenarios[-1].steps[-1]
            if mark == ">" and rest.startswith(CONTINUED):
                step.sent[-1] += "\n" + rest[len(CONTINUED):]
            else:
                {">": step.sent, "<": step.answer, "|": step.instead}[mark].append(rest)
        elif mark == "~":
            scenarios[-1].steps[-1].difference = rest
        else:
            raise SystemExit(f"{path}:{number}: not a line of a trace: {line}")
    return scenarios


def write(path, scenarios):
    """Writes the file anew; what `read` gives stays the same."""
    lines = []
    for scenario in scenarios:
        settings = " ".join(f"{key}={value.replace(' ', chr(92) + ' ')}" for key, value in scenario.settings.items())
        lines += [*([""] if lines else []), *scenario.comments, f"== {scenario.name}" + (f" [{settings}]" if settings else "")]
        for step in scenario.steps:
            sent = [f"> {line}".replace("\n", f"\n> {CONTINUED}") for line in step.sent]
            lines += ["", *step.comments, f"-- {step.name}", *sent]
            lines += [f"< {line}" for line in step.answer]
            if step.difference:
                lines += [f"~ {step.difference}", *(f"| {line}" for line in step.instead)]
    path.write_text("\n".join(lines) + "\n")
