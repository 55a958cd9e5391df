"""Checkpoints, and the tail that names one: written off the path of acknowledgements.

A checkpoint is a function of the chain. Whoever holds a verified fold may write it, and a race for
its key is harmless. The tail is advisory: where a walk begins. Losing either loses no record.
"""

import json

from lakelog.errors import NotFoundError
from lakelog.formats.lanes import encode_checkpoint
from lakelog.journal.lane import Lane
from lakelog.journal.walk import TAIL_BYTES_MAX
from lakelog.names import checkpoint_key, tail_key
from lakelog.store import GetRange, Work, fetch, put_if_absent, put_if_match

__all__ = ["write_checkpoint"]


def write_checkpoint(lane: Lane) -> Work[bool]:
    """Write the checkpoint that is due, if one is, and point the tail at it."""
    if lane.due is None:
        return False
    due = lane.due
    fold, roll = due
    body = encode_checkpoint(fold.checkpoint(roll))
    yield from put_if_absent(checkpoint_key(lane.number, fold.seq), body)
    lane.notes["checkpoint"] += 1
    if lane.due is due:
        lane.due = None
    lane.checkpoint = max(lane.checkpoint, fold.seq)
    body = json.dumps({"checkpoint": fold.seq}).encode()
    key = tail_key(lane.number)
    try:
        found = yield from fetch(GetRange(key, 0, TAIL_BYTES_MAX))
    except NotFoundError:
        yield from put_if_absent(key, body)
        return True
    if _seq(found.body) < fold.seq:
        yield from put_if_match(key, body, found.info.etag)
    return True


def _seq(body: bytes) -> int:
    try:
        seq = json.loads(body)["checkpoint"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return -1
    return seq if type(seq) is int else -1
