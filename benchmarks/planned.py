"""`lakelog plan` against brokers that run: requests and bytes, counted on a virtual clock.

For some loads, by each policy: the requests that are planned beside those that were counted, of
each kind that has a price of its own, and the bytes of bundles and segments. The value is the
furthest from what was counted, as a part of it; at most 0.1. Latency is printed beside it.
"""

from collections.abc import Mapping

from benchmarks.counted import Counted, Load, count
from benchmarks.measure import arguments, closing_line
from lakelog.cli.costs import Workload, expected_ms, requests_a_day
from lakelog.journal import FlushPolicy
from lakelog.store import S3_PRICES

OFF_MAX = 0.1
HOURS = 1 / 3
"""Two passes of maintenance."""

LOADS = (
    Load(hours=HOURS, bytes_s=100_000, request_bytes=50_000, policy=FlushPolicy.COST),
    Load(hours=HOURS, brokers=3, partitions=8),
    Load(hours=HOURS, bytes_s=400_000, request_bytes=200_000, policy=FlushPolicy.BALANCED),
    Load(hours=HOURS, bytes_s=600_000, request_bytes=100_000, lanes=1, partitions=2),
    Load(hours=HOURS, bytes_s=200_000, request_bytes=100_000, brokers=2, lanes=8, partitions=8),
    Load(hours=HOURS, bytes_s=400_000, request_bytes=10_000, lanes=1, partitions=8),
)
QUICK = LOADS[:2]


def planned(load: Load) -> Workload:
    """Return the same load for the plan."""
    return Workload(
        bytes_s=load.bytes_s,
        partitions=load.partitions,
        lanes=load.lanes,
        brokers=load.brokers,
        readers=int(load.consumes),
        request_bytes=load.request_bytes,
        put_ms=load.put_ms,
        put_p99_ms=load.put_ms,
        policy=load.policy,
    )


def by_price(requests: Mapping[tuple[str, str], float]) -> dict[str, float]:
    """Return requests without commits, which nobody makes here, by what they cost."""
    found = {"put, list": 0.0, "get, head": 0.0}
    for (what, kind), n in requests.items():
        if (what, kind) != ("groups", "put"):
            found["put, list" if S3_PRICES[kind] == S3_PRICES["put"] else "get, head"] += n
    return found


def off(load: Load, found: Counted) -> dict[str, float]:
    """Return how far off the plan is, as a part of what was counted."""
    plan = by_price(requests_a_day(planned(load)))
    counted = by_price({key: n for key, n in found.a_day().items() if key[1] != "delete"})
    parts = {kind: plan[kind] / counted[kind] - 1 for kind in counted}
    if load.bytes_s:
        sent = load.bytes_s * load.hours * 3600
        for what in ("bundles", "history"):
            parts[f"bytes of {what}"] = sent / found.bytes_written[what] - 1
    return {what: round(part, 3) for what, part in parts.items()}


def main() -> None:
    """Count, compare, and tell."""
    worst = 0.0
    rows = []
    for load in QUICK if arguments(__doc__).quick else LOADS:
        found = count(load)
        parts = off(load, found)
        worst = max(worst, *map(abs, parts.values()))
        p50_ms, p99_ms = expected_ms(planned(load))
        row = {
            "policy": load.policy or "balanced",
            "bytes_s": load.bytes_s,
            "brokers": load.brokers,
            "off": parts,
            "planned_ms": [round(p50_ms), round(p99_ms)],
            "counted_ms": [round(found.wait_ms(0.5)), round(found.wait_ms(0.99))],
        }
        print(row, flush=True)
        rows.append(row)
    closing_line(
        name="planned", value=OFF_MAX / max(worst, 1e-9), bar=1.0, worst=round(worst, 3), rows=rows
    )


if __name__ == "__main__":
    main()
