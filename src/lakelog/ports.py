"""What the world provides, handed in: time and unique bytes.

Nothing below the front ends reads a clock or draws a number by itself. So a simulator can be the
world, and the code that it runs is the code that ships.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

__all__ = ["Clock", "Host", "Ids"]


class Clock(Protocol):
    """Two clocks, because each lies in its own way."""

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
