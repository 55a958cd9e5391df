"""Reads and deletions that are asked for again when there was no answer.

Reads change nothing, so a second one is as good as the first. What is deleted has a name that
nobody gives again, so a second deletion finds it gone. A conditional write is never repeated
here. Its second attempt may meet the object that its first one stored and report
``Exists``, and only the caller, who knows its own nonce, can tell that this is a success.

Delays have full jitter: anything from nothing to a bound that doubles. Clients that failed
together do not come back together. The randomness is the kernel's and not a seeded generator,
because forked workers would share the seed, and with it every delay.
"""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from lakelog.errors import InvalidInputError, UnavailableError
from lakelog.store.drive import Perform, PerformAsync
from lakelog.store.operations import Delete, Op, Read

__all__ = ["RetryPolicy", "retrying", "retrying_async"]

_sleep: Callable[[float], None] = time.sleep  # noqa: TID251 (the one place where the store waits)
_uniform = secrets.SystemRandom().random


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often and how long. Raise ``attempts_max`` for a store that is throttled for minutes."""

    attempts_max: int = 6
    delay_ms_base: int = 100
    """The bound of the first delay."""
    delay_ms_max: int = 10_000
    """No bound grows beyond this."""

    def __post_init__(self) -> None:
        if self.attempts_max < 1 or self.delay_ms_base < 0 or self.delay_ms_max < 0:
            raise InvalidInputError(f"{self}: use one attempt or more, and delays from 0")

    def delay_s(self, attempt: int, uniform: Callable[[], float]) -> float:
        """Return how long to wait after the attempt with this number, from 0."""
        bound_ms = min(self.delay_ms_max, self.delay_ms_base << min(attempt, 32))
        return uniform() * bound_ms / 1000


def retrying(
    perform: Perform,
    policy: RetryPolicy | None = None,
    *,
    sleep: Callable[[float], None] = _sleep,
    uniform: Callable[[], float] = _uniform,
) -> Perform:
    """Return ``perform`` with reads and deletions repeated while there is no answer."""
    rule = policy or RetryPolicy()

    def patiently(op: Op) -> Any:
        for attempt in range(_repeats(op, rule)):
            try:
                return perform(op)
            except UnavailableError:
                sleep(rule.delay_s(attempt, uniform))
        return perform(op)

    return patiently


def retrying_async(
    perform: PerformAsync,
    policy: RetryPolicy | None = None,
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    uniform: Callable[[], float] = _uniform,
) -> PerformAsync:
    """Return ``perform`` with reads and deletions repeated while there is no answer."""
    rule = policy or RetryPolicy()

    async def patiently(op: Op) -> Any:
        for attempt in range(_repeats(op, rule)):
            try:
                return await perform(op)
            except UnavailableError:
                await sleep(rule.delay_s(attempt, uniform))
        return await perform(op)

    return patiently


def _repeats(op: Op, policy: RetryPolicy) -> int:
    return policy.attempts_max - 1 if isinstance(op, Read | Delete) else 0
