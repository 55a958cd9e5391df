"""A namespace: made once, opened by everybody.

    {"format": 1, "id": "…", "lanes": 4, "grace_ms": 3600000, "checkpoint_every": 64}

The heads of the lanes are made first and ``cluster.json`` last: where that stands, every lane has
had its head. So a lane without one is a lane that lost it, and stops; nobody makes it another one,
also not who tries to make the namespace again. Lanes are added in the same order. There are never
fewer: what was appended to a lane stays there.

A pipeline on a cluster claims the namespace before each pass:

    {"format": 1, "holder": "…", "until_ms": 1763190000000}

Whoever maintains the namespace on the side, as a broker does, then stands back. It saves work and
means nothing else: every verb is safe without it, and the claim of a pipeline that died runs out.
"""

import json
from contextlib import suppress
from dataclasses import dataclass, replace

from lakelog.errors import ConflictError, CorruptError, InvalidInputError, NotFoundError
from lakelog.formats import Bytes, decode_fields, decoding, number
from lakelog.journal import Head, encode_head
from lakelog.model import Rules
from lakelog.names import CLUSTER_KEY, PIPELINE_KEY, head_key
from lakelog.store import Flow, Work, change_cell, is_there, put_if_absent, read_cell

__all__ = [
    "Namespace",
    "add_lanes",
    "claim_pipeline",
    "has_namespace",
    "is_pipeline_claimed",
    "make_namespace",
    "open_namespace",
]

FORMAT = 1
_RULES = ("lanes", "grace_ms", "checkpoint_every")


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
    made = Namespace(id=id_, rules=rules)
    mine = _encode(made)
    found = yield from read_cell(CLUSTER_KEY)
    if found is None:
        yield from _make_heads(range(rules.lanes))
    body = yield from change_cell(
        CLUSTER_KEY, lambda now: mine if now is None else None, lambda now: now == mine
    )
    if body != mine:
        raise ConflictError("there is a namespace here already: use it, or choose another folder")
    return made


def add_lanes(lanes: int) -> Work[Namespace]:
    """Let a namespace have so many lanes: topics that are made from now on use all of them.

    Raises:
        NotFoundError: there is no namespace here.
        InvalidInputError: it has more already, or these are too many.
    """
    before = yield from open_namespace()
    after = _grown(before, lanes)
    yield from _make_heads(range(before.rules.lanes, lanes))

    def grown(body: bytes | None) -> bytes | None:
        now = before if body is None else _decode(body)
        return _encode(_grown(now, lanes)) if now.rules.lanes < lanes else None

    body = yield from change_cell(CLUSTER_KEY, grown, lambda now: now == _encode(after))
    return after if body is None else _decode(body)


def _grown(namespace: Namespace, lanes: int) -> Namespace:
    if lanes < namespace.rules.lanes:
        raise InvalidInputError(
            f"the namespace has {namespace.rules.lanes} lanes, and lanes cannot be taken away: use "
            "a higher number"
        )
    return replace(namespace, rules=replace(namespace.rules, lanes=lanes))


def _make_heads(lanes: range) -> Work[None]:
    for lane in lanes:
        yield from put_if_absent(head_key(lane), encode_head(Head(lane=lane)))


def has_namespace() -> Flow[bool]:
    """Say whether there is a namespace here."""
    return is_there(CLUSTER_KEY)


def open_namespace() -> Work[Namespace]:
    """Return the namespace that is here.

    Raises:
        NotFoundError: there is none.
    """
    found = yield from read_cell(CLUSTER_KEY)
    if found is None:
        raise NotFoundError("there is no namespace here: make one with lakelog init")
    return _decode(found.body)


def _encode(namespace: Namespace) -> bytes:
    rules = namespace.rules
    fields = {"format": FORMAT, "id": namespace.id.hex()}
    return json.dumps(fields | {name: getattr(rules, name) for name in _RULES}).encode()


def _decode(data: Bytes) -> Namespace:
    with decoding("namespace", CLUSTER_KEY):
        fields = decode_fields(data, format_=FORMAT, where=CLUSTER_KEY, known=("id", *_RULES))
        id_ = bytes.fromhex(fields["id"])
        if len(id_) != 16:
            raise ValueError(f"id {id_.hex()}")
        return Namespace(id=id_, rules=Rules(**{name: number(fields[name]) for name in _RULES}))


# ---------------------------------------------------------------------------- claims of pipelines


def claim_pipeline(holder: bytes, until_ms: int) -> Work[None]:
    """Say that ``holder`` maintains the namespace until a moment of the store's clock.

    Raises:
        UnsupportedError: a later version made the claim that is there; it was left as it is.
    """
    mine = json.dumps({"format": FORMAT, "holder": holder.hex(), "until_ms": until_ms}).encode()

    def renewed(now: bytes | None) -> bytes | None:
        if now is not None:
            with suppress(CorruptError):  # What says nothing has nothing to lose.
                _until_ms(now)
        return None if now == mine else mine

    yield from change_cell(PIPELINE_KEY, renewed, lambda now: now == mine)


def is_pipeline_claimed(now_ms: int) -> Work[bool]:
    """Say whether a pipeline maintains the namespace; ``now_ms`` is by the store's clock.

    Raises:
        CorruptError: it is no claim.
        UnsupportedError: a later version made it.
    """
    found = yield from read_cell(PIPELINE_KEY)
    return found is not None and _until_ms(found.body) > now_ms


def _until_ms(data: Bytes) -> int:
    with decoding("claim", PIPELINE_KEY):
        known = ("holder", "until_ms")
        fields = decode_fields(data, format_=FORMAT, where=PIPELINE_KEY, known=known)
        return number(fields["until_ms"])
