"""How steps write: objects that are there once, whoever runs the step, and however often.

An object is created, or found to be there with the very same bytes. Steps are functions of their
input, so a second run, or a twin that Spark started for a slow task, finds what the first one made.
Other bytes under the name are somebody else's: a conflict, and nothing is overwritten.
"""

from lakelog.errors import ConflictError, NotFoundError, UnavailableError
from lakelog.store import Changed, Created, Flow, get, get_range, put_if_absent, put_if_match

__all__ = ["put_once", "replace_once"]

_ATTEMPTS = 4


def put_once(key: str, body: bytes) -> Flow[bool]:
    """Create an object, or find it there; return whether this call made it.

    Raises:
        ConflictError: there is one, with other bytes.
        UnavailableError: no answer, time and again.
    """
    lost: UnavailableError | None = None
    for _ in range(_ATTEMPTS):
        try:
            answer = yield from put_if_absent(key, body)
        except UnavailableError as error:
            lost = error  # It may be stored. The next attempt tells.
            continue
        if isinstance(answer, Created):
            return True
        try:
            there = yield from get_range(key, 0, len(body) + 1)
        except NotFoundError:
            continue
        if there == body:
            return lost is not None
        break
    else:
        raise lost or UnavailableError(f"{key} comes and goes: is somebody deleting?")
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
