"""Moving all consumer groups: to etcd, back to the bucket, or to another number of shards.

    begin   cluster.json  "moving":{"number":2,"metadata":"etcd","shards":8,"source":""}
    fence   each old shard says that it was moved: no broker writes it any more, also none that was
            asleep, and what is in it stays so
    fill    the groups, in new shards; these have names of their own, by the number of the move
    place   in etcd: it is at this move now; nobody who knew it before can do anything there
    end     cluster.json  "metadata":"etcd","moves":2    brokers look there, and start anew
    tidy    the groups of the old shards and mirrors are dropped; the shards stay, as a fence

Whoever ends it anywhere and runs it again completes it: what was stored before is found, and what
would be stored again is the same. Two that run at once do the same, and one of them completes it.
Another target gets another number, so that what was stored for the first one is never used.

With a backup, or the mirror in the bucket, as the source nothing can be fenced that is lost.
Brokers that knew the lost etcd can do nothing in the one that is made anew: it has another place.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple, Protocol, TypeVar

from lakelog.catalog.namespace import (
    BUCKET,
    ETCD,
    Move,
    Namespace,
    change_namespace,
    check_storage,
    make_place,
    open_namespace,
    set_place,
)
from lakelog.coordination import (
    GROUP_BYTES_MAX,
    SHARD_BYTES_MAX,
    SHARDS,
    SHARDS_MAX,
    ClaimedShard,
    Groups,
    drop_mirrors,
    drop_moved,
    groups_in,
    shard_of,
)
from lakelog.errors import ConflictError, InvalidInputError, UnavailableError
from lakelog.store import Work

__all__ = [
    "MOVER",
    "MetadataStores",
    "RunFlow",
    "check_fit",
    "divide_groups",
    "join_groups",
    "move_groups",
    "restore_groups",
]

MOVER = b"\xff" * 16
"""Whoever moves groups: the same in every run, so that a later one completes an earlier one."""

_CLAIM_BYTES = 4096
"""More than all of a shard but its groups."""

T = TypeVar("T")


class RunFlow(Protocol):
    """Whatever performs flows in one store."""

    def __call__(self, flow: Work[T]) -> T: ...


class MetadataStores(NamedTuple):
    """The bucket and etcd, as one command uses them."""

    url: str
    """Of the bucket."""
    bucket: RunFlow
    etcd: RunFlow | None

    def of(self, metadata: str) -> RunFlow:
        """Return what performs flows where metadata are.

        Raises:
            InvalidInputError: it is etcd, and nobody said where that is.
        """
        if metadata == BUCKET:
            return self.bucket
        if self.etcd is None:
            raise InvalidInputError(
                "nobody said where etcd is: give the storage option "
                "metadata=etcd://host:2379/folder"
            )
        return self.etcd


def move_groups(
    stores: MetadataStores, *, to: str | None, shards: int | None, note: Callable[[str], None]
) -> Namespace:
    """Move all groups, or complete what an earlier run began; ``note`` is told of each step.

    Raises:
        InvalidInputError: they do not fit, or nobody said where etcd is; nothing was changed.
        UnavailableError: a store does not answer; run it again.
        ConflictError: another run moves them elsewhere.
    """
    namespace = _open(stores)
    old, run = groups_in(namespace.metadata, MOVER, move=namespace.moves), stores.of
    count = _count(old, run(namespace.metadata))
    wanted = _wanted(namespace, to or namespace.metadata, shards or count, "")
    if _is_same(namespace, wanted, count):
        _tidy(stores, namespace)
        return namespace
    before = [run(namespace.metadata)(old.read_moved(number)) for number in range(count)]
    check_fit(join_groups(one for one in before if one is not None), wanted)
    _make_place(stores, namespace, wanted)
    move = _begin(stores, wanted)
    note(f"move {move.number} begins: {count} shards become {move.shards} in {move.metadata}")
    fenced = [
        run(namespace.metadata)(old.fence(number, count, move.number)) for number in range(count)
    ]
    groups = join_groups(fenced)
    note(f"{len(groups)} groups are fenced: no broker can change them")
    return _complete(stores, namespace, move, groups, note)


def restore_groups(
    stores: MetadataStores,
    *,
    to: str | None,
    shards: int | None,
    groups: Mapping[str, bytes],
    source: str,
    is_lost: bool,
    note: Callable[[str], None],
) -> Namespace:
    """Put groups that were saved in the place of all that there are; the rest as for a move.

    ``source`` names what they come from, and is used once: whoever runs it again completes it.

    Raises:
        ConflictError: there are groups, which would be lost; or it was done; or another run moves
            them.
        UnavailableError: etcd does not answer, and nobody said that it is lost; or a store does
            not answer.
    """
    namespace = _open(stores)
    if namespace.moving is None and namespace.restored == source:
        raise ConflictError(
            f"{source} was restored already, by move {namespace.moves}: nothing is left to do"
        )
    wanted = _wanted(namespace, to or namespace.metadata, shards or SHARDS, source)
    check_fit(groups, wanted)
    if namespace.moving != wanted:
        _see_what_is_lost(stores, namespace, is_lost=is_lost)
    _make_place(stores, namespace, wanted)
    move = _begin(stores, wanted)
    note(f"move {move.number} begins: {len(groups)} groups are restored in {move.metadata}")
    _fence_what_is_left(stores, namespace, move)
    return _complete(stores, namespace, move, groups, note)


def check_fit(groups: Mapping[str, bytes], move: Move) -> None:
    """Do nothing if groups fit where they are moved to.

    Raises:
        InvalidInputError: one is too large for etcd, or a shard for the bucket.
    """
    if move.metadata == ETCD:
        for name, body in groups.items():
            if len(body) > GROUP_BYTES_MAX:
                raise InvalidInputError(
                    f"the group {name!r} has {len(body)} bytes, and etcd takes {GROUP_BYTES_MAX}: "
                    "delete offsets of topics that it does not read any more"
                )
        return
    for number, part in enumerate(divide_groups(groups, move.shards)):
        size = sum(map(len, part.values())) + 2 * len(part) + _CLAIM_BYTES
        if size > SHARD_BYTES_MAX:
            raise InvalidInputError(
                f"shard {number} of {move.shards} would have {size} bytes, and {SHARD_BYTES_MAX} "
                f"are allowed: use more shards, {SHARDS_MAX} at most"
            )


def divide_groups(groups: Mapping[str, bytes], shards: int) -> list[dict[str, bytes]]:
    """Return the groups of each of so many shards."""
    parts: list[dict[str, bytes]] = [{} for _ in range(shards)]
    for name, body in groups.items():
        parts[shard_of(name, shards)][name] = body
    return parts


# ---------------------------------------------------------------------------- steps


def _open(stores: MetadataStores) -> Namespace:
    """Return the namespace, if the etcd that was named is not another storage's."""
    if stores.etcd is not None:
        with suppress(UnavailableError):  # It is lost, or not used yet: nothing can go wrong there.
            stores.etcd(check_storage(stores.url))
    return stores.bucket(open_namespace())


