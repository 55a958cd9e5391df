"""A namespace: made once, opened by everybody.

    {"format": 1, "id": "…", "lanes": 4, "grace_ms": 3600000, "checkpoint_every": 64}

The heads of the lanes are made first and ``cluster.json`` last: where that stands, every lane has
had its head. So a lane without one is a lane that lost it, and stops; nobody makes it another one,
also not who tries to make the namespace again.
"""

import json
from dataclasses import dataclass

from lakelog.errors import ConflictError, CorruptError, NotFoundError
from lakelog.formats import decode_fields, number
from lakelog.journal import Head, encode_head
from lakelog.model import Rules
from lakelog.names import CLUSTER_KEY, head_key
from lakelog.store import Work, change_cell, put_if_absent, read_cell

__all__ = ["Namespace", "make_namespace", "open_namespace"]

FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Namespace:
    """Who this is, and what everybody here agrees on."""

    id: bytes
    rules: Rules


def make_namespace(id_: bytes, rules: Rules) -> Work[Namespace]:
    """Make a namespace in an empty place, or finish one that somebody began to make.

    Raises:
        ConflictError: there is one already.
    """
    fields = {
        "format": FORMAT,
        "id": id_.hex(),
        "lanes": rules.lanes,
        "grace_ms": rules.grace_ms,
        "checkpoint_every": rules.checkpoint_every,
    }
    mine = json.dumps(fields).encode()
    found = yield from read_cell(CLUSTER_KEY)
    for lane in range(rules.lanes if found is None else 0):
        yield from put_if_absent(head_key(lane), encode_head(Head(lane=lane)))
    body = yield from change_cell(
        CLUSTER_KEY, lambda now: mine if now is None else None, lambda now: now == mine
    )
    if body != mine:
        raise ConflictError("there is a namespace here already: use it, or choose another folder")
    return Namespace(id=id_, rules=rules)


def open_namespace() -> Work[Namespace]:
    """Return the namespace that is here.

    Raises:
        NotFoundError: there is none.
    """
    found = yield from read_cell(CLUSTER_KEY)
    if found is None:
        raise NotFoundError("there is no namespace here: make one with lakelog init")
    try:
        names = ("lanes", "grace_ms", "checkpoint_every")
        known = ("id", *names)
        fields = decode_fields(found.body, format_=FORMAT, where=CLUSTER_KEY, known=known)
        id_, numbers = bytes.fromhex(fields["id"]), {name: number(fields[name]) for name in names}
        if len(id_) != 16:
            raise ValueError(f"id {id_.hex()}")
        return Namespace(id=id_, rules=Rules(**numbers))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        what = f"it is no namespace: {error!r}"
        raise CorruptError(what, at=0, where=CLUSTER_KEY) from error
