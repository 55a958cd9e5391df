"""A namespace in memory for stories: time stands still until a test moves it.

    site.run(flow)                        every operation is performed, waits move the clock
    site.run(flow, perform)               ... by something that interferes:
        lose_answer(site, Kind, end)      the first such operation is performed, its answer is lost
        first(site, Kind, end, do)        somebody acts just before the first such operation
        then(site, Kind, end, do)         ... or just behind it
        Dying(site, k)                    after k operations the process is gone

``Kind`` and ``end`` say which operation: its class, and how its key ends.
"""

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from lakelog.catalog import Topic, create_topic, list_topics, make_namespace
from lakelog.errors import LakelogError, UnavailableError
from lakelog.journal import Lane, Outcome, Stored, append, new_run, write_checkpoint
from lakelog.log import Bounds, Chunk, bounds, read, store_now
from lakelog.maintenance import (
    Sealed,
    SealSettings,
    Trimmed,
    catalog_of,
    plan_seal,
    read_backlog,
    reap,
    seal_batch,
    sweep_partition,
    trim,
)
from lakelog.manifests import (
    Manifest,
    PartitionPath,
    change_manifest,
    changes,
    read_manifest,
)
from lakelog.model import Record, Rules
from lakelog.ports import Ids
from lakelog.records import Codec, NewBatch, decode_header, encode_batch
from lakelog.store import (
    Delete,
    Get,
    Many,
    MemoryStore,
    Op,
    PutIfAbsent,
    Wait,
    Work,
    join_body,
    list_objects,
    run,
    working,
)
from lakelog.testing import make_batch

EPOCH_MS = 1_700_000_000_000
GRACE_MS = 60_000
NO_PRODUCER = (-1, -1, -1)

T = TypeVar("T")
Perform = Callable[[Op], Any]


class Site:
    """A store, a clock, and flows of many processes."""

    def __init__(self, *, every: int = 4, made: bool = True, lanes: int = 1) -> None:
        self.now_ms = EPOCH_MS
        self.store = MemoryStore(now_ms=lambda: self.now_ms)
        self.rules = Rules(lanes=lanes, grace_ms=GRACE_MS, checkpoint_every=every)
        self._ids = 0
        self._batches = 0
        if made:
            self.run(make_namespace(self.id(), self.rules))

    # ------------------------------------------------------------------------ the world

    def id(self) -> bytes:
        self._ids += 1
        return self._ids.to_bytes(16, "big")

    def boot_ms(self) -> int:
        return self.now_ms - EPOCH_MS

    def perform(self, op: Op) -> Any:
        return self.store.perform(op)

    def pass_ms(self, ms: int) -> None:
        self.now_ms += ms

    def run(self, flow: Work[T], perform: Perform | None = None) -> T:
        def sleep(seconds: float) -> None:
            self.now_ms += round(seconds * 1000)

        return run(flow, working(perform or self.perform, sleep=sleep))

    def objects(self, prefix: str = "") -> dict[str, bytes]:
        held = self.store._objects
        return {key: join_body(held[key][1]) for key in sorted(held) if key.startswith(prefix)}

    def names(self, where: PartitionPath) -> set[str]:
        """What lies beside a manifest."""
        return {key.removeprefix(where.prefix) for key in self.objects(where.prefix)} - {"manifest"}

    def replace(self, key: str, body: bytes) -> None:
        """Change what never changes."""
        self.perform(Delete(key))
        self.perform(PutIfAbsent(key, body))

    # ------------------------------------------------------------------------ processes

    def lane(self, number: int = 0) -> Lane:
        """A lane of which a new process knows nothing yet."""
        clock = _Clock(self)
        return Lane(number=number, rules=self.rules, clock=clock, ids=self.id, writer=self.id())

    def topic(self, name: str = "orders", *, partitions: int = 1, **configs: str) -> Topic:
        made = {key.replace("_", "."): value for key, value in configs.items()}
        return self.run(
            create_topic(
                name,
                topic_id=self.id(),
                partitions=partitions,
                lanes=self.rules.lanes,
                now_ms=self.now_ms,
                configs=made,
            )
        )

    def batch(
        self,
        count: int = 2,
        *,
        producer: tuple[int, int, int] = NO_PRODUCER,
        at_ms: int | None = None,
    ) -> bytes:
        self._batches += 1
        return make_batch(self._batches, count, producer, self.now_ms if at_ms is None else at_ms)

    def append(self, lane: Lane, where: PartitionPath, *bodies: bytes) -> list[Outcome]:
        """Each body in a bundle of its own; checkpoints as they are due."""
        outcomes: list[Outcome] = []
        for body in bodies:
            outcomes += self.run(append(lane, [new_run(*where.topic_partition, body)]))
            self.run(write_checkpoint(lane))
        return outcomes

    def fill(
        self, lane: Lane, where: PartitionPath, bundles: int, *, count: int = 2
    ) -> list[bytes]:
        """Append batches, and return the log as it is read then."""
        for _ in range(bundles):
            (outcome,) = self.append(lane, where, self.batch(count))
            assert isinstance(outcome, Stored)
        return self.log(where)

    # ------------------------------------------------------------------------ the log

    def manifest(self, where: PartitionPath) -> Manifest:
        return self.run(read_manifest(where))

    def bounds(self, where: PartitionPath) -> Bounds:
        return self.run(bounds(self.lane(), where))

    def read(
        self, where: PartitionPath, offset: int, most: int = 1 << 20, perform: Perform | None = None
    ) -> Chunk:
        found = self.run(read(self.lane(), where, offset, most), perform)
        assert isinstance(found, Chunk), found
        return found

    def log(self, where: PartitionPath, *, most: int = 1 << 20) -> list[bytes]:
        """Every batch from the start of the log to its end, read by a new process."""
        return self.log_from(where, self.bounds(where).log_start, most=most)

    def log_from(self, where: PartitionPath, at: int, *, most: int = 1 << 20) -> list[bytes]:
        lane = self.lane()
        found: list[bytes] = []
        while True:
            chunk = self.run(read(lane, where, at, most))
            assert isinstance(chunk, Chunk)
            if not chunk.body:
                return found
            found += cut(chunk.body)
            assert chunk.next_offset > at
            at = chunk.next_offset

    def delete_records(self, where: PartitionPath, offset: int) -> None:
        write = self.id().hex()
        self.run(change_manifest(where, write, lambda now: changes.start(now, write, offset)))

    # ------------------------------------------------------------------------ the verbs

    def seal(self, settings: SealSettings | None = None, perform: Perform | None = None) -> Sealed:
        return self.run(seal(self.lane(), settings or SealSettings()), perform)

    def trim(self, *, idle: bool = False, perform: Perform | None = None) -> Trimmed:
        return self.run(trim_lane(self.lane(), idle=idle), perform)

    def reap(self, perform: Perform | None = None) -> int:
        return self.run(reap_lane(self.lane()), perform)

    def sweep(self, where: PartitionPath, perform: Perform | None = None) -> int:
        flow = sweep(where, self.id, now_ms=self.now_ms, grace_ms=GRACE_MS)
        return self.run(flow, perform)


