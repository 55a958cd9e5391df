"""Meters: what a connection has used of the quotas of its client, and for how long it is muted.

    request --> spend --> overdrawn? --> mute: the socket is not read until the bucket has refilled
                                    '--> tell_ms: what the answer says, which goes out at once

A meter belongs to a connection, its buckets to whoever shares a quota. Most of what a request uses
is used many floors below its frame; so the meter is a variable of the context, which tasks hand on
to the tasks that they start, as with the allowance of a request. Outside of requests, and for
clients without quotas, there is none.

The time of the loop is that of the steps in which a request, or a task that it started, runs on it
(``timed``). It is the time of the clock, as in Kafka: to ask for that of the processor takes five
times as long. Not counted is what is done for many at once, flushes of lanes above all, nor what
threads do, nor the reading and writing of sockets.
"""

import asyncio
import math
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, ContextVar, copy_context
from time import perf_counter
from types import coroutine
from typing import Any, Protocol, TypeVar

from lakelog.broker.metrics.quotas import QuotaCounters
from lakelog.security import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    STORE_REQUEST_RATE,
    Bucket,
)

__all__ = [
    "METER",
    "MUTE_S_MAX",
    "QUOTA_EXCEEDED",
    "RUNNING",
    "Account",
    "Meter",
    "take_mutations",
    "task_context",
    "timed",
]

MUTE_S_MAX = 25.0
"""The longest that a connection is not read for one request. What is still missing then is told
with the next one. Clients that do not wait by themselves give a request up after 30 seconds."""

CREDIT_S = 0.001
"""So much of a second's bytes: small requests at high rates are not worth a look at the clock."""

EARLY_S = 0.001
"""A timer may come so much too early."""

QUOTA_EXCEEDED = "The throttling quota has been exceeded."

T = TypeVar("T")


class Account:
    """The buckets that a client spends from; None: as much as it wants."""

    __slots__ = ("credit", "fetch", "mutation", "produce", "request", "store")

    def __init__(self, buckets: dict[str, Bucket]) -> None:
        self.produce = buckets.get(PRODUCER_BYTE_RATE)
        self.credit = 0.0 if self.produce is None else self.produce.rate * CREDIT_S
        """Bytes of requests to produce that a connection pays together with the next ones."""
        self.fetch = buckets.get(CONSUMER_BYTE_RATE)
        self.request = buckets.get(REQUEST_PERCENTAGE)
        self.mutation = buckets.get(CONTROLLER_MUTATION_RATE)
        self.store = buckets.get(STORE_REQUEST_RATE)


class _Muted(Protocol):
    """A connection, as far as a meter knows it."""

    def adjust(self) -> None:
        """Read or do not read."""
        ...


