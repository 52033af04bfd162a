"""What Thalweg wants to reach beside the benchmark's queries; a module for each kind, with a function `run`."""

import dataclasses
import math


@dataclasses.dataclass(frozen=True)
class Figure:
    """One thing that was measured, beside what is wanted."""

    what: str
    seen: str
    wanted: str = ""
    reached: bool | None = None


def at_most(what, seen, limit, unit, digits=0):
    """A figure that is reached if it is not above a limit."""
    return Figure(what, f"{seen:,.{digits}f} {unit}", f"≤ {limit:,} {unit}", seen <= limit)


def at_least(what, seen, limit, unit, digits=0):
    """A figure that is reached if it is not below a limit."""
    return Figure(what, f"{seen:,.{digits}f} {unit}", f"≥ {limit:,} {unit}", seen >= limit)


def plain(what, seen, unit, digits=0):
    """A figure that nothing is wanted of."""
    return Figure(what, f"{seen:,.{digits}f} {unit}")


def percentile(values, part):
    """The value that so many percent are not above."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * part / 100) - 1)]
