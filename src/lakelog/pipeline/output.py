"""How steps write: objects that are there once, whoever runs the step, and however often.

An object is created, or found to be there with the very same bytes. Steps are functions of their
input, so a second run, or a twin that Spark started for a slow task, finds what the first one made.
Other bytes under the name are somebody else's: a conflict, and nothing is overwritten.
"""

from lakelog.errors import ConflictError, NotFoundError, UnavailableError
from lakelog.store import (
    Changed,
    Created,
    Flow,
    RetryPolicy,
    Unanswered,
    Work,
    get,
    get_range,
    put_answered,
    put_if_match,
)

__all__ = ["put_once", "replace_once"]

GONE = RetryPolicy(attempts_max=4)
"""How often it may be there and then gone, and the pauses in between."""


def put_once(key: str, body: bytes) -> Work[bool]:
    """Create an object, or find it there; return whether this call made it.

    Raises:
        ConflictError: there is one, with other bytes.
        UnavailableError: no answer, or there and then gone, time and again.
    """
    gone = Unanswered(key.encode(), GONE)
    while True:
        put = yield from put_answered(key, body)
        if isinstance(put.answer, Created):
            return True
        try:
            there = yield from get_range(key, 0, len(body) + 1)
        except NotFoundError:
            what = f"{key} was there and gone again, time after time: does somebody delete it?"
            error = UnavailableError(what)
            yield from gone.wait(error)
            continue
        if there == body:
            return not put.is_sure
        raise ConflictError(f"{key} is there already, with other bytes: choose an empty target")


def replace_once(key: str, body: bytes, etag: str) -> Flow[None]:
    """Replace an object that is still the one ``etag`` names.

    Raises:
        ConflictError: it is another one by now; look again.
    """
    try:
        answer = yield from put_if_match(key, body, etag)
    except UnavailableError:
        if (yield from get(key)) == body:
            return
        raise
    if isinstance(answer, Changed):
        raise ConflictError(f"{key} was changed by somebody else: run again")
