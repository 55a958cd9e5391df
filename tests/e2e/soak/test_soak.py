"""A broker under a steady load for as long as one wants, on a store that fails 5 % of the time.

    load (a process) --2,000 requests/s--> broker (a process) --> flaky proxy --> SeaweedFS
                                              |  seals and retains, as it does unasked
    here: its memory, once a second

Whatever is wrong only after a long time shows here: memory that grows, a task that died and was
never missed, a request that nobody answers. ``make soak`` runs an hour; LAKELOG_SOAK_SECONDS says
how long. Memory is judged only where there was time enough for it to become flat.

The first quarter is left out: caches fill in it, and code is loaded. Of the rest:

    a leak   goes on all the time: the median growth of five minutes may be 1 % of what the broker
             may use, in an hour
    a step   a machine that others use, too, stands still for a second, requests pile up, and the
             memory for them stays with the process: all of them together may be 5 % of it

So that there are few steps, the broker is stopped for a while early in a run that is judged: what
requests need that pile up it has mostly needed by then. They are answered all the same. The slope
of a line through all samples is printed as well.
"""

import json
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from bisect import bisect_left
from contextlib import ExitStack

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from lakelog.broker import Limits
from lakelog.host import new_id
from tests.e2e.broker.readings import metrics, rss_bytes
from tests.e2e.soak.load import PARTITIONS, PATIENCE_S, TOPIC
from tests.parts.flaky_proxy import Trouble, running_flaky_proxy
from tests.parts.lakelog import Lakelog, running_lakelog
from tests.parts.process import mortal
from tests.parts.seaweedfs import SeaweedFS
from tests.patience import in_time

SECONDS = float(os.environ.get("LAKELOG_SOAK_SECONDS", "15"))  # noqa: TID251
RATE = float(os.environ.get("LAKELOG_SOAK_RATE", "2000"))  # noqa: TID251
"""Requests in a second."""
RATE_SHARE = 0.99
"""How much of it must be reached: the client may be late by a tick."""

FAILING = 0.05
"""The part of requests to the store that fail."""

JUDGED_S = 1800.0
"""A run shorter than this tells nothing of memory."""

STOPPED_AT_S, STOPPED_S = 60.0, 10.0
"""When the broker is stopped in a run that is judged, and for how long."""

MEMORY_BYTES, CACHE_BYTES = 64 << 20, 16 << 20
BUDGET_BYTES = MEMORY_BYTES + CACHE_BYTES + Limits().answer_bytes
SLOPE_BYTES_MAX = BUDGET_BYTES // 100
"""In an hour."""
GROWTH_BYTES_MAX = BUDGET_BYTES // 20
WINDOW_S = 300.0


class Sampler:
    """Notes the memory of a broker once a second, and says now and then how it goes."""

    TOLD_S = 60.0

    def __init__(self, broker: Lakelog) -> None:
        self._broker = broker
        self._begun = time.monotonic()
        self.samples: list[tuple[float, int]] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler")
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        told = self._begun
        while not self._stopped.wait(1.0):
            now = time.monotonic()
            self.samples.append((now - self._begun, rss_bytes(self._broker)))
            if now - told >= self.TOLD_S:
                told = now
                seconds, size = self.samples[-1]
                print(f"{seconds:5.0f} s: {size / (1 << 20):.1f} MiB", flush=True)  # noqa: T201

    def judged(self) -> list[tuple[float, int]]:
        """Return the samples without those of the first quarter."""
        last, _ = self.samples[-1]
        return [row for row in self.samples if row[0] >= last / 4]

    def slope(self) -> float:
        """Return by how many bytes it grows in an hour, by a line through all of them."""
        return statistics.linear_regression(*zip(*self.judged(), strict=True)).slope * 3600

    def leak(self) -> float:
        """Return by how many bytes it grows in an hour, by the median growth of five minutes."""
        rows = self.judged()
        ends = bisected(rows, WINDOW_S)
        grown = [(later[1] - row[1]) / (later[0] - row[0]) for row, later in ends]
        return statistics.median(grown) * 3600 if grown else 0.0

    def growth(self) -> int:
        """Return by how many bytes it has grown."""
        rows = self.judged()
        return max(size for _, size in rows) - rows[0][1]


Row = tuple[float, int]


def bisected(rows: list[Row], after_s: float) -> list[tuple[Row, Row]]:
    """Return each sample with the first one that is so much later."""
    times = [at for at, _ in rows]
    found = ((row, bisect_left(times, row[0] + after_s)) for row in rows)
    return [(row, rows[at]) for row, at in found if at < len(rows)]


