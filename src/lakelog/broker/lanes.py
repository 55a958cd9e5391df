"""The driver of a lane: the one task that changes what a broker knows of it.

    submit  --> queue --> flush --> a call for every request, then for fetches that wait
                            `--> checkpoint, beside the next flushes, when one is due
    refresh --> between two flushes: is there more than is known here? One look for all callers
    watch   --> called when a partition has grown; while an idle lane is watched, it is probed
                now and then, because another process may append as well

What a flush took is answered, whatever happens to the flush: with outcomes, or with the error that
ended it, which does not say that anything is absent. Answers are calls and not futures: a broker
makes thousands in a second, and a task for each would cost more than the request.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial

from lakelog.broker.lane_health import LaneHealth
from lakelog.broker.lane_waiters import AnswerOwner, Done, LaneWaiter, closing_error, is_late
from lakelog.broker.supervision import Supervisor
from lakelog.broker.watches import Watch, Watches
from lakelog.errors import LakelogError, UnavailableError
from lakelog.journal import (
    Append,
    Due,
    FlushSettings,
    Lane,
    Missing,
    Outcome,
    Queue,
    Request,
    Stored,
    TopicIdPartition,
    Touch,
    Unknown,
    flush,
    look,
    probe,
    store_checkpoint,
)
from lakelog.store import PerformAsync, Work, run_async, working_async

__all__ = ["LaneWriter"]


class LaneWriter:
    """One lane of one process. Use it as a context: what was accepted is answered at its end."""

    def __init__(
        self,
        lane: Lane,
        perform: PerformAsync,
        settings: FlushSettings | None = None,
        *,
        probe_ms: int = 1_000,
        probe_ms_max: int = 1_000,
        on_error: Callable[[LakelogError], None] = lambda _: None,
        stored: Callable[[Append, Stored], None] = lambda *_: None,
        flushed: Callable[[float, int], None] = lambda *_: None,
        run_in_thread: Callable[[Work[None]], Awaitable[None]] | None = None,
        bundle_build_lock: asyncio.Lock | None = None,
        tasks: Supervisor | None = None,
    ) -> None:
        self.lane = lane
        self._tasks = tasks or Supervisor()
        self._name = f"lane {lane.number}"
        self._perform = working_async(perform)
        self._probe_ms_min, self._probe_ms_max = probe_ms, probe_ms_max
        self._probe_ms = probe_ms
        """From one probe to the next: twice as long after each that found nothing, where nobody
        else has written last."""
        self._on_error, self._stored, self._flushed = on_error, stored, flushed
        self._run_in_thread = run_in_thread or (lambda flow: run_async(flow, self._perform))
        """How a checkpoint is written: it is work for the processor, and needs no answer soon."""
        self._bundle_build_lock = bundle_build_lock or asyncio.Lock()
        """Shared by lanes: making a bundle takes milliseconds, and they flush at the same time."""
        self._queue: Queue[LaneWaiter] = Queue(settings or FlushSettings())
        self.missing = Missing()
        self._stirred = asyncio.Event()
        self._room = asyncio.Condition()
        self._outside = 0
        """Requests that wait for room in the queue."""
        self._closing = False
        self.unstored = 0
        """Requests that were taken, and whose outcome is unknown."""
        self._refreshing: list[asyncio.Future[None]] = []
        self._watches = Watches(self._tasks)
        self._looked_ms = 0
        self.health = LaneHealth(lane)
        self.after_flush: Callable[[], None] = lambda: None
        """Called when something was stored, or not: who wrote last is known then."""
        self._flusher: asyncio.Task[None] | None = None
        self._checkpoint: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to flush."""
        self._flusher = self._tasks.keep(self._name, self._run)

    async def __aenter__(self) -> "LaneWriter":
        self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def waiting_bytes(self) -> int:
        """What waits in memory for a flush."""
        return self._queue.size_bytes

    # ------------------------------------------------------------------------ appending

    def submit(
        self,
        request: Request,
        done: Done,
        now_ms: int,
        owner: AnswerOwner | None = None,
        client: str = "",
    ) -> None:
        """Store one request with the next flush in which its client has a place, and be called.

        It is taken, whatever its size: the caller keeps to a budget. Requests of one client
        keep their order; clients have equal parts of a flush. What waits for a flush when the owner
        of its answer has expired is forgotten, and ``done`` is not called.
        """
        if self._closing:
            done(closing_error())
            return
        self._queue.push(request, now_ms, (done, owner), client)
        self._stirred.set()

    def drop_late(self, now_ms: int) -> None:
        """Forget requests that still wait for a flush when their clients have been answered: a
        store that does not answer must not fill the memory with them. The others wait on, also
        while the writer closes: what was accepted is flushed.
        """
        for request, _ in self._queue.drop(lambda one: is_late(one, now_ms)):
            self.missing.note(request, now_ms)

    async def append(self, request: Request) -> Outcome:
        """Store one request with the next flush, and wait for its outcome, and for room before.

        Raises:
            UnavailableError: the writer is closing, or has failed; nothing was stored.
        """
        if self._outside or self._closing or not self._queue.has_room(request):
            await self._wait_for_room(request)
        answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

        def done(outcome: Outcome | LakelogError) -> None:
            if answer.done():
                return  # The caller was cancelled.
            if isinstance(outcome, LakelogError):
                answer.set_exception(outcome)
            else:
                answer.set_result(outcome)

        self.submit(request, done, self._now_ms())
        return await answer

    async def _wait_for_room(self, request: Request) -> None:
        """Let a request wait before the queue, behind those that wait there already."""
        self._outside += 1
        try:
            async with self._room:
                while not self._closing and not self._queue.has_room(request):
                    await self._room.wait()
        finally:
            self._outside -= 1
        if self._closing:
            raise closing_error()

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

    async def abort(self) -> None:
        """End now: what is on its way is answered as unknown."""
        for task in (self._flusher, self._checkpoint):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    # ------------------------------------------------------------------------ reading

    async def refresh(self) -> None:
        """Know where the lane ends, by a look that begins now or later.

        Raises:
            LakelogError: there was no answer, or the lane is damaged.
        """
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._closing:
            raise closing_error()
        self._refreshing.append(answer)
        self._stirred.set()
        await answer

    def trouble(self) -> str:
        """Say what keeps this lane from storing anything; nothing if all is well."""
        return self.health.trouble(is_closing=self._closing)

    async def look_at_floor(self) -> None:
        """Look at the head: appending to a busy lane looks at it seldom, and the metric of how far
        sealing is behind needs it more often.
        """
        try:
            if self.health.is_failing and not self._queue:
                # A broker that is not ready is sent nothing: it must find out by itself that the
                # store takes bundles again.
                await self.append(Touch())
            await run_async(look(self.lane), self._perform)
        except LakelogError as error:
            self._on_error(error)

    def end(self, partition: TopicIdPartition) -> int | None:
        """Return where a partition ends, as far as it is known; None: nothing is known yet."""
        fold = self.lane.fold
        return None if fold is None else fold.end(partition)

    def watch(self, watch: Watch) -> None:
        """Call it when its partition has grown."""
        self._watches.add(watch)
        end = self.end(watch.partition)
        if end is not None and end > watch.offset:
            # It has grown since the fetch looked.
            asyncio.get_running_loop().call_soon(self._wake, (watch.partition,))
        self._stirred.set()

    def forget(self, watch: Watch) -> None:
        """Call it no more."""
        self._watches.forget(watch)

    def _wake(self, partitions: Iterable[TopicIdPartition] | None = None) -> None:
        """Call the watches of these partitions, or of all, as far as they have grown."""
        fold = self.lane.fold
        if fold is not None:
            self._watches.wake(fold.end, partitions)

    # ------------------------------------------------------------------------ the task

    def _now_ms(self) -> int:
        return self.lane.clock.boot_ms()

    async def _run(self) -> None:
        try:
            while await self._wait():
                if self._refreshing or self._is_probe_due():
                    await self._look()
                if self._is_flush_due():
                    await self._flush()
                known = self.lane.snapshot
                if known is not None and known.due is not None and self._checkpoint is None:
                    self._checkpoint = self._tasks.once(
                        f"{self._name} checkpoint", self._write_checkpoint(known.due)
                    )
        except Exception as error:
            # A bug. Everything may be stored, or nothing; the lane is learned anew, and goes on.
            self.health.died(error)
            self.lane.forget()
            lost = f"{self._name} died of {error!r}: the outcome is unknown"
            self._refuse(UnavailableError(lost))
            raise
        except BaseException:
            self.lane.forget()
            self._end()
            raise
        self._end()

    def _end(self) -> None:
        self._closing = True
        self._refuse(closing_error())

    def _flush_due_ms(self) -> int | None:
        return self._queue.due_ms(self.lane.put_times.median_ms)

    def _is_flush_due(self) -> bool:
        due_ms = self._flush_due_ms()
        return due_ms is not None and (self._closing or due_ms <= self._now_ms())

    def _is_probe_due(self) -> bool:
        return bool(self._watches) and self._now_ms() >= self._looked_ms + self._probe_ms

    async def _wait(self) -> bool:
        """Wait until there is something to do; False when there will be nothing any more."""
        while True:
            if self._is_flush_due() or self._refreshing or self._is_probe_due():
                return True
            if self._closing:
                return False
            due_ms = self._flush_due_ms()
            times = [] if due_ms is None else [due_ms]
            if self._watches:
                times.append(self._looked_ms + self._probe_ms)
            left_ms = min(times) - self._now_ms() if times else None
            self._stirred.clear()
            try:
                async with asyncio.timeout(None if left_ms is None else left_ms / 1000):
                    await self._stirred.wait()
            except TimeoutError:
                pass

    async def _look(self) -> None:
        asked, self._refreshing = self._refreshing, []
        self._looked_ms = self._now_ms()
        before = self._seq()
        try:
            await run_async(probe(self.lane), self._perform)
        except LakelogError as error:
            _answer(asked, error)
            self._on_error(error)
        except BaseException as error:
            lost = f"a look at {self._name} ended in {error!r}: retry"
            _answer(asked, UnavailableError(lost))
            raise
        else:
            _answer(asked)
        if self._seq() != before:
            self._wake()
        fold = self.lane.fold
        is_quiet = fold is not None and fold.seq == before and fold.leader == self.lane.writer
        longer_ms = min(2 * self._probe_ms, self._probe_ms_max)
        self._probe_ms = max(longer_ms, self._probe_ms_min) if is_quiet else self._probe_ms_min

    def _seq(self) -> int:
        fold = self.lane.fold
        return -1 if fold is None else fold.seq

    async def _flush(self) -> None:
        async with self._bundle_build_lock:
            await asyncio.sleep(0)  # One lane in a turn of the loop, and others between.
        if self._outside:
            async with self._room:
                self._room.notify_all()  # They look when this has taken what it takes.
        now_ms = self._now_ms()
        fold, late = self.lane.fold, partial(is_late, now_ms=now_ms)
        waiting, behind = self.missing.sift(self._queue.take(), late, fold, now_ms)
        for done, _ in behind:
            self._tasks.call(self._name, done, Unknown())
        if not waiting:
            return  # All of it was late, and is gone.
        before = self._seq()
        requests = [request for request, _ in waiting]
        self._queue.flush_begins(now_ms, len(requests))
        try:
            ended = await run_async(flush(self.lane, requests), self._perform)
        except BaseException as error:
            # A cancellation, or a bug: the flush may have stored everything, or nothing.
            lost = UnavailableError(f"the flush ended in {error!r}: the outcome is unknown")
            self._refuse(lost, [waiter for _, waiter in waiting])
            raise
        self._looked_ms = self._now_ms()
        self._queue.flush_ends(self._looked_ms)
        self.health.flushed(ended.error)
        if ended.error is not None:
            self._on_error(ended.error)
        size = 0
        for (request, (done, _)), judged in zip(waiting, ended.outcomes, strict=True):
            outcome = self.missing.judged(request, judged, self._looked_ms)
            if type(outcome) is Stored and type(request) is Append and not outcome.duplicate:
                size += len(request.body)
                self._tasks.call(self._name, self._stored, request, outcome)
            self._tasks.call(self._name, done, outcome)
        self._tasks.call(self._name, self._flushed, (self._looked_ms - now_ms) / 1000, size)
        self._tasks.call(self._name, self.after_flush)
        if self._watches:
            ours = {request.topic_partition for request in requests if type(request) is Append}
            self._wake(ours if self._seq() == before + 1 else None)

    def _refuse(self, error: LakelogError, taken: Iterable[LaneWaiter] = ()) -> None:
        """Answer all requests and looks that wait with an error."""
        told = [*taken, *self._queue.clear()]
        self.unstored += len(told)
        for done, _ in told:
            self._tasks.call(self._name, done, error)
        _answer(self._refreshing, error)
        self._refreshing = []

    async def _write_checkpoint(self, due: Due) -> None:
        # It runs in a thread, and so it is given a value, and not the lane.
        try:
            await self._run_in_thread(store_checkpoint(self.lane.number, due))
            self.lane.counters["checkpoint"] += 1
            self.lane.stands(due[0].seq)
        except LakelogError as error:
            self._on_error(error)
        finally:
            self._checkpoint = None


def _answer(waiting: Iterable[asyncio.Future[None]], error: LakelogError | None = None) -> None:
    """Answer callers that still wait for a look: that it was taken, or the error it ended in."""
    for answer in waiting:
        if not answer.done() and error is not None:
            answer.set_exception(error)
        elif not answer.done():
            answer.set_result(None)
