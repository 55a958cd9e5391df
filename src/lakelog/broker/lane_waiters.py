"""Who waits for a lane: what is called with the outcome, and the owner of the client's answer."""

from collections.abc import Callable
from typing import Protocol

from lakelog.errors import LakelogError, UnavailableError
from lakelog.journal import Outcome

__all__ = ["AnswerOwner", "Done", "LaneWaiter", "closing_error", "is_late"]

Done = Callable[[Outcome | LakelogError], None]
"""Called once with how a request ended; an error says that nothing is known."""


class AnswerOwner(Protocol):
    """The owner of the answer to a client, of which an outcome is a part."""

    def expire(self, now_ms: int) -> bool:
        """Answer if the time is up; say whether the client has been answered."""
        ...


LaneWaiter = tuple[Done, AnswerOwner | None]
"""What is called with the outcome, and the owner of the answer; None: the caller waits for ever."""


def is_late(waiter: LaneWaiter, now_ms: int) -> bool:
    """Say whether the client of a request has been answered already."""
    owner = waiter[1]
    return owner is not None and owner.expire(now_ms)


def closing_error() -> UnavailableError:
    """Return what whoever comes too late is told."""
    return UnavailableError(
        "this broker is stopping and takes no more requests: send them to another broker"
    )
