"""`lakelog group`: consumer groups, from storage. No broker is needed, and none is asked.

What is shown is what is stored: a commit of the last second may be missing, and a member that has
just died is there until its broker notices.
"""

import json
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import click

from lakelog.catalog import Topic, news_of_topics
from lakelog.cli.arguments import json_option
from lakelog.cli.storage import Storage, open_storage, storage_options
from lakelog.cli.tables import plain, show_rows
from lakelog.coordination import decode_group, decode_shard
from lakelog.errors import NotFoundError
from lakelog.groups import (
    AnyDurable,
    ConsumerDurable,
    ConsumerGroup,
    Durable,
    Kind,
    State,
    TopicIdPartition,
    preferred_assignor,
)
from lakelog.names import group_shard_key
from lakelog.store import CELL_BYTES_MAX, Get, Work, fetch_many, read_cell

__all__ = ["decode_assignment", "group"]

PARTITIONS_MAX = 1_000_000
"""Of one member: what is read of an assignment."""


@click.group()
def group() -> None:
    """List and describe consumer groups.

    They are asked of the storage itself: no broker need run.
    """


@group.command("list")
@storage_options
@json_option
def _list(url: str, store_options: tuple[str, ...], as_json: bool) -> None:
    """List groups."""
    with open_storage(url, store_options) as storage:
        groups = storage.run(_read_groups())
    if as_json:
        for one in groups:
            click.echo(json.dumps(_fields(one)))
        return
    names = ("GROUP", "STATE", "PROTOCOL", "#MEMBERS", "#OFFSETS")
    show_rows(
        names,
        (
            (
                one.id,
                _state(one).value,
                _protocol(one),
                len(one.roster.members),
                len(one.offsets.rows),
            )
            for one in groups
        ),
    )


@group.command("describe")
@click.argument("names", nargs=-1, required=True, metavar="GROUP...")
@storage_options
@json_option
def _describe(
    names: tuple[str, ...], url: str, store_options: tuple[str, ...], as_json: bool
) -> None:
    """Show how far groups have come, and who reads what."""
    with open_storage(url, store_options) as storage:
        groups = {one.id: one for one in storage.run(_read_groups())}
        news = storage.run(news_of_topics({}))
        topics = [one for one in news.topics.values() if one.is_open]
        for name in names:
            if name not in groups:
                what = f"there is no group {plain(name)!r}"
                raise NotFoundError(f"{what}: lakelog group list shows those that are there")
            found = groups[name]
            rows = _rows(found, topics, storage)
            if as_json:
                lines = [row._asdict() for row in rows]
                click.echo(json.dumps({**_fields(found), "partitions": lines}))
                continue
            if not found.roster.members:
                click.echo(f"Consumer group '{plain(name)}' has no active members.", err=True)
            columns = (
                "GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG",
                "CONSUMER-ID", "HOST", "CLIENT-ID",
            )  # fmt: skip
            show_rows(columns, ((name, *row) for row in rows))


# ---------------------------------------------------------------------------- reading


def _read_groups() -> Work[list[AnyDurable]]:
    """Return every group that is stored, by name."""
    first = yield from read_cell(group_shard_key(0))
    if first is None:
        return []
    shards = decode_shard(first.body, 0).shards
    keys = [group_shard_key(number) for number in range(shards)]
    cells = yield from fetch_many([Get(key, CELL_BYTES_MAX) for key in keys])
    found = [
        decode_group(body, keys[number])
        for number, cell in enumerate(cells)
        if cell is not None
        for body in decode_shard(cell.body, number).groups.values()
    ]
    return sorted(found, key=lambda one: one.id)


class _Row(NamedTuple):
    topic: str | None
    partition: int | None
    current_offset: int | None
    log_end_offset: int | None
    lag: int | None
    consumer_id: str | None
    host: str | None
    client_id: str | None


class _Reader(NamedTuple):
    id: str
    host: str
    client_id: str