def _count(old: Groups, run: RunFlow) -> int:
    first = run(old.read_moved(0))
    return SHARDS if first is None else first.shards


def _wanted(namespace: Namespace, to: str, shards: int, source: str) -> Move:
    """Return the move, under the number that it has already or would get."""
    if not 1 <= shards <= SHARDS_MAX:
        raise InvalidInputError(f"{shards} shards: use 1 to {SHARDS_MAX}")
    moving = namespace.moving
    if moving is not None and moving[1:] == (to, shards, source):
        return moving
    last = namespace.moves if moving is None else moving.number
    return Move(last + 1, to, shards, source)


def _is_same(namespace: Namespace, wanted: Move, count: int) -> bool:
    is_there = (namespace.metadata, count) == (wanted.metadata, wanted.shards)
    return is_there and namespace.moving is None


def join_groups(shards: Iterable[ClaimedShard]) -> dict[str, bytes]:
    """Return the groups of all shards."""
    return {name: body for one in shards for name, body in one.groups.items()}


def _make_place(stores: MetadataStores, namespace: Namespace, move: Move) -> None:
    if move.metadata == ETCD:
        whose = stores.of(ETCD)(make_place(namespace.id, stores.url, move.number))
        if whose != namespace.id:
            raise InvalidInputError(
                f"this folder of etcd keeps the metadata of namespace {whose.hex()}: choose another"
            )


