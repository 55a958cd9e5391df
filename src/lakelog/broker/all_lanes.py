"""The lanes of a namespace, as many as it has by now: one writer for each.

Lanes are added while brokers run (``lakelog cluster lanes``). A broker learns of it when it lists
topics, or from a topic that is in lanes which it does not know; then it leads its share.
"""

from collections.abc import Callable, Iterator, Mapping

from lakelog.broker.lanes import LaneWriter
from lakelog.broker.supervision import Supervisor

__all__ = ["AllLanes"]

FLOOR_MS = 30_000
"""How often the head of a lane is looked at, for the metric of how far sealing is behind."""


class AllLanes(Mapping[int, LaneWriter]):
    """The writers of all lanes, by number."""

    def __init__(self, count: int, make: Callable[[int], LaneWriter], tasks: Supervisor) -> None:
        self._make, self._tasks = make, tasks
        self._writers = {number: make(number) for number in range(count)}
        self.on_growth: Callable[[], None] = lambda: None
        """Called when there are more."""
        self.minds: Callable[[int], bool] = lambda _: True
        """Whether a lane is this broker's to look after: heads of the others are not looked at."""

    def start(self) -> None:
        """Begin to flush."""
        for number in self:
            self._start(number)

    def grow(self, count: int) -> None:
        """Have so many lanes; there are never fewer."""
        added = range(len(self), count)
        for number in added:
            self._writers[number] = self._make(number)
            self._start(number)
        if added:
            self.on_growth()

    def _start(self, number: int) -> None:
        writer = self._writers[number]
        writer.start()

        async def look() -> None:
            if self.minds(number):
                await writer.look_at_floor()

        self._tasks.every(f"lane {number} floor", FLOOR_MS / 1000, look)

    def __getitem__(self, number: int) -> LaneWriter:
        return self._writers[number]

    def __iter__(self) -> Iterator[int]:
        return iter(list(self._writers))

    def __len__(self) -> int:
        return len(self._writers)
