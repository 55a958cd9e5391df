"""What a test wants to go wrong with a broker, and the store to which it does.

    store="unavailable"   no operation is answered, and none is performed
    store="slow"          every operation takes ``delay_s`` longer
    store="ambiguous"     puts are performed, and the answers of those that store something are lost
    disk="full"           nothing more can be written
    answers="lost"        a produce request is carried out; instead of the answer, a reset
    answers="slow"        producers are answered ``delay_s`` later
    broker="down"         the broker has stopped, and starts again at the end

The broker is not told of any of it: it meets what it would meet in a cloud.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lakelog.errors import InvalidInputError, UnavailableError
from lakelog.store import Created, Op, Replaced, Store

__all__ = ["TroubledStore", "Troubles"]

KINDS = {
    "store": ("unavailable", "slow", "ambiguous"),
    "disk": ("full",),
    "answers": ("lost", "slow"),
    "broker": ("down",),
}
DELAY_S = 0.2

_sleep: Callable[[float], None] = time.sleep  # noqa: TID251 (a driver: a slow store waits here)


@dataclass(frozen=True, slots=True, kw_only=True)
class Troubles:
    """What is wrong, all at the same time; an empty word means that this is well."""

    store: str = ""
    disk: str = ""
    answers: str = ""
    broker: str = ""
    delay_s: float = DELAY_S
    """Of what is slow."""
    topic: str = ""
    """Only answers about this one; empty: about any."""
    times: int | None = None
    """So many answers are lost; None: all of them."""

    def __post_init__(self) -> None:
        for name, words in KINDS.items():
            word = getattr(self, name)
            if word and word not in words:
                said = " or ".join(f'{name}="{one}"' for one in words)
                raise InvalidInputError(f'trouble({name}="{word}") is not known: use {said}')
        if not any(getattr(self, name) for name in KINDS):
            raise InvalidInputError(f"trouble() needs one of {', '.join(KINDS)}")
        if self.delay_s < 0 or (self.times is not None and self.times < 1):
            raise InvalidInputError(f"{self}: use a delay from 0, and one time or more")
        if (self.topic or self.times is not None) and not self.answers:
            raise InvalidInputError(
                'topic and times are about answers: add answers="lost" or answers="slow"'
            )


class TroubledStore:
    """A store that does what the test says; what is well goes to the one below."""

    def __init__(self, below: Store) -> None:
        self.below = below
        self.trouble = ""
        self.delay_s = 0.0

    @property
    def url(self) -> str:
        return self.below.url

    def perform(self, op: Op) -> Any:
        """Perform one operation, or not."""
        if self.trouble == "slow":
            _sleep(self.delay_s)
        return self._perform(op)

    async def perform_async(self, op: Op) -> Any:
        """The same, beside the loop. What waits does not keep a thread from others."""
        if self.trouble == "slow":
            await asyncio.sleep(self.delay_s)
        return await asyncio.to_thread(self._perform, op)

    def _perform(self, op: Op) -> Any:
        if self.trouble == "unavailable":
            raise UnavailableError("the store does not answer, because a test says so")
        answer = self.below.perform(op)
        if self.trouble == "ambiguous" and isinstance(answer, Created | Replaced):
            raise UnavailableError("the answer of the store is lost, because a test says so")
        return answer