def _begin(stores: MetadataStores, wanted: Move) -> Move:
    def begun(now: Namespace) -> Namespace:
        last = now.moves if now.moving is None else now.moving.number
        if now.moving == wanted:
            return now
        if wanted.number != last + 1:
            raise ConflictError("groups were moved meanwhile: run it again")
        return replace(now, moving=wanted)

    after = stores.bucket(change_namespace(begun))
    assert after.moving is not None
    return after.moving


def _complete(
    stores: MetadataStores,
    namespace: Namespace,
    move: Move,
    groups: Mapping[str, bytes],
    note: Callable[[str], None],
) -> Namespace:
    new, run = groups_in(move.metadata, MOVER, move.shards, move.number), stores.of(move.metadata)
    for number, part in enumerate(divide_groups(groups, move.shards)):
        run(new.fill(number, move.shards, part))
    note(f"{move.shards} shards are filled")

    def ended(now: Namespace) -> Namespace:
        if now.moves == move.number:
            return now
        if now.moving != move:
            raise ConflictError("another run moves the groups elsewhere: see lakelog meta status")
        return replace(
            now,
            metadata=move.metadata,
            moves=move.number,
            restored=move.source,
            moving=None,
        )

    if move.metadata == ETCD:
        run(set_place(namespace.id, stores.url, move.number))
    after = stores.bucket(change_namespace(ended))
    note(f"move {move.number} has ended: brokers that run start anew within seconds")
    _tidy(stores, after)
    return after


def _tidy(stores: MetadataStores, namespace: Namespace) -> None:
    """Drop the groups that were moved: they are elsewhere, and the shards stay as a fence."""
    stores.bucket(drop_mirrors(namespace.moves))
    stores.bucket(drop_moved(namespace.moves))
    if stores.etcd is not None:
        with suppress(UnavailableError):  # Nothing is there, or nothing answers: it can stay.
            stores.etcd(drop_moved(namespace.moves))


# ---------------------------------------------------------------------------- what is lost


def _see_what_is_lost(stores: MetadataStores, namespace: Namespace, *, is_lost: bool) -> None:
    """Do nothing if no groups would be lost, or if somebody says that they are.

    Raises:
        ConflictError: there are groups.
        UnavailableError: etcd does not answer, which is not to have lost something.
    """
    if is_lost:
        return
    old, run = groups_in(namespace.metadata, MOVER, move=namespace.moves), stores.of
    try:
        first = run(namespace.metadata)(old.read_moved(0))
    except UnavailableError as error:
        raise UnavailableError(
            f"the groups of this namespace cannot be read: {error}. If they are lost for good, say "
            "so with --lost"
        ) from error
    if first is not None and not first.moved:
        raise ConflictError(
            "this namespace has its groups: restoring would take their offsets back. To do that, "
            "use --lost; to bring them elsewhere, use lakelog meta migrate"
        )


def _fence_what_is_left(stores: MetadataStores, namespace: Namespace, move: Move) -> None:
    """Fence the shards that there are; where nothing answers there is nothing to fence."""
    if namespace.metadata == ETCD and stores.etcd is None:
        return
    old, run = groups_in(namespace.metadata, MOVER, move=namespace.moves), stores.of
    try:
        count = _count(old, run(namespace.metadata))
        for number in range(count):
            run(namespace.metadata)(old.fence(number, count, move.number))
    except UnavailableError:
        if namespace.metadata == BUCKET:
            raise
