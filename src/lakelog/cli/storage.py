"""What commands about topics and groups have in common: the storage itself, without a broker.

The bucket is the truth, so these commands ask it and nobody else: they work while no broker runs,
and see what any broker has stored. What a broker keeps back for a moment, commits for a second,
they see then.
"""

import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import click

from lakelog.catalog import Namespace, Topic, open_namespace
from lakelog.cli.arguments import named_values, store_option
from lakelog.errors import InvalidInputError, LakelogError
from lakelog.host import SystemClock, new_id
from lakelog.journal import Lane, StoreTime
from lakelog.log import Driver, refresh
from lakelog.manifests import Manifest
from lakelog.names import manifest_key
from lakelog.store import (
    CELL_BYTES_MAX,
    Get,
    Store,
    StoreSpec,
    Work,
    fetch_many,
    retrying,
)

__all__ = ["PartitionRow", "Storage", "open_storage", "spec_of", "storage_options"]

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
WINDOW = 64


def storage_options(command: F) -> F:
    """Add what says where the log is."""
    where = click.option(
        "--storage",
        "url",
        required=True,
        envvar="LAKELOG_STORAGE",
        show_envvar=True,
        metavar="URL",
        help="Where the log is: s3://bucket/folder, file:///path, ...",
    )
    return where(store_option()(command))


class PartitionRow(NamedTuple):
    """A partition, as it is in storage now."""

    partition: int
    lane: int
    log_start: int
    log_end: int
    sealed_end: int
    """Below it offsets are in segments, from it on in the journal."""
    sealed_bytes: int


class Storage:
    """A namespace, asked by one command."""

    def __init__(self, store: Store) -> None:
        self._driver = Driver(retrying(store.perform))
        self._lanes: dict[int, Lane] = {}
        self._time = StoreTime()
        self.namespace: Namespace = self.run(open_namespace())

    def run(self, flow: Work[T]) -> T:
        """Do what a flow asks for, many operations at once where it says so."""
        return self._driver.run(flow)

    def lane(self, number: int) -> Lane:
        """Return a lane, of which nothing need be known yet."""
        if number not in self._lanes:
            self._lanes[number] = Lane(
                number=number,
                rules=self.namespace.rules,
                clock=SystemClock(),
                ids=new_id,
                writer=new_id(),
                time=self._time,
            )
        return self._lanes[number]

    def partitions(self, topic: Topic, numbers: Collection[int]) -> Work[list[PartitionRow]]:
        """Return where partitions begin and end: the journal first, then their manifests."""
        lanes: Mapping[int, Lane] = {
            number: self.lane(number) for number in sorted({topic.lane(one) for one in numbers})
        }
        for lane in lanes.values():
            yield from refresh(lane)
        rows: list[PartitionRow] = []
        wanted = sorted(numbers)
        for at in range(0, len(wanted), WINDOW):
            some = wanted[at : at + WINDOW]
            keys = [manifest_key(topic.path, one) for one in some]
            cells = yield from fetch_many([Get(key, CELL_BYTES_MAX) for key in keys])
            for one, cell in zip(some, cells, strict=True):
                manifest = topic.where(one).decoded(None if cell is None else cell.body)
                rows.append(_row(topic, one, lanes[topic.lane(one)], manifest))
        return rows


def _row(topic: Topic, partition: int, lane: Lane, manifest: Manifest) -> PartitionRow:
    end = max(lane.known.fold.end((topic.id, partition)), manifest.sealed_end)
    return PartitionRow(
        partition,
        lane.number,
        min(manifest.log_start, end),
        end,
        manifest.sealed_end,
        sum(page.length for page in manifest.pages) + sum(row.length for row in manifest.segments),
    )


def spec_of(url: str, store_options: tuple[str, ...]) -> StoreSpec:
    """Return the storage that the options name."""
    return StoreSpec(url, named_values(store_options))


@contextmanager
def open_storage(url: str, store_options: tuple[str, ...]) -> Iterator[Storage]:
    """Open a namespace; turn errors into a line and an exit code."""
    try:
        yield Storage(spec_of(url, store_options).open())
    except InvalidInputError as error:
        raise click.UsageError(str(error)) from error
    except LakelogError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(1)