class _Clock:
    def __init__(self, site: Site) -> None:
        self._site = site

    def now_ms(self) -> int:
        return self._site.now_ms

    def boot_ms(self) -> int:
        return self._site.boot_ms()


def seal(lane: Lane, settings: SealSettings) -> Work[Sealed]:
    """Seal what a lane holds, as a keeper does."""
    topics = yield from list_topics()
    now_ms = yield from store_now(lane.ids)
    backlog = yield from read_backlog(lane, 4096)
    assert backlog is not None
    done = Sealed()
    for group in plan_seal(backlog, catalog_of(topics), settings):
        done += yield from seal_batch(lane, group, settings, floor=backlog.floor, since_ms=now_ms)
    return done


def sweep(where: PartitionPath, ids: Ids, *, now_ms: int, grace_ms: int) -> Work[int]:
    """List what lies beside one manifest, read the manifest, and sweep."""
    infos = yield from list_objects(where.prefix)
    manifest = yield from read_manifest(where)
    flow = sweep_partition(where, infos, manifest, ids, now_ms=now_ms, grace_ms=grace_ms)
    return (yield from flow)


def trim_lane(lane: Lane, *, idle: bool = False) -> Work[Trimmed]:
    topics = yield from list_topics()
    backlog = yield from read_backlog(lane, 4096)
    assert backlog is not None
    return (yield from trim(lane, backlog, catalog_of(topics), idle=idle))


def reap_lane(lane: Lane) -> Work[int]:
    now_ms = yield from store_now(lane.ids)
    return (yield from reap(lane, now_ms))


# ---------------------------------------------------------------------------- bytes


def cut(body: bytes) -> list[bytes]:
    """The batches of a run."""
    found, at = [], 0
    while at < len(body):
        size = decode_header(body, at).size
        found.append(body[at : at + size])
        at += size
    return found


