"""What one request may ask of the store: so many operations, whatever it names.

    begin_request    in the task of a request: what is asked of the store from here on counts for it
    begun            when that was: what the store was asked since then is news to the request
    spend            counts one operation; called where operations are performed
    is_spent         asked between two slices of what a request names; then the rest is answered
                     without the store, so that the client asks again, or later

The operations are many floors below the handlers, in flows that know of no requests. So the count
is a variable of the context, which tasks hand on to the tasks that they start. What several
requests share, a look at a lane for instance, is not counted for any of them.
"""

from contextvars import ContextVar
from dataclasses import dataclass

from lakelog.broker.meters import METER
from lakelog.broker.moments import moment

__all__ = ["OPERATIONS_MAX", "SPENT", "begin_request", "begun", "is_spent", "spend"]

OPERATIONS_MAX = 20_000
"""Operations on the store that one request may cause, and a slice more."""

SPENT = (
    f"this request has asked the store for {OPERATIONS_MAX} things: ask for the rest in another one"
)


@dataclass(slots=True)
class _Count:
    begun: int
    spent: int = 0


_COUNT: ContextVar[_Count | None] = ContextVar("operations of a request", default=None)


def begin_request() -> None:
    """Count from here on, in this task and in those that it starts."""
    _COUNT.set(_Count(moment()))


def begun() -> int:
    """Return the moment when the request began; outside of requests, that is now."""
    count = _COUNT.get()
    return moment() if count is None else count.begun


def spend() -> None:
    """Count one operation, if it is for a request."""
    count = _COUNT.get()
    if count is not None:
        count.spent += 1
    meter = METER.get()
    if meter is not None:
        meter.asked_store()


def is_spent() -> bool:
    """Say whether the request has had its operations."""
    count = _COUNT.get()
    return count is not None and count.spent >= OPERATIONS_MAX
