"""Answers to producers that come late, or never.

An answer is lost when its request was carried out: the connection is reset instead.

The dispatcher of a broker takes every frame. One that produces gets a slot here whose answer does
what the test says; all else passes untouched.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lakelog.broker import Broker
from lakelog.ephemeral.troubles import Troubles
from lakelog.errors import LakelogError
from lakelog.wire import ApiKey, decode_produce, decode_request_header

__all__ = ["AnswerTroubles"]

_WHY = "the answer is lost, because a test says so"


@dataclass(slots=True)
class AnswerTroubles:
    """What becomes of answers to producers."""

    now: Troubles | None = None
    lost: int = 0
    """How many answers were lost since ``now`` was set."""

    def begin(self, troubles: Troubles) -> None:
        self.now, self.lost = troubles, 0

    def watch(self, broker: Broker) -> None:
        """Have the answers of a broker pass here."""
        untroubled = broker.dispatcher.frame

        def troubled(connection: Any, frame: memoryview, slot: Any) -> None:
            if self.now is not None and self._is_meant(broker, self.now, frame):
                slot = _Slot(slot, connection, self)
            untroubled(connection, frame, slot)

        broker.dispatcher.frame = troubled  # type: ignore[method-assign]

    def _is_meant(self, broker: Broker, troubles: Troubles, frame: memoryview) -> bool:
        if int.from_bytes(frame[:2], "big") != ApiKey.PRODUCE:
            return False
        if not troubles.topic:
            return True
        try:
            header = decode_request_header(frame)
            request = decode_produce(frame, header.body_at, header.version)
        except LakelogError:
            return False  # The dispatcher says what is wrong with it.
        entries = (broker.services.catalog.entry(one.name, one.id) for one in request.topics)
        named = {one.name for one in request.topics}
        named |= {one.topic.name for one in entries if one is not None}
        return troubles.topic in named

    def pass_on(self, connection: Any, hand_over: Callable[[], None]) -> None:
        """Hand an answer over, now or later; or lose it."""
        troubles = self.now
        if troubles is None:
            hand_over()
        elif troubles.answers == "slow":
            asyncio.get_running_loop().call_later(troubles.delay_s, hand_over)
        elif troubles.times is not None and self.lost >= troubles.times:
            hand_over()
        else:
            self.lost += 1
            connection.drop(_WHY)


class _Slot:
    """The slot of an answer; what is said of it is said of the real one."""

    __slots__ = ("_connection", "_slot", "_troubles")

    def __init__(self, slot: Any, connection: Any, troubles: AnswerTroubles) -> None:
        object.__setattr__(self, "_slot", slot)
        object.__setattr__(self, "_connection", connection)
        object.__setattr__(self, "_troubles", troubles)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._slot, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._slot, name, value)

    def answer(self, pieces: list[Any]) -> None:
        self._troubles.pass_on(self._connection, lambda: self._slot.answer(pieces))

    def send(self, frame: bytes) -> None:
        self._troubles.pass_on(self._connection, lambda: self._slot.send(frame))