def spans(batches: list[bytes]) -> list[tuple[int, int]]:
    headers = map(decode_header, batches)
    return [(header.base_offset, header.next_offset) for header in headers]


def unplaced(batches: list[bytes]) -> list[bytes]:
    """What a producer signed: without base offset and leader epoch."""
    return [batch[8:12] + batch[16:] for batch in batches]


def packed(codec: Codec, number: int, *, values: int = 3, size: int = 40) -> bytes:
    """A batch by any codec."""
    made = [
        Record(offset=at, timestamp=EPOCH_MS + at, key=b"%d" % number, value=b"%d" % at * size)
        for at in range(values)
    ]
    return encode_batch(NewBatch(records=made, codec=codec))


# ---------------------------------------------------------------------------- interference


class Killed(Exception):  # noqa: N818 (it is no error)
    """The process is gone."""


class Dying:
    """Performs so many operations, and then the process is gone."""

    def __init__(self, site: Site, operations: int) -> None:
        self.site, self.left = site, operations

    def __call__(self, op: Op) -> Any:
        if not self.left:
            raise Killed
        self.left -= 1
        return self.site.perform(op)


def killed_at_every_step(
    make: Callable[[], Site], flow: Callable[[Site], Work[Any]]
) -> Iterator[Site]:
    """Yield new sites in which a flow died after 0, 1, 2, ... operations; and one where not."""
    for k in range(10_000):
        site = make()
        try:
            site.run(flow(site), Dying(site, k))
        except Killed:
            yield site
        else:
            assert k > 3, "this flow does too little for it to be worth it"
            yield site
            return


def _is_it(op: Op, kind: type, end: str) -> bool:
    return isinstance(op, kind) and getattr(op, "key", getattr(op, "prefix", "")).endswith(end)


def lose_answer(site: Site, kind: type, end: str, *, times: int = 1) -> Perform:
    """Perform everything; the answers of the first operations of a kind are lost."""
    left = [times]

    def perform(op: Op) -> Any:
        answer = site.perform(op)
        if left[0] and _is_it(op, kind, end):
            left[0] -= 1
            raise UnavailableError("no answer: retry")
        return answer

    return perform


def first(site: Site, kind: type, end: str, do: Callable[[], object], *, nth: int = 1) -> Perform:
    """Let somebody act just before the n-th operation of a kind."""
    left = [nth]

    def perform(op: Op) -> Any:
        if _is_it(op, kind, end):
            left[0] -= 1
            if left[0] == 0:
                do()
        return site.perform(op)

    return perform


def then(site: Site, kind: type, end: str, do: Callable[[], object], *, nth: int = 1) -> Perform:
    """Let somebody act just behind the n-th operation of a kind, before its answer is seen."""
    left = [nth]

    def perform(op: Op) -> Any:
        try:
            return site.perform(op)
        finally:
            if _is_it(op, kind, end):
                left[0] -= 1
                if left[0] == 0:
                    do()

    return perform


class Paused(Generic[T]):
    """A process that sleeps just before an operation, until a test lets it go on."""

    def __init__(self, site: Site, flow: Work[T], kind: type, end: str) -> None:
        self._flow = flow
        self._perform = working(site.perform, sleep=lambda _: None)
        self._wish = next(flow)
        self.until(kind, end)

    def until(self, kind: type, end: str) -> None:
        """Go on until just before an operation, or several of which it is one.

        It may be where it sleeps already.
        """
        while not any(_is_it(op, kind, end) for op in self._ops()):
            self.step()

    def _ops(self) -> tuple[Op, ...]:
        if isinstance(self._wish, Wait):
            return ()
        return self._wish.ops if isinstance(self._wish, Many) else (self._wish,)

    def step(self) -> None:
        """Perform what it asks for next."""
        self._wish = self._step()

    def _step(self) -> Op | Many | Wait:
        try:
            answer = self._perform(self._wish)
        except LakelogError as error:
            return self._flow.throw(error)
        return self._flow.send(answer)

    def finish(self) -> T:
        try:
            while True:
                self.step()
        except StopIteration as done:
            result: T = done.value
            return result


def counting(site: Site) -> tuple[list[Op], Perform]:
    """Perform everything, and write down what."""
    seen: list[Op] = []

    def perform(op: Op) -> Any:
        seen.append(op)
        return site.perform(op)

    return seen, perform


def get_key(site: Site, key: str) -> bytes:
    body: bytes = site.perform(Get(key)).body
    return body
