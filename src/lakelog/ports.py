"""Time and unique bytes, which are passed in.

Nothing below the front ends reads a clock or draws a number by itself. So a simulator can provide
both, and it runs the code that ships.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

__all__ = ["Clock", "Host", "Ids"]


class Clock(Protocol):
    """Two clocks: a wall clock, which may be set, and one that only goes forward."""

    def now_ms(self) -> int:
        """Milliseconds since 1970. It may be wrong, and it may be set back."""
        ...

    def boot_ms(self) -> int:
        """Milliseconds since some moment. Never goes back, and counts suspended time."""
        ...


Ids = Callable[[], bytes]
"""Sixteen bytes that nobody has had before."""


class Host(NamedTuple):
    """What one machine provides: a value, so that it reaches another process as it is."""

    clock: Clock
    ids: Ids
