"""One seed, one run: a cluster works, troubles come one after another, then there is peace.

    kill, restart    a broker ends, and comes back after a while, or at once, under its node id
    freeze           one or many sleep, and wake up with an old view
    drain            SIGTERM
    replaced         another process is started with the same node id while the first one lives
    blind            what one broker's lists show of another is old, one way or both ways
    list, store      lists, or all requests, are not answered for a while

After 45 seconds of peace at most each lane and each shard is where it should be, and everybody gets
on.
Then somebody who knows nothing reads the whole log.
"""

from collections import Counter

from lakelog.catalog import create_topic, make_namespace
from lakelog.coordination import State, owners_of
from lakelog.log import OutOfRange, read
from lakelog.model import Rules
from lakelog.records import decode_batches
from lakelog.store import Work, run, working
from lakelog.testing.cluster.brokers import DRAIN_MS, ClusterBroker
from lakelog.testing.cluster.city import INTERVAL_MS, LANES, SHARDS, City
from lakelog.testing.cluster.clients import Client, Committer, Observer, Producer, Reader
from lakelog.testing.cluster.laws import Laws
from lakelog.testing.process import Process
from lakelog.testing.simulation import Report, performing
from lakelog.testing.truth import Anomaly
from lakelog.testing.world import Faults, World

__all__ = ["CLUSTER_WAYS", "simulate_cluster"]

PEACE_MS = 45_000
BLIND_MS_MAX = 30_000
TROUBLES = (
    "kill", "kill", "restart", "freeze", "freeze", "freeze", "drain", "list", "store", "blind",
    "blind", "freeze many", "replaced",
)  # fmt: skip
CLUSTER_WAYS = (
    *(f"trouble: {kind}" for kind in dict.fromkeys(TROUBLES)),
    "found dead", "lane taken", "redirect", "replaced", "shard claimed", "claim lost",
)  # fmt: skip
"""What a run of all seeds must have gone through."""

STEP_MS = 1_000
PATIENCE_MS = 15_000
"""In peace: whoever has not got on for so long is stuck."""


def simulate_cluster(seed: int, *, live_ms: int = 45_000) -> Report:
    """Run one seed.

    Raises:
        Anomaly: the cluster is not what it promised.
    """
    world = World(seed, _faults(seed))
    city = _founded(world)
    clients = _people(city)
    world.run(15_000)
    while world.now < 15_000 + live_ms:
        world.run(world.now + world.some(500, 10_000))
        _trouble(city)
    _make_peace(city)
    end_ms = world.now + PEACE_MS
    while (flaw := _flaw(city)) and world.now < end_ms:
        world.run(world.now + STEP_MS)
    if flaw:
        raise Anomaly(flaw)
    _check_progress(city, clients)
    city.is_over = True
    for broker in city.brokers:
        broker.stop()
    inspector = Process(world, "inspector", lambda life: _inspect(city, life))
    inspector.start()
    world.run(world.now + 60_000)
    if inspector.is_alive:
        raise Anomaly("liveness: the inspector did not finish")
    counts = Counter(city.counts)
    told = counts["end told"] + counts["offset told"]
    minutes = world.now / 60_000
    return Report(seeds=1, acks=counts["acked"], reads=told, minutes=minutes, ways=counts)


def _faults(seed: int) -> Faults:
    """Faults of requests: a cluster's own troubles are made by ``_trouble``."""
    much = (0, 3, 15)[seed % 3]
    return Faults(
        request_lost=much, answer_lost=much, failed_after=much, failed_before=much, late=0,
        twice=0, pause=0, crash=0, refused=0, clock=0, limited_towns=0, slow_towns=0, outages=0,
        forgetful_towns=0, greedy_towns=0, disk_towns=0,
    )  # fmt: skip


def _founded(world: World) -> City:
    rules = Rules(lanes=LANES, grace_ms=3_600_000, checkpoint_every=1_000)
    perform = working(performing(world))
    run(make_namespace(world.ids(), rules), perform)
    made = create_topic(
        "t",
        topic_id=world.ids(),
        partitions=8 * LANES,
        lanes=LANES,
        now_ms=world.store_ms(),
        configs={},
    )
    city = City(world, rules, run(made, perform), Laws(INTERVAL_MS))
    world.watch = city.watch
    for number in range(world.random.choice((2, 3, 3, 4))):
        city.brokers.append(ClusterBroker(city, number))
    for broker in city.brokers:
        world.at(world.some(0, 2_000), broker.start)
    return city


def _people(city: City) -> list[Client]:
    clients: list[Client] = []
    for lane in city.partitions:
        clients.append(Producer(city, city.random.choice((300, 1_500)), lane))
        clients.append(Reader(city, 1_500, lane))
    for shard in range(SHARDS):
        clients.append(Committer(city, 700, shard))
        clients.append(Observer(city, 700, shard))
    return clients


