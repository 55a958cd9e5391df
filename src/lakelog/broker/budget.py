"""A budget of bytes, for the whole process: what requests that are being worked on take.

Nothing waits here. Whoever takes more than there is learns it, stops reading from its socket, and
is called when there is room again. So memory is bounded by the budget and one request for each
connection, whatever the store does.
"""

from collections import deque
from collections.abc import Callable

__all__ = ["Budget"]


class Budget:
    """So many bytes, taken and given back."""

    __slots__ = ("_waiting", "partial", "total", "used")

    def __init__(self, total: int) -> None:
        self.total = total
        self.used = 0
        self.partial = 0
        """Bytes of large requests that have not come to their end; as much again as the total."""
        self._waiting: deque[Callable[[], None]] = deque()

    @property
    def is_spent(self) -> bool:
        return self.used >= self.total

    def take(self, size: int) -> None:
        self.used += size

    def give(self, size: int) -> None:
        """Give back, and call those who wait, as far as there is room."""
        self.used -= size
        while self._waiting and not self.is_spent:
            self._waiting.popleft()()

    def wait(self, resume: Callable[[], None]) -> None:
        """Ask to be called once, when there is room."""
        self._waiting.append(resume)

    def forget(self, resume: Callable[[], None]) -> None:
        """Wait no longer."""
        if resume in self._waiting:
            self._waiting.remove(resume)
