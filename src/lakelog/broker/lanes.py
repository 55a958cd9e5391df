"""The driver of a lane: requests come in, flushes go out, one at a time.

    append --> queue --> flush --> an outcome for everybody who waits
                           `--> checkpoint, beside the next flushes, when one is due

What a flush took is answered, whatever happens to the flush: with outcomes, or with the error that
ended it, which does not say that anything is absent. When the queue is full ``append`` waits; so
the memory that waiting requests take is bounded, and whoever reads from sockets stops reading.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from lakelog.errors import LakelogError, UnavailableError
from lakelog.journal import (
    FlushSettings,
    Lane,
    Outcome,
    Queue,
    Request,
    flush,
    write_checkpoint,
)
from lakelog.store import PerformAsync, run_async, working_async

__all__ = ["LaneWriter"]


class LaneWriter:
    """One lane of one process. Use it as a context: what was accepted is answered at its end."""

    def __init__(
        self,
        lane: Lane,
        perform: PerformAsync,
        settings: FlushSettings | None = None,
        *,
        complain: Callable[[LakelogError], None] = lambda _: None,
    ) -> None:
        self._lane = lane
        self._perform = working_async(perform)
        self._complain = complain
        self._queue = Queue(settings or FlushSettings())
        self._answers: deque[asyncio.Future[Outcome]] = deque()
        self._stirred = asyncio.Event()
        self._room = asyncio.Condition()
        self._outside = 0
        """Requests that wait for room in the queue."""
        self._closing = False
        self._flusher: asyncio.Task[None] | None = None
        self._checkpoint: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "LaneWriter":
        self._flusher = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def waiting_bytes(self) -> int:
        """What waits in memory for a flush."""
        return self._queue.size_bytes

    async def append(self, request: Request) -> Outcome:
        """Store one request with the next flush, and wait for its outcome.

        Raises:
            UnavailableError: the writer is closing, or has failed; nothing was stored.
        """
        if self._outside or self._closing or not self._queue.offer(request, self._now_ms()):
            await self._wait_for_room(request)
        answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._answers.append(answer)
        self._stirred.set()
        return await answer

    async def _wait_for_room(self, request: Request) -> None:
        """Let a request wait before the queue, behind those that wait there already."""
        self._outside += 1
        try:
            async with self._room:
                while not self._closing and not self._queue.offer(request, self._now_ms()):
                    await self._room.wait()
        finally:
            self._outside -= 1
        if self._closing:
            raise UnavailableError("this writer is closing: send it to another broker")

    async def close(self) -> None:
        """Accept nothing more, flush what was accepted, and end."""
        self._closing = True
        self._stirred.set()
        async with self._room:
            self._room.notify_all()
        if self._flusher is not None:
            await self._flusher
        if self._checkpoint is not None:
            await self._checkpoint

    # ------------------------------------------------------------------------ flushing

    def _now_ms(self) -> int:
        return self._lane.clock.boot_ms()

    async def _run(self) -> None:
        while await self._wait():
            requests = self._queue.take()
            answers = [self._answers.popleft() for _ in requests]
            async with self._room:
                self._room.notify_all()
            await self._flush(requests, answers)
            if self._lane.due is not None and self._checkpoint is None:
                self._checkpoint = asyncio.create_task(self._write_checkpoint())

    async def _wait(self) -> bool:
        """Wait until a flush is due; False when there will be none any more."""
        while True:
            due_ms = self._queue.due_ms()
            if due_ms is None and self._closing:
                return False
            left_ms = None if due_ms is None else due_ms - self._now_ms()
            if left_ms is not None and (left_ms <= 0 or self._closing):
                return True
            self._stirred.clear()
            try:
                async with asyncio.timeout(None if left_ms is None else left_ms / 1000):
                    await self._stirred.wait()
            except TimeoutError:
                return True

    async def _flush(self, requests: list[Request], answers: list[asyncio.Future[Outcome]]) -> None:
        try:
            done = await run_async(flush(self._lane, requests), self._perform)
        except BaseException as error:
            # A cancellation, or a bug: the flush may have stored everything, or nothing.
            self._lane.forget()
            self._closing = True
            lost = UnavailableError(f"the flush ended in {error!r}: the outcome is unknown")
            for answer in (*answers, *self._answers):
                if not answer.done():
                    answer.set_exception(lost)
            raise
        if done.error is not None:
            self._complain(done.error)
        for answer, outcome in zip(answers, done.outcomes, strict=True):
            if not answer.done():  # Whoever waited may have been cancelled.
                answer.set_result(outcome)

    async def _write_checkpoint(self) -> None:
        try:
            await run_async(write_checkpoint(self._lane), self._perform)
        except LakelogError as error:
            self._complain(error)
        finally:
            self._checkpoint = None
