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

A namespace whose members and groups are in etcd says so (``"metadata": "etcd"``), and a cell there,
the place, says whose they are. It is made before ``cluster.json``, and only ``lakelog meta`` makes
it anew: an etcd that lost it has lost groups and offsets, too.

    {"format": 1, "namespace": "…", "storage": "s3://bucket/folder", "nonce": "…", "moves": 2}

How often all groups were moved (``moves``) stands in both, and while they are moved also where to.
Where the two numbers differ nobody may use what is there.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from lakelog.errors import (
    ConflictError,
    CorruptError,
    InvalidInputError,
    NotFoundError,
    UnavailableError,
)
from lakelog.formats import Bytes, check_fields, decode_fields, decoding, number
from lakelog.journal import Head, encode_head
from lakelog.model import Rules
from lakelog.names import CLUSTER_KEY, METADATA_KEY, PIPELINE_KEY, head_key
from lakelog.store import (
    DividedStore,
    Flow,
    Store,
    Work,
    change_cell,
    is_there,
    put_if_absent,
    read_cell,
)

__all__ = [
    "BUCKET",
    "ETCD",
    "Move",
    "Namespace",
    "add_lanes",
    "change_namespace",
    "check_metadata",
    "check_storage",
    "claim_pipeline",
    "has_namespace",
    "is_pipeline_claimed",
    "make_namespace",
    "make_place",
    "open_namespace",
    "place_store",
    "set_place",
]

FORMAT = 1
BUCKET, ETCD = "bucket", "etcd"
_PLACES = (BUCKET, ETCD)
_RULES = ("lanes", "grace_ms", "checkpoint_every")


