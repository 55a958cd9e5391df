"""The slot of an answer among those of its connection, and what a connection hands requests to."""

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from lakelog.broker.budget import Budget, Buffers
from lakelog.broker.limits import Limits
from lakelog.formats import Bytes

if TYPE_CHECKING:
    from lakelog.broker.connection import Connection

__all__ = ["Frames", "ResponseSlot"]

_SIZE = struct.Struct(">i")


class ResponseSlot:
    """The slot of one answer."""

    __slots__ = ("_connection", "counted", "is_done", "pieces", "sent", "size", "why", "work")

    def __init__(self, connection: "Connection", size: int) -> None:
        self._connection = connection
        self.size = size
        """Bytes of the request that are in memory."""
        self.pieces: list[Bytes] = []
        self.counted = 0
        """Bytes of the answer that are in the budget for answers."""
        self.is_done = False
        self.why = ""
        """What ends the connection when it is this answer's turn."""
        self.work: Any = None
        """What can be cancelled if the connection ends."""
        self.sent: Callable[[], None] | None = None
        """Called when the answer has been handed over."""

    def answer(self, pieces: list[Bytes]) -> None:
        """Answer, once those before have been."""
        size = sum(map(len, pieces))
        self.pieces = [_SIZE.pack(size), *pieces]
        if not self.is_done and not self._connection.is_lost:
            self.counted = self._connection.unread.made(size)
        self.done()

    def send(self, frame: bytes) -> None:
        """Answer with a whole frame."""
        self.pieces = [frame]
        self.done()

    def throttle_ms(self) -> int:
        """Return for how long the connection is not read from now on, as its answer says."""
        meter = self._connection.meter
        return 0 if meter is None else meter.tell_ms()

    def done(self) -> None:
        """There is nothing more to come of it."""
        if not self.is_done:
            self.is_done = True
            self._connection.send_soon(self)

    def fail(self, why: str) -> None:
        """There will be no answer: end the connection."""
        self._connection.close(why)

    def end(self, why: str) -> None:
        """There is no answer, and the client must notice: end the connection behind the answers
        that come before.
        """
        self.why = why
        self.done()

    def parsed(self, size: int) -> None:
        """The request has been read and its frame is gone: so many bytes are kept of it."""
        if size < self.size:
            self._connection.shrink(self, size)


class Frames(Protocol):
    """What a connection hands its requests to."""

    limits: Limits
    budget: Budget
    buffers: Buffers
    answers: Budget

    def opened(self, connection: "Connection") -> str:
        """Take note of a connection; or say why it may not come in."""
        ...

    def identified(self, connection: "Connection", principal: str, why: str) -> None:
        """Take note of whom a certificate names; or why that is nobody."""
        ...

    def closed(self, connection: "Connection", why: str) -> None:
        """Take note that it has ended."""
        ...

    def sent(self, size: int) -> None:
        """Take note of bytes that were sent."""
        ...

    def frame(self, connection: "Connection", frame: memoryview, slot: ResponseSlot) -> None:
        """Answer a request, now or later.

        Raises:
            LakelogError: this is no request that can be answered.
        """
        ...
