"""The processors that this machine believes to have: a hypervisor gives them to others, too.

    before = ticks()
    ...
    taken = ticks().since(before)      taken.stolen_s, taken.is_disturbed

Linux calls it steal. What was measured by the clock meanwhile is measured of them, not of us.
"""

import os
from pathlib import Path
from typing import NamedTuple

__all__ = ["Ticks", "ticks"]

STOLEN_MAX = 0.1
"""Of the processors' time: beyond that, what was measured is of others."""

_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


class Ticks(NamedTuple):
    """Time of all processors together, in the kernel's ticks."""

    stolen: int
    passed: int

    def since(self, before: "Ticks") -> "Ticks":
        """Return what came after that."""
        return Ticks(self.stolen - before.stolen, self.passed - before.passed)

    @property
    def stolen_s(self) -> float:
        """The seconds that others had, of one processor or of another."""
        return self.stolen / _TICKS_A_SECOND

    @property
    def is_disturbed(self) -> bool:
        """Whether others had more than a tenth of everything."""
        return self.stolen > STOLEN_MAX * self.passed


def ticks() -> Ticks:
    """Return the time that others had, and all time, since this machine began."""
    _, *found = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    return Ticks(int(found[7]), sum(map(int, found[:8])))