class Meter:
    """What one connection uses."""

    __slots__ = (
        "_connection",
        "_counters",
        "_loop",
        "_timer",
        "account",
        "began",
        "client",
        "generation",
        "principal",
        "unmeasured",
        "unpaid",
        "until_s",
    )

    def __init__(self, connection: _Muted, counters: QuotaCounters) -> None:
        self._connection, self._counters = connection, counters
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self.began: float | None = None
        """When the step of a request began that runs now."""
        self.until_s = 0.0
        self.account: Account | None = None
        """None: it has no quotas."""
        self.client = b""
        """The client id, as it is in a frame, and the principal that the account is of."""
        self.principal: object = None
        self.generation = -1
        self.unpaid = self.unmeasured = 0
        """Bytes and requests to produce, as ``client_quotas`` counts them."""

    @property
    def is_muted(self) -> bool:
        """Whether the connection is not read."""
        return self._timer is not None

    def mute(self, key: str, wait_s: float, now_s: float) -> None:
        """Do not read the connection for a while; ``key`` is the quota."""
        until_s = now_s + min(wait_s, MUTE_S_MAX)
        if until_s <= self.until_s:
            return
        self._counters.throttles[key] += 1
        self._counters.throttled_seconds[key] += until_s - max(self.until_s, now_s)
        self.until_s = until_s
        if self._timer is None:
            self._counters.muted += 1
            self._timer = self._loop.call_at(until_s, self._look)
            self._connection.adjust()

    def _look(self) -> None:
        """Read on, if it is time; it may have become later."""
        if self._loop.time() < self.until_s - EARLY_S:
            self._timer = self._loop.call_at(self.until_s, self._look)
            return
        self.end()
        self._connection.adjust()

    def end(self) -> None:
        """Take note that the connection is read, or is no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._counters.muted -= 1

    def tell_ms(self) -> int:
        """Return for how long the connection is not read from now on, as an answer says it."""
        if self.began is not None:
            now = perf_counter()
            self.used(now - self.began)
            self.began = now
        if self._timer is None:
            return 0
        return max(math.ceil((self.until_s - self._loop.time()) * 1000), 0)

    # ------------------------------------------------------------------------ spending

    def _spend(self, bucket: Bucket, key: str, amount: float) -> None:
        now_s = self._loop.time()
        if wait_s := bucket.spend(amount, now_s):
            self.mute(key, wait_s, now_s)

    def produced(self, size: int) -> None:
        """Count bytes of requests to produce, those that were not paid included."""
        self.unpaid = 0
        if self.account is not None and self.account.produce is not None:
            self._spend(self.account.produce, PRODUCER_BYTE_RATE, size)

    def fetched(self, size: int) -> int:
        """Count the bytes of an answer, and return for how long the connection is muted, in ms."""
        if self.account is not None and self.account.fetch is not None:
            self._spend(self.account.fetch, CONSUMER_BYTE_RATE, size)
        return self.tell_ms()

    def fetch_bytes(self, most: int) -> int:
        """Return how large an answer may be: no more than a full bucket holds."""
        bucket = None if self.account is None else self.account.fetch
        return most if bucket is None else max(min(most, int(bucket.burst)), 1)

    def asked_store(self) -> None:
        """Count an operation on the store."""
        if self.account is not None and self.account.store is not None:
            self._spend(self.account.store, STORE_REQUEST_RATE, 1)

    def mutate(self, count: int, *, is_strict: bool) -> bool:
        """Count partitions that are made or deleted. Strictly, say no if too many were before."""
        bucket = None if self.account is None else self.account.mutation
        if bucket is None:
            return True
        now_s = self._loop.time()
        if is_strict:
            wait_s = bucket.wait_s(now_s)
            if wait_s > 0:
                self.mute(CONTROLLER_MUTATION_RATE, wait_s, now_s)
                return False
            bucket.spend(count, now_s)
        else:
            self._spend(bucket, CONTROLLER_MUTATION_RATE, count)
        return True

    # ------------------------------------------------------------------------ time

    def used(self, seconds: float) -> None:
        """Count time of the loop."""
        if self.account is not None and self.account.request is not None:
            self._spend(self.account.request, REQUEST_PERCENTAGE, seconds)

    def run(self, step: Callable[[], T]) -> T:
        """Run a step of a request, and count the time that it takes, once."""
        is_counted = self.account is not None and self.account.request is not None
        if not is_counted or self.began is not None:
            return step()
        self.began = perf_counter()
        try:
            return step()
        finally:
            self.end_step()

    def end_step(self, weight: int = 1) -> None:
        """Count the time since a step began; it may stand for more of its kind."""
        if self.began is not None:
            began, self.began = self.began, None
            self.used(weight * (perf_counter() - began))


METER: ContextVar[Meter | None] = ContextVar("meter of a request", default=None)


class _Running:
    """The meter of the frame that is being answered: to set a variable of the context for each
    would take longer than all else here. Tasks that it starts have the variable."""

    __slots__ = ("meter",)

    def __init__(self) -> None:
        self.meter: Meter | None = None


RUNNING = _Running()


def task_context() -> Context | None:
    """Return the context of a task that is started now; None: as it is."""
    if RUNNING.meter is None:
        return None
    context = copy_context()
    context.run(METER.set, RUNNING.meter)
    return context


def take_mutations(count: int, *, is_strict: bool) -> bool:
    """Count partitions that a request makes or deletes; False: it has to wait."""
    meter = METER.get()
    return meter is None or meter.mutate(count, is_strict=is_strict)


def timed(work: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
    """Return work of a request, of which the time is counted that it takes on the loop."""
    meter = RUNNING.meter or METER.get()
    if meter is None or meter.account is None or meter.account.request is None:
        return work
    return _awaited(_steps(meter, work))


async def _awaited(work: Any) -> Any:
    return await work


@coroutine
def _steps(meter: Meter, work: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
    """Do as ``yield from work`` does, step by step."""
    step: Callable[[], Any] = lambda: work.send(None)  # noqa: E731
    while True:
        try:
            asked = meter.run(step)
        except StopIteration as done:
            result: T = done.value
            return result
        try:
            yield asked
        except BaseException as error:  # noqa: BLE001 (it is the work's)
            step = _throwing(work, error)
        else:
            step = lambda: work.send(None)  # noqa: E731


def _throwing(work: Coroutine[Any, Any, Any], error: BaseException) -> Callable[[], Any]:
    return lambda: work.throw(error)
