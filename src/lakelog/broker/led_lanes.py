"""The lanes of a broker, as leading them sees them: touched, looked at, and written to by whom."""

from collections.abc import Callable, Mapping
from contextlib import suppress

from lakelog.broker.lanes import LaneWriter
from lakelog.broker.supervision import Supervisor
from lakelog.coordination import LastWriter
from lakelog.errors import LakelogError
from lakelog.journal import Outcome, Stored, Touch
from lakelog.ports import Clock

__all__ = ["LedLanes"]


class LedLanes:
    """The lanes of a broker, as leading sees them."""

    def __init__(self, writers: Mapping[int, LaneWriter], clock: Clock, tasks: Supervisor) -> None:
        self._writers, self._clock, self._tasks = writers, clock, tasks

    def touch(self, lane: int, done: Callable[[int | None], None]) -> None:
        """Store an empty bundle."""

        def touched(outcome: Outcome | LakelogError) -> None:
            done(outcome.epoch if isinstance(outcome, Stored) else None)

        self._writers[lane].submit(Touch(), touched, self._clock.boot_ms())

    def probe(self, lane: int, done: Callable[[], None]) -> None:
        """Look where a lane ends."""
        self._tasks.once("lane probe", self._probe(lane, done))

    async def _probe(self, lane: int, done: Callable[[], None]) -> None:
        with suppress(LakelogError):  # It is looked at again.
            await self._writers[lane].refresh()
            done()

    def last_writer(self, lane: int) -> LastWriter | None:
        """Return who wrote to a lane last."""
        fold = self._writers[lane].lane.fold
        return None if fold is None else LastWriter(fold.leader, fold.epoch)
