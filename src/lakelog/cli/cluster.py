"""`lakelog cluster`: the brokers of a namespace, from the object store. None of them is asked.

What is shown is what is stored: a broker that has just died is there until its beats are missed,
and one that was just started may not have taken what it should have.
"""

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

import click

from lakelog.catalog import add_lanes, news_of_topics
from lakelog.cli.arguments import json_option, storage_options
from lakelog.cli.storage import Storage, open_storage
from lakelog.cli.tables import counted, plain, show_rows
from lakelog.coordination import (
    Overview,
    Placed,
    State,
    View,
    read_overview,
)
from lakelog.host import new_id
from lakelog.log import store_now
from lakelog.names import LANES_MAX

__all__ = ["cluster"]

F = TypeVar("F", bound=Callable[..., Any])

SILENT = "silent"
"""The state of a member that does not beat any more, whatever it said of itself."""


@click.group()
def cluster() -> None:
    """Show the brokers of a cluster, and which of them does what.

    These commands use the object store itself: no broker need run, and none is asked. To know how
    old a heartbeat is they make an object in the store, and delete it again.
    """


def _options(command: F) -> F:
    heartbeat = click.option(
        "--heartbeat-ms",
        type=click.IntRange(100, 60_000),
        default=3_000,
        show_default=True,
        help="How often these brokers beat (cluster.heartbeat.ms); one is silent after four times "
        "as long.",
    )
    return storage_options(heartbeat(json_option(command)))


class _Seen(NamedTuple):
    """What one look has shown."""

    overview: Overview
    view: View
    now_ms: int
    lanes: list[Placed]
    shards: list[Placed]

    @property
    def placed(self) -> tuple[tuple[list[Placed], str], ...]:
        return (self.lanes, "lane"), (self.shards, "shard")

    def state(self, node: int) -> str:
        return SILENT if node in self.view.dead else self.overview.members[node].member.state.value


def _look(storage: Storage, heartbeat_ms: int) -> _Seen:
    overview = storage.run(read_overview(storage.groups()))
    now_ms = storage.run(store_now(new_id))
    view = overview.view(now_ms, heartbeat_ms)
    lanes = overview.placed_lanes(view, storage.namespace.rules.lanes)
    return _Seen(overview, view, now_ms, lanes, overview.placed_shards(view))


@cluster.command("brokers")
@_options
def _brokers(url: str, store_options: tuple[str, ...], heartbeat_ms: int, as_json: bool) -> None:
    """List the brokers: their state, where they are, and how much each leads and holds.

    Those that have left are listed until another broker gets their id. The exit code is 1 if one of
    them cannot be read.
    """
    with open_storage(url, store_options) as storage:
        seen = _look(storage, heartbeat_ms)
    led, held = _counts(seen.lanes), _counts(seen.shards)
    rows = [_broker(seen, node, led[node], held[node]) for node in seen.overview.members]
    if as_json:
        _show_json(rows)
    else:
        names = ("NODE", "STATE", "ADDRESSES", "RACK", "VERSION", "LANES", "SHARDS", "BEAT-AGE-S")
        show_rows(names, map(_broker_columns, rows))
    if not rows and not seen.overview.unreadable:
        click.echo(f"No broker was ever started here: {_serve(url)} starts one.", err=True)
    _end_if_unreadable(seen)


def _broker(seen: _Seen, node: int, lanes: int, shards: int) -> dict[str, Any]:
    member, age_ms = seen.overview.members[node].member, seen.overview.age_ms(node, seen.now_ms)
    return {
        "node": node,
        "state": seen.state(node),
        "addresses": dict(member.listeners),
        "rack": member.rack,
        "version": member.version,
        "run": member.run.hex(),
        "lanes": lanes,
        "shards": shards,
        "beat_age_ms": age_ms,
    }


def _broker_columns(row: dict[str, Any]) -> tuple[object, ...]:
    addresses = ",".join(f"{name}://{address}" for name, address in row["addresses"].items())
    age_ms = row["beat_age_ms"]
    return (
        row["node"],
        row["state"],
        addresses,
        row["rack"],
        row["version"],
        row["lanes"],
        row["shards"],
        None if age_ms is None else age_ms // 1000,
    )


@cluster.command("lanes")
@_options
@click.argument("count", type=click.IntRange(1, LANES_MAX), required=False)
def _lanes(
    url: str, store_options: tuple[str, ...], heartbeat_ms: int, as_json: bool, count: int | None
) -> None:
    """List the lanes: who leads each, by which leader epoch, and who should.

    With COUNT, add lanes first, so that there are so many: use four for each broker. Partitions
    stay in their lanes; topics and partitions that are made from now on use all of them. Brokers
    that run take their share within seconds. There are never fewer lanes again, and brokers
    of version 0.1.0 do not know them: upgrade every broker first.

    The exit code is 1 if a broker or a topic cannot be read.
    """
    if count is not None:
        _add_lanes(url, store_options, count)
    with open_storage(url, store_options) as storage:
        seen = _look(storage, heartbeat_ms)
        news = storage.run(news_of_topics({}))
    partitions = Counter(
        lane for topic in news.topics.values() if not topic.deleted for lane in topic.lanes_of_all()
    )
    rows = [
        {
            "lane": one.number,
            "leader": one.node,
            "epoch": None if one.epoch < 0 else one.epoch,
            "should": one.should,
            "partitions": partitions[one.number],
        }
        for one in seen.lanes
    ]
    if as_json:
        _show_json(rows)
    else:
        names = ("LANE", "LEADER", "EPOCH", "SHOULD", "PARTITIONS")
        show_rows(names, (tuple(row.values()) for row in rows))
    for name, error in sorted(news.damaged.items()):
        click.echo(f"Topic {plain(name)} cannot be read: {error}", err=True)
    _end_if_unreadable(seen)
    if news.damaged:
        sys.exit(1)


