"""Brokers of one machine: what two workers do over one, and what more brokers ask of the store.

workers    a broker, and `--workers 2`, take turns under the same load: 64 connections, batches of
           10 KB, ten in flight, a folder in memory, flushes of 25 ms. MB a second, and CPU seconds
           for a GB, of the client and of the brokers apart. On a machine of two cores the client
           has one of them, so two workers have little more processor than one and cannot be twice
           as fast: what counts is that they cost no more. A core more is then a worker more.
requests   1, 2 and 4 brokers with the same lanes under the same load, 16 MB a second, flushes of
           250 ms: requests to the store for a GB, by their kinds. Bundles depend on lanes, not on
           brokers. What is added are beats and lists. The short form leaves 2 out.

The bars are ours: nobody has set any. Processes that shared lanes behind one port reached half the
throughput for twice the CPU, and that must not come back: 0.75 of the throughput of one broker at
least, 1.4 times its CPU seconds for a GB at most, and 1.25 times the requests with 4 brokers.
Sides take turns; ratios are medians over rounds. The value is the least of what is left to a bar.
A machine on which others work as well flatters two workers: they get a larger part of it than one.
"""

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.measure import arguments, closing_line
from lakelog.catalog import make_namespace
from lakelog.host import new_id
from lakelog.model import Rules
from lakelog.store import open_store, run, working
from tests.parts.lakelog import Lakelog
from tests.unit.cli.making import run as lakelog

TOPIC, LANES, PARTITIONS = "load", 8, 32
BATCH_BYTES, CONNECTIONS, IN_FLIGHT = 10_000, 64, 10
FLUSH_MS, PACED_FLUSH_MS = 25, 250
PACED_BYTES, PACED_CONNECTIONS, EVERY_S = 250_000, 32, 0.5
"""16 MB a second."""
BARS = {"throughput": 0.75, "cpu": 1.4, "requests": 1.25}
GB = 1e9
KNOWN_S = 60.0
REQUESTS = re.compile(r"^lakelog_store_requests_total\{(.*)\} (\S+)$", re.MULTILINE)


class Machine:
    """Some brokers of one `lakelog serve`, and a topic of which each of them leads a part."""

    def __init__(self, stack: ExitStack, home: Path, brokers: int, flush_ms: int) -> None:
        self.brokers = brokers
        home.mkdir()
        storage = f"file://{home}/log"
        run(make_namespace(new_id(), Rules(lanes=LANES)), working(open_store(storage).perform))
        given = ["--no-keep", "--flush-interval-ms", str(flush_ms)]
        self._served = Lakelog(home, storage, arguments=given, workers=brokers)
        stack.callback(self._served.stop)
        self._served.launch()

    def wait(self) -> None:
        """Wait until all serve and every lane is where it should be; make the topic."""
        self._served.wait()
        given = ("--storage", self._served.storage, "--brokers", str(self.brokers))
        deadline = time.monotonic() + KNOWN_S
        while (shown := lakelog("cluster", "moves", *given)).exit_code:
            assert time.monotonic() < deadline, f"not all of them lead: {shown.output}"
            time.sleep(0.2)
        admin = AdminClient({"bootstrap.servers": self._served.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(30)
        told = admin.list_topics(TOPIC, timeout=30)
        leaders = {one.id: one.leader for one in told.topics[TOPIC].partitions.values()}
        self.ports = [told.brokers[leaders[at]].port for at in range(PARTITIONS)]

    def cpu_s(self) -> float:
        """Return the CPU seconds of all its processes."""
        return sum(map(_cpu_s, [self._served.pid, *self._served.worker_pids().values()]))

    def requests(self) -> Counter[str]:
        """Return how many requests the store was sent, by their kinds."""
        found: Counter[str] = Counter()
        for labels, count in REQUESTS.findall(self._served.get("/metrics")[1]):
            found[re.findall(r'op="(\w+)"', labels)[0]] += int(float(count))
        return found

    def load(self, size: int, connections: int, in_flight: int, *how: float) -> dict[str, float]:
        """Return what a client that is a process of its own has reached."""
        command = [sys.executable, "-m", "benchmarks.load", ",".join(map(str, self.ports)), TOPIC]
        command += map(str, (PARTITIONS, size, connections, in_flight, *how))
        before = self.cpu_s()
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
        assert not figures["errors"], f"a partition has moved meanwhile: {figures}"
        gb = figures["bytes"] / GB
        figures["broker_cpu_s_gb"] = (self.cpu_s() - before) / gb
        figures["client_cpu_s_gb"] = figures["cpu_s"] / gb
        return figures


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def workers(one: Machine, two: Machine, rounds: int, seconds: float) -> dict[str, Any]:
    """Return what two workers reach, and what one does."""
    pairs: list[tuple[dict[str, float], dict[str, float]]] = []
    for turn in range(rounds + 1):
        sides = (one, two) if turn % 2 else (two, one)
        found = {
            side.brokers: side.load(BATCH_BYTES, CONNECTIONS, IN_FLIGHT, seconds) for side in sides
        }
        if turn:  # The first one warms up.
            pairs.append((found[1], found[2]))

    def median(key: str, side: int) -> float:
        return round(statistics.median(pair[side][key] for pair in pairs), 2)

    def ratio(key: str) -> float:
        return round(statistics.median(b[key] / a[key] for a, b in pairs), 3)

    keys = ("mb_s", "broker_cpu_s_gb", "client_cpu_s_gb")
    return {
        "throughput": ratio("mb_s"),
        "cpu": ratio("broker_cpu_s_gb"),
        "one": {key: median(key, 0) for key in keys},
        "two": {key: median(key, 1) for key in keys},
    }


def requests(machine: Machine, seconds: float) -> dict[str, int]:
    """Return the requests to the store for a GB, by their kinds."""
    before = machine.requests()
    done = machine.load(PACED_BYTES, PACED_CONNECTIONS, 1, seconds, EVERY_S)
    spent = machine.requests() - before
    rows = {kind: round(count * GB / done["bytes"]) for kind, count in sorted(spent.items())}
    return {**rows, "all": sum(rows.values()), "mb_s": round(done["mb_s"])}


def main() -> None:
    quick = arguments(__doc__).quick
    rounds, seconds, paced_s = (2, 1.5, 3.0) if quick else (9, 4.0, 30.0)
    brokers = (1, 4) if quick else (1, 2, 4)
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=memory)))
        fast = [Machine(stack, home / f"fast-{count}", count, FLUSH_MS) for count in (1, 2)]
        for one in fast:
            one.wait()
        figures = workers(fast[0], fast[1], rounds, seconds)
        print(json.dumps({"workers": figures}), flush=True)
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=memory)))
        slow = [Machine(stack, home / f"slow-{count}", count, PACED_FLUSH_MS) for count in brokers]
        for one in slow:
            one.wait()
        asked = {one.brokers: requests(one, paced_s) for one in slow}
        print(json.dumps({"requests_per_gb": asked}), flush=True)
    more = round(asked[4]["all"] / asked[1]["all"], 3)
    left = {
        "throughput": figures["throughput"] / BARS["throughput"],
        "cpu": BARS["cpu"] / figures["cpu"],
        "requests": BARS["requests"] / more,
    }
    closing_line(
        name="cluster",
        value=min(left.values()),
        bar=1,
        unit="the least of what is left to its bar",
        bars=BARS,
        throughput_of_two_over_one=figures["throughput"],
        broker_cpu_of_two_over_one=figures["cpu"],
        requests_of_four_over_one=more,
        one=figures["one"],
        two=figures["two"],
        requests_per_gb=asked,
    )


if __name__ == "__main__":
    main()
