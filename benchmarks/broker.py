"""The broker against a bare server, and against Apache Kafka.

raw      one process, a store in memory: requests a second of 1 KB batches, and bytes a second of
         100 KB batches, over those of a bare uvloop server that reads the same frames and answers a
         constant; 64 connections with 5 requests in flight each. Bars 0.4 and 0.6.
kafka    kafka-producer-perf-test (1 KB records, acks=all, batch.size 256 KiB) and
         kafka-consumer-perf-test, on local files, against one node of Apache Kafka on the same
         disk: as it comes, when it acknowledges from the page cache (bar 0.5), and with
         flush.messages=1 (a goal). CPU seconds per GB of both servers. Only in the full run.
latency  single records from one producer on a store whose puts take 100 ms longer: p50 and p99 of
         the acknowledgement (goal: p99 under 300 ms).

Sides take turns. The value is the least of the ratios over their bars.
"""

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.measure import arguments, closing_line
from tests.parts.jars import classpath
from tests.parts.jvm import java
from tests.parts.kafka import running_kafka

TOPIC = "load"
PARTITIONS = 16
BARS = {"requests": 0.4, "bytes": 0.6, "produce": 0.5, "consume": 0.5}
LATENCY_GOAL_MS = 300


class Server:
    """A server that runs: its port, the CPU time it has had, and what it has counted."""

    def __init__(self, port: int, process: "subprocess.Popen[str]") -> None:
        self.port = port
        self.pid = process.pid
        self._process = process

    def counted(self) -> dict[str, Any]:
        """Ask a broker what it has counted."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        figures: dict[str, Any] = json.loads(self._process.stdout.readline())
        return figures

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def cpu_s(self) -> float:
        return _cpu_s(self.pid)


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def served(*what: str, variables: Mapping[str, str] | None = None) -> Iterator[Server]:
    """Run one of ``benchmarks.served``."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.served", *what],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **(variables or {})},
    )
    try:
        assert process.stdout is not None
        yield Server(int(process.stdout.readline()), process)
    finally:
        process.terminate()
        process.communicate()


def create_topic(bootstrap: str, name: str, partitions: int, **configs: str) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap})
    dotted = {key.replace("_", "."): value for key, value in configs.items()}
    admin.create_topics([NewTopic(name, partitions, 1, config=dotted)])[name].result(30)


# ---------------------------------------------------------------------------- raw


def load(server: Server, size: int, seconds: float) -> dict[str, float]:
    """Return what one round of raw requests has reached."""
    command = [sys.executable, "-m", "benchmarks.load", str(server.port), TOPIC, str(PARTITIONS)]
    command += [str(size), "64", "5", str(seconds)]
    before = server.cpu_s()
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    assert not figures["errors"], figures
    figures["cpu_us"] = 1e6 * (server.cpu_s() - before) / (figures["requests_s"] * seconds)
    return figures


def raw(*, quick: bool) -> dict[str, Any]:
    rounds, seconds = (3, 1.5) if quick else (7, 4.0)
    figures: dict[str, Any] = {}
    with served("bare") as bare, served("broker", "memory:") as broker:
        create_topic(broker.bootstrap, TOPIC, PARTITIONS)
        for name, size, key in (("requests", 1_000, "requests_s"), ("bytes", 100_000, "mb_s")):
            pairs = []
            for turn in range(rounds):
                sides = [bare, broker] if turn % 2 else [broker, bare]
                found = {id(side): load(side, size, seconds) for side in sides}
                pairs.append((found[id(broker)], found[id(bare)]))
            figures[name] = {
                "ratio": round(statistics.median(a[key] / b[key] for a, b in pairs), 3),
                f"broker_{key}": round(statistics.median(a[key] for a, _ in pairs), 1),
                f"bare_{key}": round(statistics.median(b[key] for _, b in pairs), 1),
                "broker_cpu_us": round(statistics.median(a["cpu_us"] for a, _ in pairs), 1),
                "bare_cpu_us": round(statistics.median(b["cpu_us"] for _, b in pairs), 1),
            }
    return figures


# ---------------------------------------------------------------------------- kafka


def perf(tool: str, *args: str) -> str:
    """Run one of Kafka's own load tools, and return what it printed."""
    command = [java(), "-Xmx1g", "-cp", classpath(), f"org.apache.kafka.tools.{tool}", *args]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout


def produce_mb_s(bootstrap: str, topic: str, records: int) -> float:
    props = f"bootstrap.servers={bootstrap} acks=all batch.size=262144 linger.ms=5"
    out = perf(
        "ProducerPerformance", "--topic", topic, "--num-records", str(records),
        "--record-size", "1000", "--throughput", "-1", "--producer-props", *props.split(),
    )  # fmt: skip
    found = re.findall(r"\(([\d.]+) MB/sec\)", out)
    return float(found[-1])


def consume_mb_s(bootstrap: str, topic: str, records: int) -> float:
    out = perf(
        "ConsumerPerformance", "--bootstrap-server", bootstrap, "--topic", topic,
        "--num-records", str(records), "--hide-header", "--timeout", "60000",
    )  # fmt: skip
    fields = [field.strip() for field in out.strip().splitlines()[-1].split(",")]
    return float(fields[8])  # fetch.MB.sec: without the time of joining a group


def against_kafka(folder: Path, *, rounds: int, records: int) -> dict[str, Any]:
    (folder / "log").mkdir()
    with running_kafka() as kafka, served("broker", str(folder / "log")) as broker:
        process = kafka._process  # noqa: SLF001 (its CPU time is half of the figure)
        assert process is not None
        kafka_pid = process.pid
        sides = {"lakelog": (broker.bootstrap, broker.pid), "kafka": (kafka.bootstrap, kafka_pid)}
        sides["kafka_flushed"] = sides["kafka"]
        speeds: dict[str, dict[str, list[float]]] = {}
        cpu = dict.fromkeys(sides, 0.0)
        for turn in range(rounds + 1):
            for name in list(sides)[:: 1 if turn % 2 else -1]:
                bootstrap, pid = sides[name]
                topic = f"perf-{name.replace('_', '-')}-{turn}"
                extra = {"flush_messages": "1"} if name == "kafka_flushed" else {}
                create_topic(bootstrap, topic, 4, **extra)
                before = _cpu_s(pid)
                wrote = produce_mb_s(bootstrap, topic, records)
                read = consume_mb_s(bootstrap, topic, records)
                if turn:
                    both = speeds.setdefault(name, {"produce": [], "consume": []})
                    both["produce"].append(wrote)
                    both["consume"].append(read)
                    cpu[name] += _cpu_s(pid) - before
    gigabytes = 2 * rounds * records * 1000 / 1e9
    figures: dict[str, Any] = {}
    for what in ("produce", "consume"):
        medians = {name: statistics.median(both[what]) for name, both in speeds.items()}
        pairs = zip(speeds["lakelog"][what], speeds["kafka"][what], strict=True)
        slow = zip(speeds["lakelog"][what], speeds["kafka_flushed"][what], strict=True)
        figures[what] = {
            "ratio": round(statistics.median(a / b for a, b in pairs), 3),
            "ratio_to_flushed": round(statistics.median(a / b for a, b in slow), 3),
            "mb_s": {name: round(speed, 1) for name, speed in medians.items()},
        }
    figures["cpu_s_per_gb"] = {name: round(spent / gigabytes, 2) for name, spent in cpu.items()}
    return figures


# ---------------------------------------------------------------------------- latency


def latency(seconds: float) -> dict[str, float]:
    from confluent_kafka import Producer

    with served("broker", "memory:", "100") as broker:
        create_topic(broker.bootstrap, TOPIC, 4)
        producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0, "acks": "all"})
        took: list[float] = []

        def sent() -> Any:
            began = time.perf_counter()
            return lambda *_: took.append(1000 * (time.perf_counter() - began))

        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            producer.produce(TOPIC, b"v" * 100, on_delivery=sent())
            producer.poll(0.005)
        producer.flush(30)
    took.sort()
    return {
        "p50_ms": round(took[len(took) // 2], 1),
        "p99_ms": round(took[int(len(took) * 0.99)], 1),
        "goal_p99_ms": LATENCY_GOAL_MS,
        "records": len(took),
    }


def main() -> None:
    options = arguments(__doc__)
    figures = raw(quick=options.quick)
    if not options.quick:
        with tempfile.TemporaryDirectory(prefix="lakelog-broker-") as folder:
            figures |= against_kafka(Path(folder), rounds=3, records=300_000)
    figures["latency"] = latency(4.0 if options.quick else 15.0)
    parts = {name: figures[name]["ratio"] / bar for name, bar in BARS.items() if name in figures}
    closing_line(name="broker", value=min(parts.values()), bar=1.0, bars=BARS, **figures)


if __name__ == "__main__":
    main()