def _add_lanes(url: str, store_options: tuple[str, ...], count: int) -> None:
    with open_storage(url, store_options) as storage:
        before = storage.namespace.rules.lanes
        after = storage.run(add_lanes(count)).rules.lanes
    click.echo(f"There were {counted(before, 'lane')}, and now there are {after}.", err=True)


@cluster.command("shards")
@_options
def _shards(url: str, store_options: tuple[str, ...], heartbeat_ms: int, as_json: bool) -> None:
    """List the shards of consumer groups: who holds each, and who should.

    The exit code is 1 if a broker cannot be read.
    """
    with open_storage(url, store_options) as storage:
        seen = _look(storage, heartbeat_ms)
    rows = [
        {
            "shard": one.number,
            "holder": one.node,
            "run": one.run.hex() or None,
            "epoch": None if one.epoch < 0 else one.epoch,
            "should": one.should,
            "groups": one.groups,
        }
        for one in seen.shards
    ]
    if as_json:
        _show_json(rows)
    else:
        names = ("SHARD", "HOLDER", "EPOCH", "SHOULD", "GROUPS")
        show_rows(
            names,
            (
                (one.number, _holder(one), row["epoch"], one.should, one.groups)
                for one, row in zip(seen.shards, rows, strict=True)
            ),
        )
    _end_if_unreadable(seen)


@cluster.command("moves")
@_options
@click.option(
    "--brokers",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="How many brokers should serve: the exit code is 1 while there are fewer.",
)
def _moves(
    url: str, store_options: tuple[str, ...], heartbeat_ms: int, as_json: bool, brokers: int
) -> None:
    """List the lanes and shards that are not where they should be, and why.

    The exit code is 1 if there are any, so that a script can wait until there are none: after a
    broker has come or gone that takes some seconds.
    """
    with open_storage(url, store_options) as storage:
        seen = _look(storage, heartbeat_ms)
    rows = [
        {"what": what, "number": one.number, "now": one.node, "should": one.should,
         "why": _why(seen, one)}
        for some, what in seen.placed
        for one in some
        if not one.is_right
    ]  # fmt: skip
    if as_json:
        _show_json(rows)
    else:
        show_rows(("WHAT", "NUMBER", "NOW", "SHOULD", "WHY"), (tuple(row.values()) for row in rows))
    serving = len(seen.view.serving)
    if serving < brokers:
        some = counted(serving, "broker") if serving else "No broker"
        verb = "serve" if serving > 1 else "serves"
        click.echo(f"{some} {verb}: {_serve(url)} starts one.", err=True)
    elif rows:
        lanes, shards = (counted(_wrong(some), what) for some, what in seen.placed)
        click.echo(
            f"Not where they should be: {lanes}, {shards}. lakelog cluster brokers shows who is "
            "there.",
            err=True,
        )
    else:
        click.echo("Everything is where it should be.", err=True)
    _end_if_unreadable(seen)
    if rows or serving < brokers:
        sys.exit(1)


def _why(seen: _Seen, one: Placed) -> str:
    """Say what keeps a lane or a shard from being where it should be."""
    if one.node is None:
        return "a run that is no member holds it" if one.run else "nobody has it"
    if seen.state(one.node) != State.SERVING:
        return f"broker {one.node} is {seen.state(one.node)}"
    return f"broker {one.node} has not given it up yet"


def _wrong(placed: Iterable[Placed]) -> int:
    return sum(not one.is_right for one in placed)


def _holder(one: Placed) -> object:
    return "no member" if one.run and one.node is None else one.node


def _counts(placed: Iterable[Placed]) -> Counter[int]:
    return Counter(one.node for one in placed if one.node is not None)


def _show_json(rows: Iterable[dict[str, Any]]) -> None:
    for row in rows:
        click.echo(json.dumps(row))


def _serve(url: str) -> str:
    return f"lakelog serve --storage {plain(url)}"


def _end_if_unreadable(seen: _Seen) -> None:
    for node, error in sorted(seen.overview.unreadable.items()):
        click.echo(
            f"Broker {node} cannot be read: {error}. If a later version of lakelog wrote it, use "
            "that one: lakelog --version shows yours.",
            err=True,
        )
    if seen.overview.unreadable:
        sys.exit(1)
