"""A large cluster, computed: 100 brokers, 1,024 lanes, 100,000 partitions.

    spread    the lanes of the broker that has most of them, over the mean
    moves     lanes that have another leader after one broker has left, or come, beside how many
              must move: those of the one that left, or the new one's share
    view      what one change of members costs the loop of a broker: who should lead what, who is
              told for every lane, the bytes of a Metadata answer for a topic of 1,000 partitions
    price     requests of beats and lists, and what they cost on S3 in a month

The figure is the spread's room: 1.25 over it, at least 1 passes. Everything else has its own bar.
"""

import statistics
import time

from benchmarks.measure import arguments, closing_line
from lakelog.coordination import LOAD_MAX, Leadership, Member, State, View, owners_of
from lakelog.wire import MetadataPartition, encode_metadata_topic

BROKERS, LANES, PARTITIONS = 100, 1024, 100_000
VIEW_MS_MAX = 50.0
MOVES_MAX = 2.0
"""Times what must move: bounded loads push a few lanes on."""
BEAT_S, MONTH_S, PRICE = 3, 30 * 86_400, 0.005 / 1000


def spread(owners: dict[int, int], brokers: int) -> float:
    counts = [list(owners.values()).count(node) for node in set(owners.values())]
    return max(counts) / (LANES / brokers)


def moved(before: dict[int, int], after: dict[int, int]) -> int:
    return sum(before[lane] != after[lane] for lane in before)


def view_of(nodes: list[int], owners: dict[int, int]) -> View:
    led = {node: {lane: 7 for lane, owner in owners.items() if owner == node} for node in nodes}
    members = {
        node: Member(node=node, run=bytes(16), state=State.SERVING, epochs=led[node])
        for node in nodes
    }
    return View(number=1, begun_ms=1, living=members)


def view_ms(nodes: list[int], view: View) -> float:
    """Return the milliseconds of processor of one change of members, for a broker's loop."""
    leadership = Leadership(nodes[0], LANES, {})
    begun = time.process_time()
    leadership.saw(view)
    leadership.to_drop(view, serves=True)
    leadership.to_take(view, serves=True)
    told = [leadership.told(lane, view) for lane in range(LANES)]
    leaders = [MetadataPartition(*one, (one.node,)) for one in told if one is not None]
    rows = [leaders[at % LANES] for at in range(1000)]
    encode_metadata_topic(12, name="t", topic_id=bytes(16), partitions=rows)
    return 1000 * (time.process_time() - begun)


def main() -> None:
    """Compute, and tell."""
    rounds = 5 if arguments(__doc__).quick else 20
    nodes = list(range(1, BROKERS + 1))
    full = dict(owners_of(nodes, LANES, "lane"))
    share = LANES / BROKERS
    left, came = [], []
    for node in nodes[:: BROKERS // 20]:
        fewer = dict(owners_of([one for one in nodes if one != node], LANES, "lane"))
        left.append(moved(full, fewer) / max(1, list(full.values()).count(node)))
        more = dict(owners_of([*nodes, BROKERS + node], LANES, "lane"))
        came.append(moved(full, more) / share)
    taken = [
        view_ms(nodes[at:] + nodes[:at], view_of(nodes, dict(owners_of(nodes, LANES, "lane"))))
        for at in range(rounds)
    ]
    widest = spread(full, BROKERS)
    requests = 2 * MONTH_S // BEAT_S
    bars = {
        "spread": widest <= LOAD_MAX,
        "moves": statistics.median(left + came) <= MOVES_MAX,
        "view": statistics.median(taken) <= VIEW_MS_MAX,
    }
    closing_line(
        name="cluster_scale",
        value=sum(bars.values()),
        bar=len(bars),
        unit="bars reached",
        reached=bars,
        brokers=BROKERS,
        lanes=LANES,
        partitions=PARTITIONS,
        most_lanes_over_mean=round(widest, 3),
        moves_when_one_leaves_over_ideal=round(statistics.median(left), 2),
        moves_when_one_comes_over_ideal=round(statistics.median(came), 2),
        view_change_ms=round(statistics.median(taken), 1),
        requests_a_month_and_broker=requests,
        dollars_a_month_and_broker=round(requests * PRICE, 2),
        dollars_a_month=round(BROKERS * requests * PRICE, 2),
    )


if __name__ == "__main__":
    main()