@pytest.mark.alone
@pytest.mark.seaweedfs
@pytest.mark.timeout(SECONDS + PATIENCE_S + 240)
def test_a_broker_stays_as_it_is_however_long_it_works(seaweedfs: SeaweedFS) -> None:
    url = f"s3://{seaweedfs.bucket('soak')}/{new_id().hex()}"
    arguments = ["--init", "--memory-bytes", str(MEMORY_BYTES), "--cache-bytes", str(CACHE_BYTES)]
    with ExitStack() as stack:
        proxy = stack.enter_context(running_flaky_proxy(seaweedfs.endpoint))
        options = {**seaweedfs.options, "endpoint": proxy.endpoint}
        broker = stack.enter_context(running_lakelog(url, options, arguments))
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        kept = {"retention.ms": "600000"}
        made = admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1, config=kept)])
        made[TOPIC].result(timeout=60)
        proxy.tally()
        proxy.fail(FAILING)
        sampler = Sampler(broker)
        stack.callback(sampler.stop)
        port = broker.bootstrap.rpartition(":")[2]
        program = [sys.executable, "-m", "tests.e2e.soak.load", port, str(RATE), str(SECONDS)]
        ran = subprocess.Popen(
            mortal(program), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        stack.callback(ran.kill)
        if SECONDS >= JUDGED_S:
            _stop_for_a_while(broker)
        told, wrong = ran.communicate()
        assert ran.returncode == 0, wrong
        sampler.stop()
        proxy.heal()
        report, troubles = json.loads(told.splitlines()[-1]), proxy.tally().troubles
        said = metrics(broker)
        dead = {name: count for name, count in said.items() if _is_death(name) and count}
        stuck = broker.get("/readyz")
        ends = [line for line in broker.log.read_text().splitlines() if "connection closed" in line]
    failed = 1 - troubles[Trouble.NONE] / troubles.total()
    rate, slope = report["answered"] / report["seconds"], sampler.slope()
    leak, growth = sampler.leak(), sampler.growth()
    print(  # noqa: T201 (what -s shows)
        f"\n{report['seconds']:.0f} s: {report['answered']:,} requests, {rate:.0f} in a second, "
        f"{report['unanswered']} unanswered, {report['closed']} connections closed; "
        f"{failed:.1%} of {troubles.total():,} store requests failed; "
        f"{sum(dead.values()):.0f} tasks dead; memory {sampler.samples[-1][1] / (1 << 20):.1f} MiB"
        f" at the end, {leak / (1 << 20):+.2f} MiB/h in the median of five minutes "
        f"({SLOPE_BYTES_MAX / (1 << 20):.1f} allowed), {growth / (1 << 20):+.1f} MiB in all "
        f"({GROWTH_BYTES_MAX / (1 << 20):.1f}), {slope / (1 << 20):+.2f} MiB/h by a line"
        f"{'' if SECONDS >= JUDGED_S else ', not judged'}\n"
        f"p99 ms {report['p99_ms']}, most {report['most_ms']}\n"
        f"{ {name: int(n) for name, n in said.items() if _is_error(name)} }"
    )
    lost = report["unanswered"], report["closed"], report["wrong"]
    assert lost == (0, 0, 0), "\n".join([str(report), *ends[:20]])
    assert not dead, dead
    assert not report["produce_errors"], report
    assert stuck[0] == 200, stuck
    in_time(rate >= RATE_SHARE * RATE, f"{rate:.0f} requests in a second")
    in_time(FAILING / 2 < failed < 2 * FAILING, f"{failed:.1%} of the store's requests failed")
    if SECONDS >= JUDGED_S:
        assert leak <= SLOPE_BYTES_MAX, f"{leak / (1 << 20):.2f} MiB in an hour"
        assert growth <= GROWTH_BYTES_MAX, f"{growth / (1 << 20):.2f} MiB in all"


def _stop_for_a_while(broker: Lakelog) -> None:
    time.sleep(STOPPED_AT_S)  # noqa: TID251 (for so long all is as usual)
    broker.signal(signal.SIGSTOP)
    time.sleep(STOPPED_S)  # noqa: TID251
    broker.signal(signal.SIGCONT)


def _is_death(name: str) -> bool:
    return name.startswith(("lakelog_task_deaths_total", "lakelog_callback_failures_total"))


def _is_error(name: str) -> bool:
    return name.startswith("lakelog_requests_total") and 'error="NONE"' not in name
