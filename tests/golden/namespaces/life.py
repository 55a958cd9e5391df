"""What happens in a golden namespace: a few days in which everything is done that leaves objects.

Everything goes through the product's own code: a broker in this process and a client of the wire
for what clients do, the keeper for what is due, the flows of the pipeline for what Spark has it do.
Whoever dies in between is a flow that is not driven to its end. Time is the story's own, and ids
are counted: the same code tells the same story, but for the port of a broker and a millisecond.

Limits are lowered where a namespace would otherwise have to be large: rows of a manifest before
there is a page, runs of a bulk write before its plan has two. What is written then has the bytes
that it has anywhere.
"""

from contextlib import contextmanager
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from lakelog.catalog import (
    Topic,
    claim_pipeline,
    create_topic,
    make_namespace,
    open_topic,
    read_topic,
)
from lakelog.journal import Begin, append
from lakelog.log import (
    Identity,
    Staged,
    StagedObject,
    TaskParts,
    abandon_write,
    commit_write,
    store_now,
)
from lakelog.maintenance import SealSettings, maintain, merge_run
from lakelog.manifests import (
    Manifest,
    PartitionPath,
    change_manifest,
    changes,
    make_segment,
    read_manifest,
    store_segment,
)
from lakelog.model import Header, Record, Rules
from lakelog.names import COMMITS_PREFIX, segment_stem
from lakelog.pipeline import CompactSettings, compact_partition
from lakelog.records import Codec, NewBatch, decode_header, encode_batch
from lakelog.store import Op, PutIfAbsent, Work, run, working
from tests.golden.namespaces.copies import Copy
from tests.golden.namespaces.members import leave_groups
from tests.unit.broker.site import Client, connect

__all__ = ["BEGAN_MS", "live", "small_limits"]

BEGAN_MS = 1_790_000_000_000
HOUR_MS = 3_600_000
GRACE_MS = 60_000
RULES = Rules(lanes=2, grace_ms=GRACE_MS, checkpoint_every=4)
SETTINGS = SealSettings(segment_bytes=700)

ORDERS, USERS, CLICKS, TRAIL = "orders", "users", "clicks", "trail"
AGAIN, GONE, STAMPED, LOADED, ARRIVING = "again", "gone", "stamped", "loaded", "arriving"
RENEWED, BROUGHT = "renewed", "brought"
FOR_EVER = {"retention.ms": "-1"}
TOPICS: dict[str, tuple[int, dict[str, str]]] = {
    ORDERS: (3, FOR_EVER),
    USERS: (2, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}),
    CLICKS: (1, {"retention.ms": str(HOUR_MS)}),
    TRAIL: (1, {**FOR_EVER, "segment.bytes": "1048576"}),
    AGAIN: (2, {"retention.ms": "86400000"}),
    GONE: (1, {}),
    RENEWED: (1, FOR_EVER),
    STAMPED: (1, {**FOR_EVER, "message.timestamp.type": "LogAppendTime"}),
    LOADED: (2, FOR_EVER),
}


