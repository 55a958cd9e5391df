"""What commands about topics and groups have in common: the storage itself, without a broker.

These commands read and write the object store and ask no broker: they work while none runs, and see
what any broker has stored. What a broker holds back for a moment (commits, for a second) they see
once it is stored.
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import click

from lakelog.catalog import Namespace, Topic, open_namespace, place_store
from lakelog.cli.arguments import exit_on_error, named_values
from lakelog.coordination import RELEASED, Groups, groups_in
from lakelog.host import SystemClock, new_id
from lakelog.journal import Lane, StoreTime, new_lane
from lakelog.log import Driver, refresh
from lakelog.manifests import Manifest, read_manifests
from lakelog.store import (
    PROBE_AT_START,
    Finding,
    ProbeSize,
    Store,
    StoreSpec,
    Work,
    admit,
    expiry_finding,
    file_system_of,
    find_expiry,
    machine_finding,
    probe_store,
    retrying,
)

__all__ = [
    "PartitionRow",
    "Storage",
    "admit_store",
    "open_storage",
    "spec_of",
    "try_store",
]

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


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
    """A namespace, as one command uses it."""

    def __init__(self, store: Store) -> None:
        self._driver = Driver(retrying(store.perform))
        """Of the bucket; once the namespace is known, also of where its members and groups are."""
        self._lanes: dict[int, Lane] = {}
        self._time = StoreTime()
        self.namespace: Namespace = self.run(open_namespace())
        self._driver = Driver(retrying(place_store(store, self.namespace).perform))

    def run(self, flow: Work[T]) -> T:
        """Run a flow, many operations at once where it says so."""
        return self._driver.run(flow)

    def groups(self) -> Groups:
        """Return where the namespace keeps its groups, for somebody who only reads them."""
        return groups_in(self.namespace.metadata, RELEASED, move=self.namespace.moves)

    def lane(self, number: int) -> Lane:
        """Return a lane, of which nothing need be known yet."""
        if number not in self._lanes:
            rules = self.namespace.rules
            lane = new_lane(number, rules, SystemClock(), new_id, time=self._time)
            self._lanes[number] = lane
        return self._lanes[number]

    def partitions(self, topic: Topic, numbers: Collection[int]) -> Work[list[PartitionRow]]:
        """Return where partitions begin and end: the journal first, then their manifests."""
        lanes: Mapping[int, Lane] = {
            number: self.lane(number) for number in sorted({topic.lane(one) for one in numbers})
        }
        for lane in lanes.values():
            yield from refresh(lane)
        wanted = sorted(numbers)
        manifests = yield from read_manifests([topic.path_of(one) for one in wanted])
        return [
            _row(topic, one, lanes[topic.lane(one)], manifest)
            for one, manifest in zip(wanted, manifests, strict=True)
        ]


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
    with exit_on_error():
        yield Storage(spec_of(url, store_options).open())


def try_store(spec: StoreSpec, store: Store, size: ProbeSize = PROBE_AT_START) -> list[Finding]:
    """Return what was found out about a store: by trying it, by its rules, by where it is."""
    tried = probe_store(store, "", size)
    begun_s = time.monotonic()
    expiry = expiry_finding(find_expiry(spec, ""), time.monotonic() - begun_s)
    return [*tried, expiry, machine_finding(spec, file_system_of(spec))]


def admit_store(spec: StoreSpec, store: Store) -> None:
    """Try a store, and print warnings about it.

    Raises:
        InvalidInputError: the store cannot carry a log.
        UnavailableError: it does not answer.
    """
    for warning in admit(spec.url, try_store(spec, store)):
        click.echo(f"Warning: {warning}", err=True)
