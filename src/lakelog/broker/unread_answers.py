"""Answers of one connection that its client has not taken: counted, and not waited for for ever.

    made     an answer waits for those before it      counted from when it is made
    written  it is in the buffer of the socket        counted until the kernel has taken it

A client has to take its answers at some rate as long as there are any. The connection of a client
that takes less for a minute, or for a second while there is no room for other answers, is closed.
"""

from collections.abc import Callable

from lakelog.broker.budget import Budget
from lakelog.broker.limits import Limits

__all__ = ["UnreadAnswers"]

SMALL_BYTES = 4 << 10
"""Answers below this size are not counted before they are written: their requests are."""

PRESSED_S = 1.0
"""How long a slow reader has while there is no room for other answers."""


class UnreadAnswers:
    """What is owed to one client, and how well it takes it."""

    __slots__ = (
        "_address",
        "_answers",
        "_limits",
        "_mark",
        "_since_s",
        "_size",
        "_written",
        "buffered",
    )

    def __init__(self, answers: Budget, limits: Limits, now_s: float) -> None:
        self._answers, self._limits = answers, limits
        self._address = ""
        self._size: Callable[[], int] = int
        """Says how many bytes are in the buffer of the socket."""
        self.buffered = 0
        """How many were there when it was looked at last."""
        self._written = 0
        self._since_s, self._mark = now_s, 0
        """Since when it has been too slow, and how much it had taken then."""

    def begin(self, address: str, size: Callable[[], int]) -> None:
        """Take note of whose connection it is, and of what says how much is not taken."""
        self._address, self._size = address, size

    def end(self) -> None:
        """The connection has ended."""
        self._size = int
        self.look()

    def made(self, size: int) -> int:
        """Take note of an answer; return how many bytes of it count until it is written."""
        if size < SMALL_BYTES:
            return 0
        self._answers.take(size, self._address)
        return size

    def gone(self, counted: int) -> None:
        """Take note that an answer will not be written."""
        if counted:
            self._answers.give(counted, self._address)

    def wrote(self, size: int, counted: int) -> None:
        """Take note that answers went into the buffer of the socket; small ones are looked at when
        everything is.
        """
        self._written += size
        if counted:
            self.look()
            self.gone(counted)

    def look(self) -> None:
        """Take note of how much is in that buffer now."""
        buffered = self._size()
        change, self.buffered = buffered - self.buffered, buffered
        self._answers.change(change, self._address)

    def watch(self, now_s: float) -> str:
        """Look again; say why a reader is too slow to be waited for, or nothing."""
        self.look()
        buffered = self.buffered
        slow_s, taken = now_s - self._since_s, self._written - buffered - self._mark
        if not buffered or taken >= self._limits.answer_bytes_per_s * slow_s:
            self._since_s, self._mark = now_s, self._written - buffered
            return ""
        patience_s = self._limits.answer_ms / 1000
        if self._answers.is_spent(self._address):
            patience_s = min(patience_s, PRESSED_S)
        if slow_s <= patience_s:
            return ""
        return (
            f"the client took {taken} bytes of its answers in {slow_s:.0f} s, and {buffered} wait:"
            " read answers, or ask for less"
        )