@contextmanager
def small_limits() -> Any:
    """Let a few rows be enough for a page."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lakelog.manifests.cells.ROWS_MAX", 4)
        patch.setattr("lakelog.manifests.cells.ROWS_GOAL", 2)
        patch.setattr("lakelog.log.staging.RUNS_MAX", 3)
        yield


class Life:
    """A namespace, and who does what in it."""

    def __init__(self, site: Copy) -> None:
        self.site = site
        self._numbers = 0
        self._sequences = 0
        self.producer = (-1, -1)
        self.client: Client
        """Of the broker that runs."""

    # ------------------------------------------------------------------------ clients

    def batch(
        self, count: int, codec: Codec = Codec.NONE, *, keys: int = 5, sequence: int = -1
    ) -> bytes:
        """Return a batch of which every record is another one: some lack a key, or have headers."""
        records: list[Record] = []
        for at in range(count):
            self._numbers += 1
            n = self._numbers
            headers = (Header("trace", b"%d" % n), Header("empty", None)) if n % 3 == 0 else ()
            record = Record(
                offset=at,
                timestamp=self.site.clock.now_ms() - n % 7,
                key=b"key-%d" % (n % keys),
                value=None if n % 11 == 0 else b"value %d, " % n * (1 + n % 4),
                headers=headers,
            )
            records.append(record)
        producer, epoch = self.producer if sequence >= 0 else (-1, -1)
        return encode_batch(
            NewBatch(
                records=tuple(records),
                codec=codec,
                producer_id=producer,
                producer_epoch=epoch,
                base_sequence=sequence,
            )
        )

    async def create(self, name: str, partitions: int, configs: dict[str, str]) -> None:
        row = {
            "name": name, "num_partitions": partitions, "replication_factor": 1, "assignments": [],
            "configs": [{"name": key, "value": value} for key, value in configs.items()],
        }  # fmt: skip
        found = await self.client.ask(19, 7, topics=[row], timeout=1_000, validate_only=False)
        assert found.topics[0].error_code is ErrorCode.none, found

    async def delete(self, name: str) -> None:
        found = await self.client.ask(
            20, 6, topics=[{"name": name, "topic_id": None}], timeout=1_000
        )
        assert found.responses[0].error_code is ErrorCode.none, found

    async def send(self, name: str, partition: int, body: bytes) -> int:
        found = await self.client.produce(name, partition, body)
        assert found.error_code is ErrorCode.none, found
        return int(found.base_offset)

    async def send_together(self) -> None:
        """Send one request after the other: what comes while a bundle is put is in the next one."""
        for _ in range(3):
            names = ((ORDERS, 0), (ORDERS, 1), (LOADED, 0), (LOADED, 1))
            self.client.send_produce({place: self.batch(1) for place in names})
        for _ in range(3):
            _, found = await self.client.answer()
            rows = [one for row in found.responses for one in row.partition_responses]
            assert {row.error_code for row in rows} == {ErrorCode.none}, found

    async def send_once(self, name: str, partition: int, count: int = 2) -> None:
        """Send by an idempotent producer."""
        if self.producer == (-1, -1):
            found = await self.client.ask(22, 4, transactional_id=None, transaction_timeout=1_000,
                                          producer_id=-1, producer_epoch=-1)  # fmt: skip
            self.producer = found.producer_id, found.producer_epoch
        await self.send(name, partition, self.batch(count, sequence=self._sequences))
        self._sequences += count

    async def send_every_codec(self) -> None:
        """Send to every topic, so that every codec is in every lane."""
        for codec in Codec:
            await self.send(ORDERS, codec % 2, self.batch(3, codec))
            await self.send(ORDERS, 1 - codec % 2, self.batch(2, codec))
        for partition in range(2):
            await self.send(USERS, partition, self.batch(6, Codec.ZSTD, keys=4))
            await self.send(AGAIN, partition, self.batch(2))
        await self.send(ORDERS, 2, self.batch(4))
        await self.send(CLICKS, 0, self.batch(4, Codec.LZ4))
        await self.send(STAMPED, 0, self.batch(3))
        await self.send(RENEWED, 0, self.batch(2, Codec.SNAPPY))
        await self.send_together()
        await self.send_once(TRAIL, 0)

    # ------------------------------------------------------------------------ keeping

    def keep(self, *, leap_ms: int = GRACE_MS, idle: bool = False) -> None:
        """Do what is due, and let time pass."""
        kept = self.site.do(maintain(self.site.lanes(), SETTINGS, idle=idle))
        assert not kept.failures, kept.failures
        self.site.clock.leap(leap_ms)

    def topic(self, name: str) -> Topic:
        found: Topic = self.site.do(read_topic(name))
        return found

    def merge(self, where: PartitionPath) -> None:
        """Make one segment of the first two."""
        rows = self.site.do(read_manifest(where)).segments[:2]
        now_ms = self.site.clock.now_ms()
        merged = self.site.do(merge_run(where, rows, self.site.id(), since_ms=now_ms))
        assert merged.after == 1, merged

    def compact(self, name: str) -> None:
        topic = self.topic(name)
        for partition in range(topic.partitions):
            flow = compact_partition(
                topic, topic.path_of(partition), CompactSettings(), self.site.id(),
                seed=bytes(16), now_ms=self.site.clock.now_ms(), always=True,
            )  # fmt: skip
            assert self.site.do(flow).before

    def die(self, flow: Work[Any], kind: type, end: str) -> None:
        """Drive a flow until it has done this, and no further."""

        class Killed(Exception):  # noqa: N818 (it is no error)
            pass

        def perform(op: Op) -> Any:
            answer = self.site.perform(op)
            if isinstance(op, kind) and end in getattr(op, "key", ""):
                raise Killed
            return answer

        with pytest.raises(Killed):
            run(flow, working(perform))

    # ------------------------------------------------------------------------ bulk writes

    def stage(self, identity: Identity, write: bytes, batches: int = 2) -> list[Staged]:
        """Stage batches of every partition of a topic, as a task of Spark does."""
        topic = self.topic(LOADED)
        parts = TaskParts(identity, write, task=0, attempt=0)
        self.site.do(parts.announce())
        staged: list[Staged] = []
        for _ in range(batches):
            parcels: dict[int, StagedObject] = {}
            for partition in range(topic.partitions):
                body = self.batch(3, Codec.ZSTD)
                header = decode_header(body)
                times = header.base_timestamp, header.max_timestamp
                parcel = parcels.setdefault(topic.lane(partition), StagedObject())
                parcel.add((topic.id, partition), body, 3, times)
            for flow in parts.put(parcels):
                staged += self.site.do(flow)
        return staged

    def bring(self) -> None:
        """Fill the history of a topic, and open it, with what an import does for a partition."""
        site, first, end = self.site, 100, 104
        topic = site.do(
            create_topic(
                BROUGHT,
                topic_id=site.id(),
                partitions=1,
                lanes=RULES.lanes,
                now_ms=site.clock.now_ms(),
                configs=FOR_EVER,
                closed=True,
            )
        )
        where, write = topic.path_of(0), site.id()
        records = tuple(
            Record(offset=at, timestamp=BEGAN_MS, key=b"%d" % at, value=b"from elsewhere")
            for at in range(first, end)
        )
        made = make_segment(
            [encode_batch(NewBatch(records=records, base_offset=first))],
            base_offset=first,
            next_offset=end,
            appended_ms=site.clock.now_ms(),
        )
        row = site.do(store_segment(where, made, segment_stem(first, write)))

        def adopted(now: Manifest) -> Manifest | None:
            return changes.adopt(now, write.hex(), 0, (row,), start=first, end=end)

        site.do(change_manifest(where, write.hex(), adopted))
        site.do(
            append(
                site.lane(topic.lane(0)), [Begin(topic_partition=where.topic_partition, offset=end)]
            )
        )
        site.do(open_topic(BROUGHT, topic.id, site.id()))

    def commit(self, identity: Identity, write: bytes, staged: list[Staged]) -> Work[Any]:
        now_ms = self.site.clock.now_ms()
        return commit_write(self.site.lanes(), identity, write, staged, now_ms=now_ms)

    def load(self, identity: Identity) -> None:
        """Stage a write and commit it."""
        write = self.site.id()
        committed = self.site.do(self.commit(identity, write, self.stage(identity, write)))
        assert committed.records == 12, committed

    def leave_writes(self) -> None:
        """Leave a write at every point of its way."""
        site = self.site
        stream = Identity(site.id(), 2, is_stream=True)
        self.load(stream)
        given_up, write = Identity(site.id(), 0, is_stream=False), site.id()
        self.stage(given_up, write, 1)
        site.do(abandon_write(given_up, write))
        self.stage(Identity(site.id(), 0, is_stream=False), site.id(), 1)
        decided, write = Identity(site.id(), 0, is_stream=False), site.id()
        staged = self.stage(decided, write)
        self.die(self.commit(decided, write, staged), PutIfAbsent, COMMITS_PREFIX)


# ---------------------------------------------------------------------------- the story


async def live(site: Copy) -> dict[str, Any]:
    """Let everything happen; return the objects as a broker that is killed leaves them."""
    site.do(make_namespace(site.id(), RULES))
    life = Life(site)
    async with site.broker() as running:
        life.client = await connect(running)
        await _first_days(life)
        await life.client.close()
    site.clock.leap(HOUR_MS)
    life.keep()
    async with site.broker() as running:
        life.client = await connect(running)
        await _last_day(life)
        left = {"objects": site.objects(), "now_ms": site.clock.now_ms()}
        left["producer"] = [*life.producer, life._sequences]
        await life.client.close()
    return left


async def _first_days(life: Life) -> None:
    for name, (partitions, configs) in TOPICS.items():
        await life.create(name, partitions, configs)
    for _ in range(4):
        await life.send_every_codec()
        life.keep()
    await life.send(GONE, 0, life.batch(2))
    for name in (AGAIN, GONE):
        await life.delete(name)
    life.keep()
    life.keep()
    await life.create(AGAIN, *TOPICS[AGAIN])
    life.load(Identity(life.site.id(), 1, is_stream=True))
    await life.send_every_codec()
    _leave_a_segment_nobody_names(life)
    life.keep()
    life.compact(USERS)
    life.merge(life.topic(ORDERS).path_of(0))


def _leave_a_segment_nobody_names(life: Life) -> None:
    """Somebody puts a segment under a plain name, and dies: later it is swept, and noted so."""
    life.die(
        maintain(life.site.lanes(), SETTINGS), PutIfAbsent, f"{life.topic(STAMPED).path}/0/segment-"
    )
    life.site.clock.leap(2 * GRACE_MS)


async def _last_day(life: Life) -> None:
    site = life.site
    await life.send_every_codec()
    life.keep()
    life.merge(life.topic(ORDERS).path_of(1))
    life.keep(leap_ms=0)
    life.merge(life.topic(ORDERS).path_of(2))
    await life.delete(RENEWED)
    await life.create(RENEWED, *TOPICS[RENEWED])
    part = {"partition_index": 2, "offset": 5}
    await life.client.ask(21, 2, topics=[{"name": ORDERS, "partitions": [part]}], timeout=1_000)
    grown = [{"name": STAMPED, "count": 2, "assignments": None}]
    await life.client.ask(37, 3, topics=grown, timeout=1_000, validate_only=False)
    new = {"name": "retention.bytes", "config_operation": 0, "value": "1073741824"}
    resource = {"resource_type": 2, "resource_name": AGAIN, "configs": [new]}
    await life.client.ask(44, 1, resources=[resource], validate_only=False)
    life.bring()
    life.leave_writes()
    await life.send_every_codec()
    await leave_groups(life.client)
    site.do(
        create_topic(
            ARRIVING, topic_id=site.id(), partitions=1, lanes=RULES.lanes,
            now_ms=site.clock.now_ms(), closed=True,
        )
    )  # fmt: skip
    where = life.topic(TRAIL).path_of(0)
    rows = site.do(read_manifest(where)).segments[:2]
    merging = merge_run(where, rows, site.id(), since_ms=site.clock.now_ms())
    life.die(merging, PutIfAbsent, ".kfs")
    life.die(store_now(site.id), PutIfAbsent, "_lakelog/time/")
    site.do(claim_pipeline(site.id(), site.clock.now_ms() + GRACE_MS))