class Move(NamedTuple):
    """Where all groups are being moved to."""

    number: int
    metadata: str
    shards: int
    source: str
    """What they are restored from; empty: they are moved as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Namespace:
    """Who this is, and what everybody here agrees on."""

    id: bytes
    rules: Rules
    metadata: str = BUCKET
    """Where members and groups are: in the bucket, or in etcd."""
    moves: int = 0
    """The number of the last move of all groups."""
    restored: str = ""
    """What they were restored from by that move; empty: nothing was."""
    moving: Move | None = None


def make_namespace(id_: bytes, rules: Rules, *, etcd_for: str = "") -> Work[Namespace]:
    """Make a namespace in an empty place, or finish one that somebody began to make.

    With etcd, ``etcd_for`` is the address of the storage.

    Raises:
        ConflictError: there is one already.
        InvalidInputError: the folder of etcd is another storage's.
    """
    made = Namespace(id=id_, rules=rules)
    if etcd_for:
        id_ = yield from make_place(id_, etcd_for, 0)
        made = Namespace(id=id_, rules=rules, metadata=ETCD)
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


def make_place(id_: bytes, storage: str, moves: int) -> Work[bytes]:
    """Say in etcd whose metadata it keeps, and return whose: another may have been faster.

    Raises:
        InvalidInputError: the folder of etcd is another storage's.
    """
    yield from put_if_absent(METADATA_KEY, _encode_place(id_, storage, moves))
    return (yield from check_storage(storage))


def check_storage(storage: str) -> Work[bytes]:
    """Return whose metadata etcd keeps, if they are those of a storage.

    A copy of a bucket has the id of the original, and must leave the original's metadata alone.

    Raises:
        InvalidInputError: the folder of etcd is another storage's.
        UnavailableError: etcd does not answer, or has none.
    """
    place = yield from _read_place()
    if place.storage != storage:
        raise InvalidInputError(
            f"this folder of etcd keeps the metadata of {place.storage}, and not of {storage}: "
            "choose another folder"
        )
    return place.namespace


def set_place(id_: bytes, storage: str, moves: int) -> Work[None]:
    """Say in etcd that it keeps the metadata as they are after a move.

    Whoever knew the place as it was can do nothing there any more (``store.etcd``).

    Raises:
        ConflictError: they were moved again since.
    """
    body = _encode_place(id_, storage, moves)

    def set_(now: bytes | None) -> bytes | None:
        if now is not None and _decode_place(now).moves > moves:
            raise ConflictError(f"the groups were moved again since move {moves}: retry")
        return None if now == body else body

    yield from change_cell(METADATA_KEY, set_, lambda now: now == body)


def place_store(store: Store, namespace: Namespace) -> Store:
    """Return a store in which members and groups are where the namespace says.

    Raises:
        InvalidInputError: that is etcd, and nobody said where it is.
    """
    if namespace.metadata == BUCKET:
        return store.bucket if isinstance(store, DividedStore) else store
    if not isinstance(store, DividedStore):
        raise InvalidInputError(
            "members and groups of this namespace are in etcd: give the storage option "
            "metadata=etcd://host:2379/folder"
        )
    return store


def check_metadata(namespace: Namespace) -> Work[None]:
    """Do nothing if members and groups are where the namespace says.

    Raises:
        InvalidInputError: etcd has those of another namespace.
        UnavailableError: it does not answer, or has lost them, or they are being moved.
    """
    if namespace.metadata == ETCD:
        place = yield from _read_place()
        if place.namespace != namespace.id:
            raise InvalidInputError(
                f"this folder of etcd keeps the metadata of namespace {place.namespace.hex()}, in "
                f"{place.storage}, and this one is {namespace.id.hex()}: name another folder"
            )
        if place.moves != namespace.moves:
            raise UnavailableError(
                f"etcd has the groups of move {place.moves}, and the namespace is at move "
                f"{namespace.moves}: they are being moved; retry when lakelog meta has ended, and "
                "run it again if it was ended before that"
            )


class _Place(NamedTuple):
    namespace: bytes
    storage: str
    moves: int


def _encode_place(id_: bytes, storage: str, moves: int) -> bytes:
    fields: dict[str, Any] = {"format": FORMAT, "namespace": id_.hex()}
    fields |= {"storage": storage, "nonce": id_.hex()}
    if moves:
        fields["moves"] = moves
    return json.dumps(fields).encode()


def _read_place() -> Work[_Place]:
    found = yield from read_cell(METADATA_KEY)
    if found is None:
        raise UnavailableError(
            "this folder of etcd has no metadata of a namespace: check its address; if it has lost "
            "them, lakelog meta restore brings back what the bucket has of them"
        )
    return _decode_place(found.body)


def _decode_place(data: Bytes) -> _Place:
    with decoding("metadata cell", METADATA_KEY):
        known = ("namespace", "storage", "nonce", "moves")
        fields = decode_fields(data, format_=FORMAT, where=METADATA_KEY, known=known)
        moves = number(fields.get("moves", 0))
        return _Place(bytes.fromhex(fields["namespace"]), str(fields["storage"]), moves)


def change_namespace(alter: Callable[[Namespace], Namespace]) -> Work[Namespace]:
    """Change what everybody here agrees on, and return it.

    Raises:
        NotFoundError: there is no namespace here.
    """

    def altered(body: bytes | None) -> bytes | None:
        if body is None:
            raise NotFoundError("there is no namespace here: make one with lakelog init")
        before = _decode(body)
        after = alter(before)
        return None if after == before else _encode(after)

    def is_mine(body: bytes) -> bool:
        return alter(_decode(body)) == _decode(body)

    yield from change_cell(CLUSTER_KEY, altered, is_mine)
    return (yield from open_namespace())


def add_lanes(lanes: int) -> Work[Namespace]:
    """Let a namespace have so many lanes: topics that are made from now on use all of them.

    Raises:
        NotFoundError: there is no namespace here.
        InvalidInputError: it has more already, or these are too many.
    """
    before = yield from open_namespace()
    _grown(before, lanes)
    yield from _make_heads(range(before.rules.lanes, lanes))
    return (
        yield from change_namespace(
            lambda now: _grown(now, lanes) if now.rules.lanes < lanes else now
        )
    )


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
    fields: dict[str, Any] = {"format": FORMAT, "id": namespace.id.hex()}
    fields |= {name: getattr(rules, name) for name in _RULES}
    if namespace.metadata != BUCKET:
        fields["metadata"] = namespace.metadata
    if namespace.moves:
        fields["moves"] = namespace.moves
    if namespace.restored:
        fields["restored"] = namespace.restored
    if namespace.moving is not None:
        fields["moving"] = namespace.moving._asdict()
    return json.dumps(fields).encode()


def _decode(data: Bytes) -> Namespace:
    with decoding("namespace", CLUSTER_KEY):
        known = ("id", *_RULES, "metadata", "moves", "restored", "moving")
        fields = decode_fields(data, format_=FORMAT, where=CLUSTER_KEY, known=known)
        id_ = bytes.fromhex(fields["id"])
        if len(id_) != 16:
            raise ValueError(f"id {id_.hex()}")
        rules = Rules(**{name: number(fields[name]) for name in _RULES})
        moving = fields.get("moving")
        return Namespace(
            id=id_,
            rules=rules,
            metadata=_place_of(fields.get("metadata", BUCKET)),
            moves=number(fields.get("moves", 0)),
            restored=str(fields.get("restored", "")),
            moving=None if moving is None else _decode_move(moving),
        )


def _place_of(metadata: Any) -> str:
    if metadata not in _PLACES:
        raise ValueError(f"metadata {metadata!r}")
    return str(metadata)


def _decode_move(fields: dict[str, Any]) -> Move:
    check_fields(fields, Move._fields, where=CLUSTER_KEY)
    to, source = _place_of(fields["metadata"]), str(fields["source"])
    return Move(number(fields["number"]), to, number(fields["shards"]), source)


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
