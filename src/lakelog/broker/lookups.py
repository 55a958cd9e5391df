"""Questions whose answer is that there is nothing: asked four times a second, however many ask.

    a name         one read of its cell
    many names     more than ``NAMES_MAX`` in a second: one listing, which answers for every name
    an id          one listing: there is no other way to find it

An answer is good for requests that came before its question *began*: another broker may have made
the topic meanwhile. So whoever asks again soon waits for the next question, for ``PACE_MS`` at most
until it begins, and what the store is asked does not grow with the names that clients make up.
Errors are not remembered: unknown is not that there is none.
"""

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, NamedTuple

from lakelog.broker.allowance import begun
from lakelog.broker.looks import SharedLook
from lakelog.ports import Clock

__all__ = ["NAMES_MAX", "PACE_MS", "Lookups"]

PACE_MS = 250
"""From the beginning of a question to the next one of the same kind."""

NAMES_MAX = 100
"""Names that are asked for one by one, in a second."""

_SECOND_MS = 1_000


class _Asked(NamedTuple):
    """A name that is asked for, and when somebody wanted to know it last."""

    look: SharedLook
    asked_ms: int


class Lookups:
    """Asks the store for topics that are not known."""

    def __init__(
        self,
        clock: Clock,
        ask: Callable[[str], Coroutine[Any, Any, None]],
        list_: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        self._clock, self._ask = clock, ask
        self._asked: dict[str, _Asked] = {}
        self._listing = SharedLook(list_, PACE_MS / 1000)

    async def name(self, name: str) -> None:
        """Return when the store has said whether there is such a topic, since the request began.

        Raises:
            LakelogError: there was no answer.
        """
        now_ms, asked = self._clock.boot_ms(), self._asked.get(name)
        if asked is None and not self._has_room(now_ms):
            await self.all()
            return
        look = SharedLook(partial(self._ask, name), PACE_MS / 1000) if asked is None else asked.look
        self._asked[name] = _Asked(look, now_ms)
        await look.take(begun())

    def _has_room(self, now_ms: int) -> bool:
        """Whether one more name may be asked for by itself."""
        if len(self._asked) >= NAMES_MAX:
            since_ms = now_ms - _SECOND_MS
            self._asked = {
                key: one
                for key, one in self._asked.items()
                if one.asked_ms >= since_ms or one.look.is_taken
            }
        return len(self._asked) < NAMES_MAX

    async def all(self) -> None:
        """Return when the store has listed every topic, since the request began.

        Raises:
            LakelogError: there was no answer.
        """
        await self._listing.take(begun())
