"""Checkpoints, and the tail that names one: written off the path of acknowledgements.

A checkpoint is a function of the chain. Whoever holds a verified fold may write it, and a race for
its key is harmless. The tail is advisory: where a walk begins. Losing either loses no record.

A slice index may be shorter than the round of bundles it is of: whoever looks for an older one
reads directories. So it is cut where many bulk writes would make it larger than objects should be.
"""

import json
from collections.abc import Sequence
from contextlib import suppress

from lakelog.errors import NotFoundError, UnavailableError
from lakelog.formats.lanes import Bundle, encode_checkpoint
from lakelog.journal.lane import Due, Lane
from lakelog.journal.walk import TAIL_BYTES_MAX
from lakelog.names import checkpoint_key, tail_key
from lakelog.store import SOON, GetRange, Work, ask, put_if_absent, put_if_match, put_named

__all__ = ["store_checkpoint", "write_checkpoint"]

ROLL_ROWS_MAX = 1 << 19
"""Slices in a slice index: about 48 MB."""


def write_checkpoint(lane: Lane, due: Due | None = None) -> Work[bool]:
    """Write the checkpoint that is due, or this one, if one is, and point the tail at it."""
    if due is None and lane.snapshot is not None:
        due = lane.snapshot.due
    if due is None:
        return False
    yield from store_checkpoint(lane.number, due)
    lane.counters["checkpoint"] += 1
    lane.stands(due[0].seq)
    return True


def store_checkpoint(lane: int, due: Due) -> Work[None]:
    """Create a checkpoint and point the tail at it. It touches nothing that others know: it may run
    in a thread of its own.
    """
    fold, slice_index = due
    body = encode_checkpoint(fold.checkpoint(_newest(slice_index)))
    yield from put_named(checkpoint_key(lane, fold.seq), body, SOON)
    with suppress(UnavailableError):  # It is advice: the end of a lane is found without it.
        yield from _point_tail(lane, fold.seq)


def _point_tail(lane: int, seq: int) -> Work[None]:
    body = json.dumps({"checkpoint": seq}).encode()
    key = tail_key(lane)
    try:
        found = yield from ask(GetRange(key, 0, TAIL_BYTES_MAX))
    except NotFoundError:
        yield from put_if_absent(key, body)
        return
    said = _said(found.body)
    if said.keys() - {"checkpoint"}:
        return  # A later version says more there. It is advice: an old one will do.
    old = said.get("checkpoint", -1)
    if type(old) is not int or old < seq:
        yield from put_if_match(key, body, found.info.etag)


def _newest(bundles: Sequence[Bundle]) -> Sequence[Bundle]:
    """Return the last bundles, as many as a slice index has room for; one at least."""
    rows = 0
    for at in range(len(bundles) - 1, -1, -1):
        rows += len(bundles[at].slices)
        if rows > ROLL_ROWS_MAX:
            return bundles[min(at + 1, len(bundles) - 1) :]
    return bundles


def _said(body: bytes) -> dict[str, object]:
    """Return what a tail says; nothing, if it is none."""
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}