def _rows(found: AnyDurable, topics: list[Topic], storage: Storage) -> list[_Row]:
    """Return a row for each partition with an offset or a reader, and for each idle member."""
    named = {one.name: one for one in topics}
    ids = {one.id: one for one in topics}

    def place_of(place: TopicIdPartition) -> tuple[str, int]:
        topic = ids.get(place.topic_id)
        return topic.name if topic else place.topic_id.hex(), place.partition

    readers: dict[tuple[str, int], _Reader] = {}
    idle: list[_Reader] = []
    for reader, assigned in _members(found, place_of):
        readers.update(dict.fromkeys(assigned, reader))
        if not assigned:
            idle.append(reader)
    offsets = {place_of(place): row.offset for place, row in found.offsets.rows.items()}
    places = sorted({*readers, *offsets})
    ends = _ends(places, named, storage)
    rows: list[_Row] = []
    for at in places:
        offset, end = offsets.get(at), ends.get(at)
        lag = None if offset is None or end is None else max(end - offset, 0)
        rows.append(_Row(*at, offset, end, lag, *(readers.get(at) or (None, None, None))))
    rows += [_Row(None, None, None, None, None, *reader) for reader in idle]
    return rows


def _members(
    found: AnyDurable, place_of: Callable[[TopicIdPartition], tuple[str, int]]
) -> Iterator[tuple[_Reader, list[tuple[str, int]]]]:
    """Yield the members of a group, with what they read. One that is to let go still reads."""
    if isinstance(found, Durable):
        for old in found.roster.members:
            reader = _Reader(old.id, old.client_host, old.client_id)
            yield reader, decode_assignment(old.assignment)
        return
    for one in found.roster.members.values():
        reader = _Reader(one.id, one.client_host, one.client_id)
        yield reader, [place_of(place) for place in sorted(one.assigned | one.revoking)]


def _ends(
    places: list[tuple[str, int]], named: Mapping[str, Topic], storage: Storage
) -> dict[tuple[str, int], int]:
    wanted: dict[str, set[int]] = {}
    for name, partition in places:
        topic = named.get(name)
        if topic is not None and partition < topic.partitions:
            wanted.setdefault(name, set()).add(partition)
    return {
        (name, row.partition): row.log_end
        for name, numbers in wanted.items()
        for row in storage.run(storage.partitions(named[name], numbers))
    }


def decode_assignment(data: bytes) -> list[tuple[str, int]]:
    """Return the partitions in an assignment of Kafka's consumers; none if it is another's.

    int16 version, then an array of topics: a name and an array of partitions. What follows is the
    assignor's own.
    """
    try:
        return list(_assigned(data))
    except (struct.error, UnicodeDecodeError, ValueError):
        return []


def _assigned(data: bytes) -> Iterator[tuple[str, int]]:
    _, topics = struct.unpack_from(">hi", data)
    at, left = 6, PARTITIONS_MAX
    for _ in range(topics):
        (length,) = struct.unpack_from(">h", data, at)
        at += 2 + length
        if length < 0 or at > len(data):
            raise ValueError("a name that ends behind the end")
        name = data[at - length : at].decode()
        (count,) = struct.unpack_from(">i", data, at)
        left -= count
        if count < 0 or left < 0:
            raise ValueError(f"{count} partitions")
        for number in struct.unpack_from(f">{count}i", data, at + 4):
            if number < 0:
                raise ValueError(f"partition {number}")
            yield name, number
        at += 4 + 4 * count


# ---------------------------------------------------------------------------- telling


def _state(found: AnyDurable) -> State:
    if isinstance(found, ConsumerDurable):
        return ConsumerGroup(id=found.id, roster=found.roster).state
    if not found.roster.members:
        return State.EMPTY
    return State.STABLE if found.roster.is_decided else State.COMPLETING


def _protocol(found: AnyDurable) -> str | None:
    if isinstance(found, Durable):
        return found.roster.protocol
    return preferred_assignor(found.roster) if found.roster.members else None


def _fields(found: AnyDurable) -> dict[str, Any]:
    roster = found.roster
    if isinstance(found, Durable):
        about: dict[str, Any] = {
            "type": Kind.CLASSIC.value,
            "generation": found.roster.generation,
            "protocol_type": found.roster.protocol_type,
        }
    else:
        about = {
            "type": Kind.CONSUMER.value,
            "epoch": found.roster.epoch,
            "assignment_epoch": found.roster.target_epoch,
        }
    return {
        "group": found.id,
        "state": _state(found).value,
        **about,
        "protocol": _protocol(found),
        "members": len(roster.members),
        "offsets": len(found.offsets.rows),
    }
