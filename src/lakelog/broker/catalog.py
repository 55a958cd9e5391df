"""The topics that a broker knows.

known    what is in memory: for the hot path, and for everything that is there
topic    the same, but asks the store before it says that there is none (``lookups``)
watch    looks for topics that others made or deleted, now and then: one listing
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from kio.schema.errors import ErrorCode

from lakelog.broker.all_lanes import AllLanes
from lakelog.broker.cache import ColdCache
from lakelog.broker.cluster import Cluster
from lakelog.broker.lookups import Lookups
from lakelog.broker.metrics.counters import Metrics
from lakelog.broker.partitions import Partition
from lakelog.broker.recent_batches import RecentBatches
from lakelog.broker.supervision import Supervisor
from lakelog.broker.topic_entry import Entry
from lakelog.catalog import (
    Marks,
    Topic,
    configure_topic,
    create_topic,
    delete_topic,
    grow_topic,
    news_of_topics,
    open_namespace,
    read_topic,
)
from lakelog.errors import (
    ConflictError,
    CorruptError,
    LakelogError,
    NotFoundError,
    UnavailableError,
)
from lakelog.journal import DeleteTopic
from lakelog.names import is_topic_name, topic_key
from lakelog.ports import Clock, Ids
from lakelog.store import PerformAsync, Work, run_async, working_async

__all__ = ["Catalog"]

T = TypeVar("T")

UNREFRESHED_MS_MAX = 30_000
"""Clients should go elsewhere when topics could not be refreshed for this long after it was due."""


class Catalog:
    """Topics by name and by id."""

    def __init__(
        self,
        *,
        perform: PerformAsync,
        lanes: AllLanes,
        cluster: Cluster,
        recent: RecentBatches,
        cold: ColdCache,
        clock: Clock,
        ids: Ids,
        metrics: Metrics,
        tasks: Supervisor,
        refresh_ms: int,
        on_error: Callable[[LakelogError], None] = lambda _: None,
    ) -> None:
        self._perform = working_async(perform)
        self._lanes = lanes
        self.cluster, self._recent, self._cold = cluster, recent, working_async(cold.perform)
        self._clock, self._ids, self._on_error = clock, ids, on_error
        self._metrics, self._tasks = metrics, tasks
        self._names: dict[str, Entry] = {}
        self._ids_known: dict[bytes, Entry] = {}
        self._sorted: tuple[str, ...] | None = None
        self._marks: Marks = {}
        self._refreshed_ms = clock.boot_ms()
        self._refresh_ms = refresh_ms
        self._virtual: dict[str, Entry] = {}
        self._lookups = Lookups(clock, self._ask, self._list)
        self.damaged: dict[str, LakelogError] = {}
        """Topics whose cells cannot be read, and why, as far as is known."""

    def offer(self, entry: Entry) -> None:
        """Add a topic that is found by its name and is in no store."""
        self._virtual[entry.topic.name] = entry

    # ------------------------------------------------------------------------ asking

    def known(self, name: str) -> Entry | None:
        """Return a topic that is in memory."""
        return self._names.get(name) or self._virtual.get(name)

    def known_id(self, topic_id: bytes) -> Entry | None:
        """Return a topic that is in memory, by its id."""
        found = self._ids_known.get(topic_id)
        if found is None and self._virtual:
            found = next((one for one in self._virtual.values() if one.topic.id == topic_id), None)
        return found

    def entry(self, name: str, topic_id: bytes) -> Entry | None:
        """Return a topic that is in memory, by its id if it has one here, else by its name."""
        return self.known_id(topic_id) if topic_id else self.known(name)

    async def find_entry(self, name: str, topic_id: bytes = b"") -> Entry | None:
        """The same. That there is none is said after asking the store.

        Raises:
            LakelogError: there was no answer, or it may be a topic that cannot be read.
        """
        entry = self.entry(name, topic_id)
        if entry is not None or not (topic_id or is_topic_name(name)):
            return entry
        await (self._lookups.all() if topic_id else self._lookups.name(name))
        entry = self.entry(name, topic_id)
        if entry is None:
            for damaged, error in self.damaged.items():
                if damaged == name or (topic_id and damaged not in self._names):
                    raise _unreadable(damaged, error) from error
        return entry

    async def read_again(self, entry: Entry) -> Entry | None:
        """Ask the store what a topic is now, and return it; None: it is not there any more.

        Raises:
            LakelogError: there was no answer, or it cannot be read.
        """
        name, topic_id = entry.topic.name, entry.topic.id
        await self._lookups.name(name)
        return self._ids_known.get(topic_id)

    def gone(self, topic: Topic) -> ErrorCode:
        """Return what is told of a topic that was here, and whose lane or manifest says that it was
        deleted: it may have been made anew. So clients ask again, and then the store has been asked
        if nothing is known of it.
        """
        if topic.id in self._ids_known:
            self._tasks.once("topic read again", self._read_gone(topic.name))
        return ErrorCode.not_leader_or_follower

    async def _read_gone(self, name: str) -> None:
        try:
            await self._lookups.name(name)
        except LakelogError as error:
            self._on_error(error)

    async def topic(self, name: str) -> Topic | None:
        """Return a topic. That there is none is said after asking the store.

        Raises:
            LakelogError: there was no answer, or it cannot be read.
        """
        entry = await self.find_entry(name)
        return None if entry is None else entry.topic

    async def _ask(self, name: str) -> None:
        """Know what the cell of a topic says."""
        try:
            topic = await self._run(read_topic(name))
        except NotFoundError:
            self.damaged.pop(name, None)
        except UnavailableError:
            raise
        except LakelogError as error:
            self._note_damage(name, error)
            raise _unreadable(name, error) from error
        else:
            await self._take_with_lanes(topic)

    def by_id(self, topic_id: bytes) -> Topic | None:
        """Return a topic that is known, by its id."""
        entry = self._ids_known.get(topic_id)
        return None if entry is None else entry.topic

    def names(self) -> tuple[str, ...]:
        """Return the names of every topic that is known; the same tuple, until they are others."""
        if self._sorted is None:
            self._sorted = tuple(sorted(self._names))
        return self._sorted

    def count(self) -> tuple[int, int]:
        """Return how many topics are known, and how many partitions they have."""
        return len(self._names), sum(one.topic.partitions for one in self._names.values())

    def count_on(self, lanes: Collection[int]) -> int:
        """Return how many partitions are on some lanes."""
        return sum(one.count_on(lanes) for one in self._names.values())

    def entries(self) -> list[Entry]:
        """Return every topic that is known, by name."""
        return [entry for _, entry in sorted(self._names.items())]

    def _open_partition(self, topic: Topic, index: int) -> Partition:
        """Return what reads a partition."""
        return Partition(topic, index, self._lanes[topic.lane(index)], self._recent, self._cold)

    # ------------------------------------------------------------------------ changing

    async def create(self, name: str, partitions: int, configs: Mapping[str, str]) -> Topic:
        """Make a topic.

        Raises:
            ConflictError: there is one of this name.
            InvalidInputError: the name or the number is wrong.
        """
        if name in self._virtual:
            raise ConflictError(f"topic {name} exists, and can only be read: choose another name")
        flow = create_topic(
            name,
            topic_id=self._ids(),
            partitions=partitions,
            lanes=len(self._lanes),
            now_ms=self._clock.now_ms(),
            configs=configs,
        )
        return await self._change(flow)

    async def delete(self, topic: Topic) -> None:
        """Delete a topic: the cell first, then a row in each of its lanes.

        Raises:
            NotFoundError: another client or broker has deleted it.
        """
        write = self._ids()
        flow = delete_topic(topic.name, topic.id, write, now_ms=self._clock.now_ms())
        if write.hex() not in (await self._change(flow)).writers:
            raise NotFoundError(f"{topic.name!r} was deleted at another broker")
        rows = [
            self._lanes[number].append(DeleteTopic(topic=topic.id)) for number in topic.lanes_used()
        ]
        # The cell has said it. A lane that does not answer gets its row from maintenance.
        for error in await asyncio.gather(*rows, return_exceptions=True):
            if isinstance(error, LakelogError):
                self._on_error(error)

    async def grow(self, topic: Topic, partitions: int) -> Topic:
        """Let a topic have more partitions.

        Raises:
            ConflictError: it has as many already, or more.
            NotFoundError: it was deleted.
            InvalidInputError: these are too many.
        """
        flow = grow_topic(topic.name, topic.id, self._ids(), partitions, len(self._lanes))
        return await self._change(flow)

    async def configure(
        self, topic: Topic, alter: Callable[[Mapping[str, str]], dict[str, str]]
    ) -> Topic:
        """Give a topic the configs that ``alter`` makes of those it has in the store.

        Raises:
            InvalidInputError: ``alter`` refuses.
            NotFoundError: it was deleted.
        """
        return await self._change(configure_topic(topic.name, topic.id, self._ids(), alter))

    async def _change(self, flow: Work[Topic]) -> Topic:
        """Run a flow that makes or changes a topic, and know what it became."""
        topic = await self._run(flow)
        await self._take_with_lanes(topic)
        self.cluster.hint()
        return topic

    async def refresh(self) -> None:
        """Take in what others have made and deleted. A topic that cannot be read stops no other.

        Raises:
            LakelogError: there was no answer, at least for some.
        """
        await self._lookups.all()

    async def _list(self) -> None:
        news = await self._run(news_of_topics(self._marks))
        for topic in news.topics.values():
            await self._take_with_lanes(topic)
        self.damaged = {name: self.damaged[name] for name in self.damaged if name in news.damaged}
        unanswered: UnavailableError | None = None
        for name, error in news.damaged.items():
            if isinstance(error, UnavailableError):
                unanswered = error
            else:
                self._note_damage(name, error)
        if unanswered is not None:
            raise unanswered
        self._refreshed_ms = self._clock.boot_ms()

    def _note_damage(self, name: str, error: LakelogError) -> None:
        if name not in self.damaged:
            self._on_error(_unreadable(name, error))
        self.damaged[name] = error

    def trouble(self) -> str:
        """Say for how long topics could not be refreshed; nothing if all is well."""
        waited_ms = self._clock.boot_ms() - self._refreshed_ms
        if waited_ms <= self._refresh_ms + UNREFRESHED_MS_MAX:
            return ""
        return (
            f"the list of topics could not be read for {waited_ms // 1000} s: check the store "
            "and the network"
        )

    async def watch(self) -> None:
        """Refresh. Called every ``refresh_ms``."""
        try:
            await self.refresh()
        except LakelogError as error:
            self._on_error(error)

    async def _take_with_lanes(self, topic: Topic) -> None:
        """Know a topic. It may be in lanes that were added since this broker looked.

        Raises:
            LakelogError: there was no answer; nothing is known of the topic.
        """
        if topic.lanes > len(self._lanes):
            await self._know_lanes()
        if topic.lanes <= len(self._lanes):
            self._take(topic)
        else:
            what = f"it is in {topic.lanes} lanes, and the namespace has {len(self._lanes)}"
            self._note_damage(topic.name, CorruptError(what, at=0, where=topic_key(topic.name)))

    async def _know_lanes(self) -> None:
        """Have the lanes that the namespace has now."""
        self._lanes.grow((await self._run(open_namespace())).rules.lanes)

    def _take(self, topic: Topic) -> None:
        self.damaged.pop(topic.name, None)
        old = self._names.get(topic.name)
        if old is not None and (old.topic == topic or old.topic.incarnation > topic.incarnation):
            return
        if old is not None and old.topic.id == topic.id and topic.is_open:
            old.change(topic)
            return
        if old is not None or topic.is_open:
            self._sorted = None
        if old is not None:
            del self._names[topic.name], self._ids_known[old.topic.id]
            if old.topic.id != topic.id or topic.deleted:
                self._recent.forget(old.topic.id)
                self._metrics.topics.pop(topic.name, None)
        if topic.is_open:
            entry = Entry(topic, self._metrics.topic(topic.name), self._open_partition)
            self._names[topic.name] = self._ids_known[topic.id] = entry

    async def _run(self, flow: Work[T]) -> T:
        perform: Any = self._perform
        return await run_async(flow, perform)


def _unreadable(name: str, error: LakelogError) -> UnavailableError:
    """What became of a topic is unknown: that is not the same as that there is none."""
    return UnavailableError(
        f"topic {name!r} cannot be read: {error}; other topics are served; run lakelog pipeline "
        "verify, and restore its cell from a backup"
    )
