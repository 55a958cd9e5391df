"""`lakelog group`: consumer groups, from the object store. No broker is needed or asked.

What is shown is what is stored: a commit of the last second may be missing, and a member that has
just died is there until its broker notices.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import click

from lakelog.catalog import Topic, news_of_topics
from lakelog.cli.arguments import json_option, storage_options
from lakelog.cli.storage import Storage, open_storage
from lakelog.cli.tables import plain, show_rows
from lakelog.coordination import decode_group, stored_shards
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
from lakelog_kafka_tools.group_admin import TopicPartition, decode_assignment

__all__ = ["group"]


@click.group()
def group() -> None:
    """List and describe consumer groups.

    These commands use the object store itself: no broker need run.
    """


@group.command("list")
@storage_options
@json_option
def _list(url: str, store_options: tuple[str, ...], as_json: bool) -> None:
    """List groups."""
    with open_storage(url, store_options) as storage:
        groups = _read_groups(storage)
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
    """Show the offsets of groups, how far they are behind, and who reads what."""
    with open_storage(url, store_options) as storage:
        groups = {one.id: one for one in _read_groups(storage)}
        news = storage.run(news_of_topics({}))
        topics = [one for one in news.topics.values() if one.is_open]
        for name in names:
            if name not in groups:
                raise NotFoundError(
                    f"there is no group {plain(name)!r}: lakelog group list shows those that exist"
                )
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


def _read_groups(storage: Storage) -> list[AnyDurable]:
    """Return every group that is stored, by name."""
    shards = storage.run(stored_shards(storage.groups()))
    found = [
        decode_group(body)
        for shard in shards.values()
        if shard is not None
        for body in shard.groups.values()
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
    names = {one.id: one.name for one in topics}

    def named(one: TopicIdPartition) -> TopicPartition:
        return names.get(one.topic_id, one.topic_id.hex()), one.partition

    readers: dict[TopicPartition, _Reader] = {}
    idle: list[_Reader] = []
    for reader, assigned in _members(found, named):
        readers.update(dict.fromkeys(assigned, reader))
        if not assigned:
            idle.append(reader)
    offsets = {named(one): row.offset for one, row in found.offsets.rows.items()}
    partitions = sorted({*readers, *offsets})
    ends = _ends(partitions, {one.name: one for one in topics}, storage)
    rows: list[_Row] = []
    for at in partitions:
        offset, end = offsets.get(at), ends.get(at)
        lag = None if offset is None or end is None else max(end - offset, 0)
        rows.append(_Row(*at, offset, end, lag, *(readers.get(at) or (None, None, None))))
    rows += [_Row(None, None, None, None, None, *reader) for reader in idle]
    return rows


def _members(
    found: AnyDurable, named: Callable[[TopicIdPartition], TopicPartition]
) -> Iterator[tuple[_Reader, list[TopicPartition]]]:
    """Yield the members of a group, with what they read: also what they are to give up."""
    if isinstance(found, Durable):
        for old in found.roster.members:
            reader = _Reader(old.id, old.client_host, old.client_id)
            yield reader, decode_assignment(old.assignment)
        return
    for one in found.roster.members.values():
        reader = _Reader(one.id, one.client_host, one.client_id)
        yield reader, [named(part) for part in sorted(one.assigned | one.revoking)]


def _ends(
    partitions: list[TopicPartition], topics: Mapping[str, Topic], storage: Storage
) -> dict[TopicPartition, int]:
    wanted: dict[str, set[int]] = {}
    for name, partition in partitions:
        topic = topics.get(name)
        if topic is not None and partition < topic.partitions:
            wanted.setdefault(name, set()).add(partition)
    return {
        (name, row.partition): row.log_end
        for name, numbers in wanted.items()
        for row in storage.run(storage.partitions(topics[name], numbers))
    }


# ---------------------------------------------------------------------------- showing


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
