"""When to flush: what an acknowledgement takes, and what it costs, by each policy.

latency   on SeaweedFS: single records at 20 a second, p50 of the acknowledgement, and where it
          goes: waiting, the put, and the rest. Bar: 20 ms. Where a put takes 100 ms: p99 at 1, 10
          and 50 MB/s. Bar: 300 ms
balanced  at S3's prices, 10 MB/s, puts of 100 ms: bundles, at most those of a flush every 250 ms in
          each of four lanes, and p99. Bar: 400 ms
cost      at S3's prices, counted on a virtual clock (``benchmarks.counted``): 100 kB/s, dollars a
          day of one broker. Bar: 1. p99 is printed
silence   likewise, three brokers and nobody who sends. Bar: 1.50
law       over drawn histories: ``tests/property/test_pace.py``, run here as well

The value is the least of the bars over what was measured. Each speed is measured in several rounds,
and the median of them counts. A round in which others on the host had the processors for more than
a tenth of the time is taken again, and counted as disturbed.
"""

import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, NamedTuple

from benchmarks.broker import Server, create_topic, served
from benchmarks.counted import Load, count
from benchmarks.measure import Rounds, arguments, closing_line, undisturbed
from lakelog.journal import FlushPolicy
from tests.cluster.story import new_namespace
from tests.parts.seaweedfs import SeaweedFS, running_seaweedfs

TOPIC, PARTITIONS, LANES = "flushed", 4, 4
PUT_MS = 100
STEADY_S = 3.0
"""What a lane has saved by a budget is spent by then, before anything counts."""
BEGUN_S = 1.0
"""Where there is no budget clients have connected by then, and that is enough."""
LINGER_MS = 20
"""As of the peers that were measured. One connection may have a hundred requests that wait, beyond
which its socket is not read: with 5 ms there would be three hundred, and they wait for a flush
more."""
OLD_FLUSHES_S = 4
"""In each lane, when a flush began every 250 ms."""
BARS = {
    "single_p50_ms": 20.0,
    "p99_ms_at_1": 300.0,
    "p99_ms_at_10": 300.0,
    "p99_ms_at_50": 300.0,
    "balanced_p99_ms": 400.0,
    "balanced_puts_over_before": 1.0,
    "cost_usd_a_day": 1.0,
    "silence_usd_a_day": 1.5,
}


def quantile(values: list[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * part), len(ordered) - 1)]


class Run(NamedTuple):
    """What producing at a steady rate has shown, without the time before it was steady."""

    took_ms: list[float]
    """How long each record took to be acknowledged."""
    flushes_s: float
    """How many bundles were put in a second, in all lanes."""


def produced(
    server: Server, rate_bytes_s: float, size: int, seconds: float, steady_s: float = BEGUN_S
) -> Run:
    """Produce at a steady rate, which counts after a while."""
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": server.bootstrap,
            "linger.ms": 0 if rate_bytes_s < 1e6 else LINGER_MS,
            "batch.size": 262_144,
            "acks": "all",
        }
    )
    took: list[float] = []
    body = bytes(size)

    def sent(begun: float) -> Any:
        def done(error: Any, _: Any) -> None:
            assert error is None, error
            if counted_from is not None and begun > counted_from[0]:
                took.append(1000 * (time.perf_counter() - begun))

        return done

    begun = time.perf_counter()
    counted_from: tuple[float, int] | None = None
    number = 0
    while (passed := time.perf_counter() - begun) < seconds + steady_s:
        if counted_from is None and passed > steady_s:
            counted_from = time.perf_counter(), server.counted()["flushes"]
        while number * size < passed * rate_bytes_s:
            at = time.perf_counter()
            producer.produce(TOPIC, body, partition=number % PARTITIONS, on_delivery=sent(at))
            number += 1
        producer.poll(0.001)
    assert counted_from is not None
    since_s, flushes = counted_from
    flushes_s = (server.counted()["flushes"] - flushes) / (time.perf_counter() - since_s)
    producer.flush(60)
    return Run(took, flushes_s)


def variables_of(seaweedfs: SeaweedFS) -> Mapping[str, str]:
    """Return what a broker in another process is told of a store."""
    options = seaweedfs.options
    return {
        "AWS_ENDPOINT_URL": options["endpoint"],
        "AWS_ACCESS_KEY_ID": options["access_key_id"],
        "AWS_SECRET_ACCESS_KEY": options["secret_access_key"],
        "AWS_REGION": options.get("region", "us-east-1"),
    }


def steps_ms(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, float]:
    """Return where the time of a produce request went in the broker, on the average."""
    mean = {}
    for name in ("produce", "flush", "put"):
        (n0, s0), (n1, s1) = before["seconds"][name], after["seconds"][name]
        mean[name] = 1000 * (s1 - s0) / max(n1 - n0, 1)
    return {
        "until the flush begins": round(mean["produce"] - mean["flush"], 2),
        "the put": round(mean["put"], 2),
        "the rest of the flush": round(mean["flush"] - mean["put"], 2),
    }