def _trouble(city: City) -> None:
    """Let something happen."""
    world, random = city.world, city.random
    broker = random.choice(city.brokers)
    kind = random.choice(TROUBLES)
    city.count(f"trouble: {kind}")
    match kind:
        case "kill":
            broker.stop()
            world.at(world.some(1_000, 25_000), broker.start)
        case "restart":
            broker.stop()
            world.at(world.some(100, 1_500), broker.start)
        case "freeze":
            broker.process.freeze(random.choice((500, 5_000, 15_000, 25_000)))
        case "freeze many":
            for one in city.brokers:
                if random.random() < 0.6:
                    one.process.freeze(world.some(4_000, 14_000))
        case "drain":
            broker.drain()
            world.at(world.some(1_000, 25_000), broker.start)
        case "list":
            city.out_list = True
            world.at(world.some(1_000, 25_000), lambda: setattr(city, "out_list", False))
        case "store":
            city.out_all = True
            world.at(world.some(1_000, 15_000), lambda: setattr(city, "out_all", False))
        case "blind":
            other = random.choice(city.brokers)
            pairs = {(broker.id, other.id)} if broker is not other else set()
            if random.random() < 0.4:
                pairs |= {(there, here) for here, there in pairs}
            city.blind |= pairs
            world.at(world.some(5_000, BLIND_MS_MAX), lambda: city.blind.difference_update(pairs))
        case "replaced":
            _replace(city, broker)


def _replace(city: City, broker: ClusterBroker) -> None:
    """Start another process with the node id of one that lives.

    One that has not taken its node id yet would take it from the other. Its clients would find it
    all the same, by the address that it announces; here they find a node by its id, which is that
    of the other. So it is gone.
    """
    if not broker.is_up:
        broker.stop()
    city.former.append(broker)
    after = ClusterBroker(city, broker.id)
    city.brokers[broker.id] = after
    after.start()


def _make_peace(city: City) -> None:
    world = city.world
    world.heal()
    city.blind.clear()
    city.out_list = city.out_all = False
    for broker in (*city.brokers, *city.former):
        broker.process.thaw()
    world.run(world.now + 3_000)
    while any(broker.is_draining for broker in city.brokers):
        world.run(world.now + DRAIN_MS)
    for broker in city.brokers:
        broker.start()


def _flaw(city: City) -> str:
    """Say what is not where it should be, or who says otherwise; nothing if all is well."""
    ids = [broker.id for broker in city.brokers]
    lanes, shards = owners_of(ids, LANES, "lane"), owners_of(ids, SHARDS, "shard")
    for former in city.former:
        if former.process.is_alive:
            return f"replaced: a former run of node {former.id} still lives"
    for broker in city.brokers:
        node = broker.node
        if node.state is not State.SERVING:
            return f"liveness: node {broker.id} is {node.state}"
        for lane, owner in lanes.items():
            told = node.told(lane)
            if told is None or told.node != owner:
                return f"home: lane {lane} is {owner}'s, and {broker.id} tells {told}"
    for shard, owner in shards.items():
        holder = city.laws.cells[shard].claim.broker
        if holder != city.brokers[owner].run:
            return f"home: shard {shard} is {owner}'s, and it does not hold it"
    return ""


def _check_progress(city: City, clients: list[Client]) -> None:
    """See that everybody gets on from now."""
    since_ms = city.world.now
    waiting = clients
    while waiting and city.world.now < since_ms + PATIENCE_MS:
        city.world.run(city.world.now + STEP_MS)
        waiting = [one for one in waiting if one.progress_ms <= since_ms]
    for client in waiting:
        raise Anomaly(f"liveness: {type(client).__name__} stands still for {PATIENCE_MS} ms")


def _inspect(city: City, process: Process) -> Work[None]:
    """Read the whole log, as somebody who has never been here."""
    found: Counter[int] = Counter()
    for number, partition in city.partitions.items():
        lane = city.lane(process, number, city.world.ids())
        path, offset = city.topic.path_of(partition), 0
        while True:
            chunk = yield from read(lane, path, offset, 1 << 20)
            if isinstance(chunk, OutOfRange):
                raise Anomaly(f"lost: lane {number} at {offset}: {chunk.bounds}")
            for record in (one for batch in decode_batches(chunk.body) for one in batch.records):
                batch = int.from_bytes(record.value or b"", "big")
                found[batch] += 1
                at = city.laws.acked.get(batch)
                if at is not None and at != (number, record.offset):
                    raise Anomaly(f"moved: batch {batch} is at {record.offset}, not {at}")
            if not chunk.pieces:
                break
            offset = chunk.next_offset
    lost = [batch for batch in city.laws.acked if not found[batch]]
    twice = [batch for batch, times in found.items() if times > 1]
    if lost or twice:
        raise Anomaly(f"lost {lost[:5]}, twice {twice[:5]}")
