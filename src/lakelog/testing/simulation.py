"""One seed, one run: a town lives for some minutes of virtual time, then heals, then is inspected.

While it lives, every operation and every answer is compared with the truth (``truth``). When it has
healed and time has passed, an inspector who knows nothing reads the whole log, and looks for
objects that nothing refers to.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from lakelog.catalog import Topic, create_topic, list_topics, make_namespace
from lakelog.errors import LakelogError
from lakelog.journal import flush
from lakelog.log import OutOfRange, read
from lakelog.maintenance import SealSettings, maintain
from lakelog.manifests import decode_manifest
from lakelog.model import Rules
from lakelog.names import STAGED_PREFIX, seq_of
from lakelog.store import ListPage, Op, Wait, Work, run, working
from lakelog.testing.actors import admin, keeper, reader
from lakelog.testing.brokers import Broker, Producer, Stranger
from lakelog.testing.bulk import Query, driver
from lakelog.testing.damaged import inspect_damaged
from lakelog.testing.power import recover
from lakelog.testing.process import Process
from lakelog.testing.rewriting import rewriter
from lakelog.testing.scale import scaled
from lakelog.testing.town import SEALS, Town
from lakelog.testing.truth import Anomaly, Truth
from lakelog.testing.world import Faults, World

__all__ = ["Report", "performing", "simulate"]


PAST_SEGMENTS = 4
PASSES = 5
"""Of the keeper in the end: a write may be finished by the second, and then be sealed and go."""

COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.2",
    "delete.retention.ms": "1000",
}


@dataclass(slots=True)
class Report:
    """What happened in one run, or in many."""

    seeds: int = 0
    acks: int = 0
    reads: int = 0
    unknown: int = 0
    bundles: int = 0
    minutes: float = 0.0
    ways: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)

    def add(self, other: "Report") -> None:
        self.seeds += other.seeds
        self.acks += other.acks
        self.reads += other.reads
        self.unknown += other.unknown
        self.bundles += other.bundles
        self.minutes += other.minutes
        self.ways.update(other.ways)
        self.faults.update(other.faults)


def simulate(seed: int, *, live_ms: int = 55_000, faults: Faults | None = None) -> Report:
    """Run one seed.

    Raises:
        Anomaly: the log is not what it promised.
    """
    faults = faults or Faults()
    world = World(seed, faults)
    with scaled(forgetful=world.is_forgetful, greedy=world.is_greedy):
        town = _lived(world, live_ms)
    return Report(
        seeds=1,
        acks=town.acks,
        reads=town.reads,
        unknown=town.unknown,
        bundles=len(town.truth.bundles),
        minutes=world.now / 60_000,
        ways=town.ways,
        faults=world.counts,
    )


def _lived(world: World, live_ms: int) -> Town:
    """Let a town live, heal, and be inspected."""
    faults = world.faults
    rules = Rules(lanes=1, grace_ms=faults.grace_ms, checkpoint_every=4)
    town = _found(world, rules)
    processes = [broker.process for broker in town.brokers]
    for number in range(2):
        processes.append(Process(world, f"reader {number}", lambda life: reader(town, life)))
        processes.append(Process(world, f"keeper {number}", lambda life: keeper(town, life)))
        processes.append(Process(world, f"rewriter {number}", lambda _: rewriter(town)))
    query = Query(world.ids())
    processes += [
        Process(world, f"driver {number}", lambda life: driver(town, query, life))
        for number in range(2)
    ]
    processes.append(Process(world, "admin", lambda life: admin(town, life)))
    world.begin_trouble()
    for process in processes:
        process.start()
    for producer in (*town.producers, *town.strangers):
        producer.pause()
    world.run(live_ms)
    inspect = _inspect
    if world.has_lied:
        _cut_for_good(town, processes)
        inspect = inspect_damaged
    else:
        _heal(town, processes)
    inspector = Process(world, "inspector", lambda life: inspect(town, life))
    inspector.start()
    world.run(world.now + 100 * faults.grace_ms)
    if inspector.is_alive:
        raise Anomaly("liveness: the inspector did not finish")
    return town


def _found(world: World, rules: Rules) -> Town:
    truth = Truth(world.store, rules, world.store_ms)
    town = Town(world, truth, rules, is_forgetful=world.is_forgetful)
    perform = working(performing(world))
    run(make_namespace(world.ids(), rules), perform)
    world.watch, world.after_cut = truth.watch, lambda: recover(truth)

    def make_topic(name: str, partitions: int, configs: dict[str, str]) -> Topic:
        topic_id, now_ms = world.ids(), world.store_ms()
        made = create_topic(
            name, topic_id=topic_id, partitions=partitions, lanes=1, now_ms=now_ms, configs=configs
        )
        return run(made, perform)

    for name, partitions, configs in (
        ("a", 2, {"retention.ms": "60000"}),
        ("b", 1, {"retention.bytes": "800", "retention.ms": "-1"}),
        ("c", 1, COMPACTED),
    ):
        town.topics[name] = make_topic(name, partitions, configs)
    if world.is_greedy:
        town.strangers = [Stranger(town, make_topic("g", 1, {}))]
    town.favourite = world.random.choice(("", *town.topics))
    if town.favourite:
        _write_past(town, town.topics[town.favourite])
    town.brokers = [Broker(town, number) for number in range(3)]
    town.producers = [Producer(town, number, idempotent=number % 3 > 0) for number in range(6)]
    return town


def _write_past(town: Town, topic: Topic) -> None:
    """Give a topic a past: some segments in each of its partitions, from before the troubles."""
    world = town.world

    def past() -> Work[None]:
        lane = town.lane(Process(world, "past", _rest))
        for _ in range(PAST_SEGMENTS):
            for partition in range(topic.partitions):
                yield from flush(lane, [town.batch(topic, partition) for _ in range(3)])
            yield from maintain({0: lane}, SEALS)

    run(past(), working(performing(world), sleep=lambda _: None))


def performing(world: World) -> Callable[[Op], Any]:
    """Return what performs operations before the troubles begin."""

    def perform(op: Op) -> Any:
        answer = world.perform(op)
        if isinstance(answer, LakelogError):
            raise answer
        return answer

    return perform


ROUNDS_MAX = 5
"""How often a healed town is given time. One is enough for most; where the store is too slow for
large bundles for good, what has gathered in a broker that slept is halved until it is stored, and
each half is tried for a while."""


def _rest(_: Process) -> Work[None]:
    yield from ()


def _heal(town: Town, processes: list[Process]) -> None:
    """No more faults: who has sent something gets an answer, and what is late arrives."""
    world = town.world
    _end_troubles(town)
    brokers = [broker.process for broker in town.brokers]
    for process in processes:
        if process not in brokers:
            process.stop()
    for _ in range(ROUNDS_MAX):
        world.run(world.now + 8 * town.rules.grace_ms)
        if not _unanswered(town):
            break
    _check_answered(town, "long after everything healed")
    for producer in town.producers:
        producer.next_batch()
    world.run(world.now + 4 * town.rules.grace_ms)
    _check_answered(town, "to what was sent after everything healed")
    for process in brokers:
        process.stop()


def _cut_for_good(town: Town, processes: list[Process]) -> None:
    """Cut the power of a machine whose fsync has lied. Nobody lives there any more."""
    assert town.world.machine is not None
    _end_troubles(town)
    for process in processes:
        process.stop()
    town.world.machine.cut()


def _end_troubles(town: Town) -> None:
    """Let nothing go wrong any more, and nobody send anything new."""
    town.world.heal()
    for producer in (*town.producers, *town.strangers):
        producer.done = True


def _unanswered(town: Town) -> list[int]:
    return [producer.number for producer in town.producers if producer.sent is not None]


def _check_answered(town: Town, when: str) -> None:
    if stuck := _unanswered(town):
        raise Anomaly(f"unseen: producers {stuck} have no answer {when}")


def _inspect(town: Town, process: Process) -> Work[None]:
    """Tidy up, then read everything, as somebody who has never been here."""
    lane = town.lane(process)
    settings = SealSettings(group_bytes=1 << 20, segment_bytes=1 << 20)
    for _ in range(PASSES):
        kept = yield from maintain({0: lane}, settings, idle=True)
        for what, error in kept.failures.items():
            raise Anomaly(f"{what} cannot be kept: {error}") from error
        yield Wait(2 * town.rules.grace_ms)
    town.count_ways(lane)
    lane = town.lane(process)
    for topic in (yield from list_topics()):
        if topic.deleted:
            continue
        for partition in range(topic.partitions):
            where = topic.path_of(partition)
            topic_partition = where.topic_partition
            offset = town.truth.starts.get(topic_partition, 0)
            while True:
                found = yield from read(lane, where, offset, 1_000)
                if isinstance(found, OutOfRange):
                    raise Anomaly(f"lost write: {topic_partition} at {offset}: {found.bounds}")
                town.truth.judge_read(topic_partition, offset, found, asked=found.bounds)
                offset = found.next_offset
                if not found.body:
                    break
            end = town.truth.end(topic_partition)
            if offset != end:
                raise Anomaly(f"lost write: {topic_partition} ends at {offset}, not {end}")
    _check_leaks(town)


def _check_leaks(town: Town) -> None:
    """Nothing is left that nothing refers to."""
    store, floor = town.world.store, town.truth.floor
    named: set[str] = set()
    for key, manifest in town.truth.manifests.items():
        prefix = key.removesuffix("manifest")
        named |= {prefix + name for name in manifest.names()}
        named |= {prefix + row.name for row in town.truth.segments(prefix, manifest)}
        if decode_manifest(town.truth.read(key)) != manifest:
            raise Anomaly(f"{key} is not what was written last")
    after, more = "", True
    while more:
        page_ = store.perform(ListPage("", after))
        for info in page_.objects:
            seq = seq_of(info.key)
            lost = seq is not None and seq < floor
            beside = "/segment-" in info.key or "/page-" in info.key
            if info.key.startswith(STAGED_PREFIX):
                raise Anomaly(f"leak: {info.key} is still there")
            if lost or (beside and info.key.partition(".")[0] not in named):
                raise Anomaly(f"leak: {info.key} is still there, floor {floor}")
        more = page_.more
        after = page_.objects[-1].key if page_.objects else after
