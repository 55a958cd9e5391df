"""A namespace of several lanes in which everything has happened, and jobs that run in it."""

from collections.abc import Callable
from typing import Any

from lakelog.catalog import (
    Topic,
    claim_pipeline,
    create_topic,
    delete_topic,
    make_namespace,
    read_topic,
)
from lakelog.coordination import BucketGroups, encode_group, shard_of
from lakelog.groups import Committed, Durable, Offsets, Roster, TopicIdPartition
from lakelog.host import THIS_HOST
from lakelog.journal import (
    DeleteTopic,
    Lane,
    append,
)
from lakelog.maintenance import (
    MaintenanceReport,
    SealSettings,
    maintain,
    maintain_topics,
    merge_run,
)
from lakelog.model import Rules
from lakelog.pipeline.frame import BAD, Finding, Plan, Result, StoreRequest
from lakelog.pipeline.fsck import ReindexNamespace, VerifyNamespace
from lakelog.store import (
    Delete,
    Op,
    StoreSpec,
    run,
    working,
)
from tests.unit.log.site import GRACE_MS, Site, _Clock
from tests.unit.pipeline.damages import Objects

EVERY = 4
LANES = 2
SETTINGS = SealSettings(segment_bytes=150)


class House(Site):
    """A namespace of several lanes, and a verify that runs in it."""

    def __init__(self) -> None:
        super().__init__(every=EVERY, made=False)
        self.rules = Rules(lanes=LANES, grace_ms=GRACE_MS, checkpoint_every=EVERY)
        self._sequences: dict[tuple[bytes, int], int] = {}
        self.run(make_namespace(self.id(), self.rules))

    def lane(self, number: int = 0) -> Lane:
        clock = _Clock(self)
        return Lane(number=number, rules=self.rules, clock=clock, ids=self.id, writer=self.id())

    def make(
        self, name: str, partitions: int = 1, *, closed: bool = False, **configs: str
    ) -> Topic:
        making = create_topic(
            name,
            topic_id=self.id(),
            partitions=partitions,
            lanes=LANES,
            now_ms=self.now_ms,
            configs={key.replace("_", "."): value for key, value in configs.items()},
            closed=closed,
        )
        return self.run(making)

    def produce(self, topic: Topic, bundles: int = 1, *, count: int = 2) -> None:
        """So many bundles for each partition."""
        for partition in range(topic.partitions):
            lane = self.lane(topic.lane(partition))
            for _ in range(bundles):
                self.pass_ms(7)
                self.append(lane, topic.path_of(partition), self._next(topic, partition, count))

    def _next(self, topic: Topic, partition: int, count: int) -> bytes:
        """A batch; every third is of an idempotent producer."""
        if self._batches % 3:
            return self.batch(count)
        place = topic.id, partition
        sequence = self._sequences.get(place, 0)
        self._sequences[place] = sequence + count
        return self.batch(count, producer=(4000, 0, sequence))

    def keep(self, *, idle: bool = False) -> None:
        lanes = {number: self.lane(number) for number in range(LANES)}
        kept = self.run(maintain(lanes, SETTINGS, idle=idle))
        assert not kept.failures, kept.failures

    def keep_pages(self) -> None:
        """Retain and sweep, and nothing else: lanes stay as they are."""
        topic = self.run(read_topic("orders"))
        self.run(maintain_topics([topic], self.id, MaintenanceReport(), grace_ms=GRACE_MS))

    def merge(self, topic: Topic) -> None:
        """Two neighbours and two more become one each."""
        now_ms = self.now_ms
        for partition in range(topic.partitions):
            where = topic.path_of(partition)
            rows = self.manifest(where).segments
            for at in range(0, len(rows) - 1, 2):
                self.run(merge_run(where, rows[at : at + 2], self.id(), since_ms=now_ms))

    def delete(self, topic: Topic, *, tell: bool = True) -> None:
        self.run(delete_topic(topic.name, topic.id, self.id(), now_ms=self.now_ms))
        for number in topic.lanes_used() if tell else ():
            self.run(append(self.lane(number), [DeleteTopic(topic=topic.id)]))

    def groups(self) -> None:
        store = BucketGroups(self.id(), shards=2)
        for shard in range(2):
            held = self.run(store.claim(shard, 2))
            name = next(name for name in map(str, range(99)) if _shard(name) == shard)
            rows = {TopicIdPartition(bytes(15) + b"\x09", 0): Committed(3, 0, "", 5)}
            roster = Roster(
                generation=1, protocol_type=None, protocol=None, leader=None, since_ms=1,
                is_decided=True, members=(),
            )  # fmt: skip
            durable = Durable(id=name, roster=roster, offsets=Offsets.of(rows))
            self.run(store.save(held, {name: encode_group(durable)}))

    # ------------------------------------------------------------------------ looking

    def work(
        self, job: VerifyNamespace | ReindexNamespace, perform: Callable[[Op], Any] | None = None
    ) -> list[Result]:
        """Plan and do a job, in this store."""
        performs = working(perform or self.perform, sleep=lambda _: None)
        plan: Plan = job.plan(lambda _: performs)

        def grant(wish: StoreRequest) -> Any:
            return performs(wish.op)

        return [*plan.results, *(run(job.step(unit), grant) for unit in plan.units)]

    def verify(self, perform: Callable[[Op], Any] | None = None, **settings: Any) -> list[Result]:
        return self.work(VerifyNamespace(host=THIS_HOST, source=NOWHERE, **settings), perform)

    def reindex(self) -> list[Result]:
        return self.work(ReindexNamespace(source=NOWHERE))

    def put_back(self, objects: Objects) -> None:
        """Let the store hold just these objects."""
        now = self.objects()
        for key in now.keys() - objects.keys():
            self.perform(Delete(key))
        for key, body in objects.items():
            if now.get(key) != body:
                self.replace(key, body)


NOWHERE = StoreSpec("memory:")


def _shard(name: str) -> int:
    return shard_of(name, 2)


def bad(results: list[Result]) -> list[Finding]:
    return [finding for one in results if one.outcome in BAD for finding in one.findings]


def named(results: list[Result], outcome: str = "damaged") -> set[str]:
    return {finding.object for one in results if one.outcome == outcome for finding in one.findings}


def outcomes(results: list[Result]) -> set[str]:
    return {one.outcome for one in results}


def live_in(house: House) -> dict[str, Topic]:
    """Let everything happen that leaves something behind, but for strangers."""
    topics = {"orders": house.make("orders", 3), "users": house.make("users", 2)}
    old = house.make("again")
    house.produce(old, 3)
    for _ in range(4):
        for topic in topics.values():
            house.produce(topic, 3)
        house.keep()
        house.pass_ms(GRACE_MS)
    house.delete(old)
    house.keep()
    house.pass_ms(GRACE_MS)
    house.keep()
    topics["again"] = house.make("again")
    house.produce(topics["again"], 5)
    house.keep(idle=True)
    house.groups()
    house.merge(topics["users"])
    house.run(claim_pipeline(house.id(), house.now_ms))
    for topic in topics.values():
        house.produce(topic, 2)
    return topics
