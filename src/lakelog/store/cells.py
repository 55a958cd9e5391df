"""Cells: objects that are changed by compare-and-swap, also when answers get lost.

    read -> alter -> put if it is still the one that was read
      replaced   done
      changed    somebody else was first, or our own put was, whose answer was lost: read and see
      no answer  it may be stored, and may still be on its way. Read: ours -> done; still the old
                 one -> put the same bytes again; another one -> ours can never land, begin anew.
                 Without one time and again: UnavailableError, and whether it changed is unknown

``alter`` is given what stands there and returns what should, or None when nothing needs to change.
It may be called many times, and on a cell that has its change already. ``is_mine`` tells whether a
cell has it: cells carry the ids of their last writers for this.

A cell that is too large to be read could never be changed again. So none is written: whoever would
make it so is refused, and it stays as it is.
"""

from collections.abc import Callable

from lakelog.errors import ConflictError, InvalidInputError, NotFoundError, UnavailableError
from lakelog.store.asking import ask, put_if_absent, put_if_match
from lakelog.store.operations import Created, Fetched, Get, Replaced, Wait, Work
from lakelog.store.puts import Unanswered

__all__ = ["CELL_BYTES_MAX", "change_cell", "read_cell"]

CELL_BYTES_MAX = 16 << 20
"""Of a cell: no more is read, and no more is written."""
ATTEMPTS_MAX = 50
"""Races lost in a row. Cells are changed seldom; so many mean that something is wrong."""

DELAY_MS_MIN = 20
DELAY_MS_MAX = 5_000


def read_cell(key: str) -> Work[Fetched | None]:
    """Return a cell, or None if there is none."""
    try:
        return (yield from ask(Get(key, CELL_BYTES_MAX)))
    except NotFoundError:
        return None


def change_cell(
    key: str,
    alter: Callable[[bytes | None], bytes | None],
    is_mine: Callable[[bytes], bool],
) -> Work[bytes | None]:
    """Change a cell, or make it, and return it as it is then; None if there is none still.

    Raises:
        ConflictError: others were first, too often.
        InvalidInputError: it would be too large to be read again; it was left as it is.
        UnavailableError: no answer, time and again; it may be changed.
    """
    for attempt in range(ATTEMPTS_MAX):
        found = yield from read_cell(key)
        if attempt and found is not None and is_mine(found.body):
            return found.body
        body = alter(None if found is None else found.body)
        if body is None:
            return None if found is None else found.body
        if len(body) > CELL_BYTES_MAX:
            raise InvalidInputError(
                f"{key} would have {len(body)} bytes, and {CELL_BYTES_MAX} are read: it was left "
                "as it is; take out what is no longer needed, or add less to it at once"
            )
        if (yield from _swap(key, found, body, is_mine)):
            return body
        yield Wait(min(DELAY_MS_MIN << min(attempt, 8), DELAY_MS_MAX))
    raise ConflictError(f"{key}: {ATTEMPTS_MAX} others changed it first: retry later")


def _swap(
    key: str, found: Fetched | None, body: bytes, is_mine: Callable[[bytes], bool]
) -> Work[bool]:
    """Replace what was found; False when that cannot succeed any more."""
    unanswered = Unanswered(body)
    answer: object
    while True:
        try:
            if found is None:
                answer = yield from put_if_absent(key, body)
            else:
                answer = yield from put_if_match(key, body, found.info.etag)
            if isinstance(answer, Created | Replaced):
                return True
            now = yield from read_cell(key)
            return now is not None and is_mine(now.body)
        except UnavailableError as error:
            yield from unanswered.wait(error)
