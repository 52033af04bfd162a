"""Whether others used the machine while something was measured."""

import dataclasses
import os

TICKS = os.sysconf("SC_CLK_TCK")


@dataclasses.dataclass(frozen=True)
class Run:
    """What a run took, and how many CPU-seconds all others had meanwhile."""

    cost: object
    others: float

    @property
    def disturbed(self):
        """Others had more than a twentieth of a core. Below a tenth of a second the kernel's own counting is not exact."""
        return self.others > 0.05 * self.cost.seconds + 0.1


def watched(measure):
    """Calls what returns a cost."""
    before = machine_cpu_seconds()
    cost = measure()
    return Run(cost, max(machine_cpu_seconds() - before - cost.cpu_seconds, 0.0))


def machine_cpu_seconds():
    """What all processes and the kernel have used since the machine started."""
    with open("/proc/stat") as file:
        user, nice, system, _idle, _iowait, irq, softirq = (int(text) for text in file.readline().split()[1:8])
    return (user + nice + system + irq + softirq) / TICKS