def single(rounds: int, seconds: float, *, again: bool) -> dict[str, Any]:
    """Return p50 and p99 of single records on SeaweedFS, and where the time goes."""
    with running_seaweedfs() as seaweedfs:
        url = new_namespace(seaweedfs)
        with served("broker", url, variables=variables_of(seaweedfs)) as broker:
            create_topic(broker.bootstrap, TOPIC, PARTITIONS)
            produced(broker, 2_000, 100, 1.0)
            before = broker.counted()
            runs = undisturbed(lambda: produced(broker, 2_000, 100, seconds), rounds, again=again)
            steps = steps_ms(before, broker.counted())
    return {**told(runs), "in_the_broker_ms": steps}


def told(runs: Rounds[Run]) -> dict[str, Any]:
    """Return the medians of rounds."""
    took = [one.took_ms for one in runs.found]
    return {
        "p50_ms": round(statistics.median(quantile(one, 0.5) for one in took), 1),
        "p99_ms": round(statistics.median(quantile(one, 0.99) for one in took), 1),
        "bundles_s": round(statistics.median(one.flushes_s for one in runs.found), 2),
        "rounds": len(runs.found),
        "disturbed": runs.disturbed,
    }


def loaded(
    policy: str, rate_mb_s: int, rounds: int, seconds: float, *, again: bool
) -> dict[str, Any]:
    """Return p50 and p99 where a put takes 100 ms, and bundles a second."""
    arguments = ["broker", "memory:", str(PUT_MS)] + ([policy] if policy != "latency" else [])

    def measure() -> Run:
        with served(*arguments) as broker:
            create_topic(broker.bootstrap, TOPIC, PARTITIONS)
            size = 1_000 * min(rate_mb_s, 10)
            steady_s = BEGUN_S if policy == "latency" else STEADY_S
            return produced(broker, rate_mb_s * 1e6, size, seconds, steady_s)

    return told(undisturbed(measure, rounds, again=again))


def main() -> None:
    """Measure, and tell."""
    quick = arguments(__doc__).quick
    rounds, seconds = (1, 1.5) if quick else (5, 8.0)
    law = [sys.executable, "-m", "pytest", "-q", "tests/property/test_pace.py"]
    law_holds = subprocess.run(law, capture_output=True, check=False).returncode == 0
    alone = single(rounds, 2.0 if quick else seconds, again=not quick)
    print("latency, single records on SeaweedFS", alone, flush=True)
    found: dict[str, float] = {"single_p50_ms": alone["p50_ms"]}
    at: dict[int, dict[str, Any]] = {}
    for rate in (1, 10, 50):
        at[rate] = loaded("latency", rate, rounds, seconds, again=not quick)
        found[f"p99_ms_at_{rate}"] = at[rate]["p99_ms"]
        print(f"latency, {rate} MB/s, puts of {PUT_MS} ms", at[rate], flush=True)
    balanced = loaded("balanced", 10, rounds, 2.0 if quick else 12.0, again=not quick)
    found["balanced_p99_ms"] = balanced["p99_ms"]
    before_s = OLD_FLUSHES_S * LANES
    found["balanced_puts_over_before"] = round(balanced["bundles_s"] / before_s, 3)
    print("balanced, 10 MB/s", balanced, "bundles a second before:", before_s, flush=True)
    hours = 1 / 6 if quick else 2.0
    quiet = Load(hours=hours, brokers=3, partitions=4 if quick else 12)
    little = Load(hours=hours, bytes_s=100_000, request_bytes=100_000, policy=FlushPolicy.COST)
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:  # On clocks of their own.
        cheap, silent = pool.map(count, (little, quiet))
    found["cost_usd_a_day"] = round(cheap.usd_a_day(), 3)
    waits = {"p50_ms": round(cheap.wait_ms(0.5)), "p99_ms": round(cheap.wait_ms(0.99))}
    print("cost, 100 kB/s", found["cost_usd_a_day"], "dollars a day,", waits, flush=True)
    found["silence_usd_a_day"] = round(silent.usd_a_day(), 3)
    beats = round(silent.usd_a_day("members"), 3)
    print("silence", found["silence_usd_a_day"], "dollars a day, beats", beats, flush=True)
    room = {name: round(bar / max(found[name], 1e-9), 2) for name, bar in BARS.items()}
    closing_line(
        name="flush",
        value=min(room.values()) if law_holds else 0.0,
        bar=1.0,
        unit="the least of the bars over what was measured",
        law_holds=law_holds,
        found=found,
        bars=BARS,
        single=alone,
        cost_waits=waits,
        silence_beats_usd=beats,
    )


if __name__ == "__main__":
    main()
