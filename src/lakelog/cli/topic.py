"""`lakelog topic`: topics, from the object store. No broker is needed, and none is asked."""

import json
import sys
from typing import Any

import click

from lakelog.catalog import (
    Topic,
    check_configs,
    create_topic,
    delete_topic,
    news_of_topics,
    read_topic,
)
from lakelog.cli.arguments import json_option, named_values, storage_options
from lakelog.cli.copies import copy, restore
from lakelog.cli.storage import Storage, open_storage
from lakelog.cli.tables import plain, show_rows
from lakelog.errors import ConflictError, LakelogError, NotFoundError
from lakelog.host import new_id
from lakelog.journal import DeleteTopic, append
from lakelog.log import store_now
from lakelog_kafka_tools.java import id_text

__all__ = ["topic"]


@click.group()
def topic() -> None:
    """Create, list, describe, delete, copy and restore topics.

    These commands use the object store itself: no broker need run.
    """


topic.add_command(copy)
topic.add_command(restore)


@topic.command("create")
@click.argument("name")
@storage_options
@click.option(
    "--partitions",
    default=1,
    show_default=True,
    help="How many partitions it has; they can become more, and never fewer.",
)
@click.option(
    "--config",
    "configs",
    multiple=True,
    metavar="NAME=VALUE",
    help="A topic config, by Kafka's name; may be repeated.",
)
@click.option("--if-not-exists", is_flag=True, help="Succeed if the topic exists already.")
def _create(
    name: str,
    url: str,
    store_options: tuple[str, ...],
    partitions: int,
    configs: tuple[str, ...],
    if_not_exists: bool,
) -> None:
    """Create a topic."""
    with open_storage(url, store_options) as storage:
        flow = create_topic(
            name,
            topic_id=new_id(),
            partitions=partitions,
            lanes=storage.namespace.rules.lanes,
            now_ms=storage.run(store_now(new_id)),
            configs=check_configs(named_values(configs)),
        )
        try:
            storage.run(flow)
        except ConflictError:
            if not if_not_exists:
                raise
            click.echo(f"Topic {name} exists already.")
            return
    click.echo(f"Created topic {name}.")


@topic.command("list")
@storage_options
@json_option
def _list(url: str, store_options: tuple[str, ...], as_json: bool) -> None:
    """List topics. The exit code is 1 if one of them cannot be read."""
    with open_storage(url, store_options) as storage:
        news = storage.run(news_of_topics({}))
    topics = [one for _, one in sorted(news.topics.items()) if not one.deleted]
    if as_json:
        for one in topics:
            click.echo(json.dumps(_fields(one)))
    else:
        names = ("TOPIC", "PARTITIONS", "CONFIGS")
        show_rows(names, ((one.name, one.partitions, _configs(one)) for one in topics))
    for name, error in sorted(news.damaged.items()):
        click.echo(f"Topic {plain(name)} cannot be read: {error}", err=True)
    if news.damaged:
        sys.exit(1)


@topic.command("describe")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@storage_options
@json_option
def _describe(
    names: tuple[str, ...], url: str, store_options: tuple[str, ...], as_json: bool
) -> None:
    """Show the partitions of topics: where they begin and end, and what of them is sealed."""
    with open_storage(url, store_options) as storage:
        for name in names:
            found = _existing(storage, name)
            rows = storage.run(storage.partitions(found, range(found.partitions)))
            if as_json:
                parts = [row._asdict() for row in rows]
                click.echo(json.dumps({**_fields(found), "partitions": parts}))
                continue
            click.echo(
                f"Topic: {found.name}\tTopicId: {id_text(found.id)}\t"
                f"PartitionCount: {found.partitions}\tReplicationFactor: 1\t"
                f"Configs: {_configs(found)}"
            )
            columns = (
                "TOPIC", "PARTITION", "LANE", "LOG-START", "LOG-END", "SEALED-END", "SEALED-BYTES",
            )  # fmt: skip
            show_rows(columns, ((found.name, *row) for row in rows))


@topic.command("delete")
@click.argument("name")
@storage_options
@click.option("--yes", is_flag=True, help="Delete it without asking.")
def _delete(name: str, url: str, store_options: tuple[str, ...], yes: bool) -> None:
    """Delete a topic, with all of its records.

    Its objects are removed by maintenance (lakelog keep), when the grace period is over.
    """
    with open_storage(url, store_options) as storage:
        found = _existing(storage, name)
        if not yes:
            _ask(found)
        now_ms = storage.run(store_now(new_id))
        storage.run(delete_topic(name, found.id, new_id(), now_ms=now_ms))
        for number in found.lanes_used():
            try:
                storage.run(append(storage.lane(number), [DeleteTopic(topic=found.id)]))
            except LakelogError as error:
                # The topic's cell says that it is deleted. Maintenance repeats it to the lane.
                click.echo(
                    f"Lane {number} could not be told of the deletion: {error}. The next pass of "
                    "lakelog keep does it.",
                    err=True,
                )
    click.echo(f"Deleted topic {name}.")


def _ask(found: Topic) -> None:
    if not sys.stdin.isatty():
        raise click.UsageError("there is no terminal to ask on: use --yes to delete the topic")
    click.confirm(
        f"Delete topic {found.name}, {found.partitions} partitions, with all records?", abort=True
    )


def _existing(storage: Storage, name: str) -> Topic:
    found = storage.run(read_topic(name))
    if found.deleted:
        raise NotFoundError(
            f"there is no topic {name!r}: it was deleted; lakelog topic list shows those that exist"
        )
    return found


def _configs(found: Topic) -> str:
    shown = plain(",".join(f"{name}={value}" for name, value in sorted(found.configs.items())))
    return f"(closed: its import has not ended) {shown}" if found.closed else shown


def _fields(found: Topic) -> dict[str, Any]:
    return {
        "topic": found.name,
        "id": id_text(found.id),
        "partition_count": found.partitions,
        "lanes": found.lanes,
        "configs": dict(found.configs),
        "closed": found.closed,
        "created_ms": found.created_ms,
    }
