"""Fetches that wait for partitions of a lane to grow, and are called when they have.

A fetch that found nothing waits here, on each of its partitions, and is called once: it looks again
then, and waits again if there is still nothing for it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from lakelog.broker.supervision import Supervisor
from lakelog.journal import TopicIdPartition

__all__ = ["Watch", "Watches"]


@dataclass(slots=True, eq=False)
class Watch:
    """Calls ``wake`` when a partition has grown beyond an offset."""

    partition: TopicIdPartition
    offset: int
    wake: Callable[[], None]


class Watches:
    """The watches of a lane, by partition."""

    def __init__(self, tasks: Supervisor) -> None:
        self._tasks = tasks
        self._waiting: dict[TopicIdPartition, set[Watch]] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, watch: Watch) -> None:
        """Add a watch."""
        self._waiting.setdefault(watch.partition, set()).add(watch)

    def forget(self, watch: Watch) -> None:
        """Call it no more."""
        watches = self._waiting.get(watch.partition)
        if watches is not None:
            watches.discard(watch)
            if not watches:
                del self._waiting[watch.partition]

    def wake(
        self,
        end: Callable[[TopicIdPartition], int],
        partitions: Iterable[TopicIdPartition] | None = None,
    ) -> None:
        """Call those whose partitions have grown: of some of them, or of all."""
        for partition in list(self._waiting) if partitions is None else partitions:
            watches = self._waiting.get(partition)
            if watches:
                now = end(partition)
                for watch in [one for one in watches if one.offset < now]:
                    self.forget(watch)
                    self._tasks.call("watch", watch.wake)
