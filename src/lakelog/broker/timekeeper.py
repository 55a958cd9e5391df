"""This machine's clock against the store's, while a broker runs.

    at the start      they are compared; too far apart, and the broker does not start
    every second      has the wall clock jumped? then they are compared
    every 5 minutes   they are compared anyway, before an append finds that it is due
    while it is off   producers are told to try again, the broker is not ready, and the log says
                      why, once; when the clock is right again, all goes on by itself

With a folder or memory as the store both are the same clock, and there is nothing to find.
"""

import asyncio
from collections.abc import Iterable

from structlog.typing import FilteringBoundLogger

from lakelog.errors import LakelogError, UnavailableError
from lakelog.journal import Lane, StoreTime, compare, stamp
from lakelog.ports import Clock, Ids
from lakelog.store import PerformAsync, run_async, working_async

__all__ = ["COMPARE_MS", "LOOK_MS", "Timekeeper"]

LOOK_MS = 1_000
START_ATTEMPTS = 5
COMPARE_MS = 300_000
AGAIN_S = 10.0
"""After no answer: the store has other troubles."""


class Timekeeper:
    """Compares the clocks again and again, and says what it finds."""

    def __init__(
        self,
        time: StoreTime,
        clock: Clock,
        ids: Ids,
        perform: PerformAsync,
        log: FilteringBoundLogger,
    ) -> None:
        self.time = time
        self._clock, self._ids, self._log = clock, ids, log
        self._perform = working_async(perform)
        self._told = ""

    async def start(self) -> None:
        """Compare for the first time.

        Raises:
            UnavailableError: the store does not answer, or this machine's clock is wrong.
        """
        for attempt in range(START_ATTEMPTS):
            try:
                await run_async(stamp(self.time, self._clock, self._ids), self._perform)
            except UnavailableError:
                # An answer that was lost is asked for again; one that was given is final.
                if self.time.problem or attempt == START_ATTEMPTS - 1:
                    raise
                await asyncio.sleep(LOOK_MS / 1000)
            else:
                return

    def mind(self, lanes: Iterable[Lane]) -> None:
        """Say which lanes have times that are still to come; what is appended keeps those."""
        now_ms = self.time.stamp_ms(self._clock)
        for lane in lanes:
            newest_ms = 0 if lane.fold is None else lane.fold.created_ms
            if newest_ms > now_ms + self.time.skew_ms_max:
                self._log.warning(
                    "a lane is ahead of the store's clock",
                    lane=lane.number,
                    ahead_seconds=(newest_ms - now_ms) // 1000,
                    why="a process whose clock was wrong has appended to it",
                    next="records of log append time keep this time until the clock has reached "
                    "it, and are retained so much longer; delete them, or copy the topic",
                )

    async def look(self) -> None:
        """Compare if that is due, and tell what has changed."""
        if self.time.is_due(self._clock, COMPARE_MS):
            try:
                await run_async(compare(self.time, self._clock, self._ids), self._perform)
            except LakelogError as error:
                self._log.warning("the store does not say what time it is", error=str(error)[:512])
                await asyncio.sleep(AGAIN_S)
        problem = self.time.problem
        if bool(problem) != bool(self._told):
            if problem:
                self._log.error("nothing is appended", why=problem)
            else:
                self._log.info("the clock is right again")
        self._told = problem
