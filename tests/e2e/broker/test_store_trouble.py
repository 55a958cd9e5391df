"""A store in trouble: three of ten requests fail, then it takes everything and answers nothing.

    calm -> 30 % errors -> calm -> freeze, and a flood of producers -> calm
                                                                    |  the rate is back soon

Idempotent producers send all the while. They are told of no error, because none of this is final;
nothing is lost or there twice. The flood is more than the broker may hold in memory.
"""

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack

import pytest
from confluent_kafka import KafkaError, Message, Producer

from lakelog.host import new_id
from tests.e2e.broker.readings import metric, rss_bytes
from tests.e2e.broker.traffic import Sender, Watcher, create_topic, sending
from tests.e2e.broker.truth import check_everything
from tests.parts.flaky_proxy import BY_CHANCE, Trouble, running_flaky_proxy
from tests.parts.lakelog import Lakelog, running_lakelog
from tests.parts.seaweedfs import SeaweedFS
from tests.patience import in_time

SECONDS = float(os.environ.get("LAKELOG_TROUBLE_SECONDS", "10"))  # noqa: TID251
"""Of each trouble."""

PRODUCERS = 3
PARTITIONS = 6
RATE = 3_000
"""Records of all producers in a second."""

CALM_S = 3.0
BACK_S = 10.0
"""How soon the rate must be back."""
BACK_SHARE = 0.9

MEMORY_BYTES = CACHE_BYTES = 32 << 20
OVERHEAD_BYTES = 64 << 20
"""Beside the budgets and what an idle broker takes: a bundle on its way is there once more inside
the store's library, and a connection may have the request that it is sending."""

FLOODERS, FLOOD_BYTES = 16, 5 << 20
"""More than the budget, in requests of up to a megabyte."""


class Sampler:
    """Looks at the number of acknowledged records and at the broker's memory, all the time."""

    EVERY_S = 0.1

    def __init__(self, broker: Lakelog, acked: Callable[[], int]) -> None:
        self._broker, self._acked = broker, acked
        self.acked: list[tuple[float, int]] = []
        self.rss_bytes_max = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler")
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self.EVERY_S):
            self.acked.append((time.monotonic(), self._acked()))
            self.rss_bytes_max = max(self.rss_bytes_max, rss_bytes(self._broker))

    def rate(self, start: float, end: float) -> float:
        """Return the acknowledged records in a second, between two moments."""
        some = [row for row in self.acked if start <= row[0] <= end]
        if len(some) < 2:
            return 0.0  # The machine was so busy that nobody looked: this tells of no rate.
        return (some[-1][1] - some[0][1]) / (some[-1][0] - some[0][0])

    def back_after(self, healed: float, rate: float) -> float:
        """Return after how many seconds so many were acknowledged in each second again."""
        moments = [moment for moment, _ in self.acked if moment >= healed]
        for moment in moments:
            if moment + 1 < moments[-1] and self.rate(moment, moment + 1) >= rate:
                return moment - healed
        return float("inf")


class Flood:
    """Producers that push as much as they are let, with acks but without identities."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.errors: Counter[str] = Counter()
        settings = {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "acks": 1,
            "linger.ms": 5,
            "request.timeout.ms": 120_000,
            "message.timeout.ms": 300_000,
        }
        self._producers = [Producer(settings) for _ in range(FLOODERS)]
        record = bytes(500_000)
        for producer in self._producers:
            for _ in range(FLOOD_BYTES // len(record)):
                producer.produce(topic, record, on_delivery=self._delivered)

    def wait(self) -> None:
        for producer in self._producers:
            in_time(producer.flush(120) == 0, "some are not acknowledged")
        self._producers.clear()

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self.errors[error.name()] += 1


def wait_through(senders: Sequence[Sender], within_s: float) -> None:
    end = time.monotonic() + within_s
    while not all(sender.is_through for sender in senders):
        in_time(time.monotonic() < end, f"{[one.acked for one in senders]} acknowledged, no more")
        time.sleep(0.05)  # noqa: TID251 (for other threads)


@pytest.mark.seaweedfs
@pytest.mark.timeout(2 * SECONDS + 240)
def test_a_store_in_trouble_costs_time_and_nothing_else(seaweedfs: SeaweedFS) -> None:
    url = f"s3://{seaweedfs.bucket('trouble')}/{new_id().hex()}"
    arguments = ["--init", "--flush-interval-ms", "50", "--no-keep"]
    arguments += ["--memory-bytes", str(MEMORY_BYTES), "--cache-bytes", str(CACHE_BYTES)]
    with ExitStack() as stack:
        proxy = stack.enter_context(running_flaky_proxy(seaweedfs.endpoint))
        options = {**seaweedfs.options, "endpoint": proxy.endpoint}
        broker = stack.enter_context(running_lakelog(url, options, arguments))
        create_topic(broker.bootstrap, "t", PARTITIONS)
        create_topic(broker.bootstrap, "flood", PARTITIONS)
        idle_bytes = rss_bytes(broker)
        records = int(RATE * (2 * SECONDS + 3 * CALM_S)) // PRODUCERS
        senders = [
            Sender(
                number,
                broker.bootstrap,
                "t",
                partitions=PARTITIONS,
                records=records,
                rate=RATE / PRODUCERS,
                request_timeout_ms=4_000,
            )
            for number in range(PRODUCERS)
        ]
        watcher = Watcher(broker.bootstrap, "t", "watchers")
        stack.callback(watcher.stop)
        sampler = Sampler(broker, lambda: sum(one.acked for one in senders))
        stack.callback(sampler.stop)
        with sending(senders):
            time.sleep(1 + CALM_S)  # noqa: TID251 (here and below: the story itself)
            calm = sampler.rate(time.monotonic() - CALM_S, time.monotonic())
            in_time(calm > 0, "nothing was sent")
            proxy.tally()
            proxy.fail(0.3)
            time.sleep(SECONDS)  # noqa: TID251
            proxy.heal()
            healed_errors, troubles = time.monotonic(), proxy.tally().troubles
            time.sleep(CALM_S)  # noqa: TID251
            proxy.freeze()
            frozen = time.monotonic()
            flood = Flood(broker.bootstrap, "flood")
            time.sleep(SECONDS)  # noqa: TID251
            stuck = sampler.rate(frozen + 1, time.monotonic())
            held_bytes = metric(broker, "lakelog_budget_bytes")
            proxy.heal()
            healed = time.monotonic()
            wait_through(senders, BACK_S + 60)
        flood.wait()
        back = [sampler.back_after(one, BACK_SHARE * calm) for one in (healed_errors, healed)]
        print(  # noqa: T201 (what -s shows)
            f"\n{calm:.0f} records/s before, back after {back[0]:.1f} and {back[1]:.1f} s; "
            f"{idle_bytes >> 20} MiB idle, {sampler.rss_bytes_max >> 20} MiB at most; "
            f"{ {one.value: count for one, count in troubles.items()} }"
        )
        in_time(all(troubles[one] for one in BY_CHANCE), "not every trouble has happened")
        failed = 1 - troubles[Trouble.NONE] / troubles.total()
        in_time(0.2 < failed < 0.4, troubles)
        in_time(stuck == 0, "answers from before the freeze came a second later")
        # All of them are one address, which may have half of the memory for requests.
        in_time(held_bytes >= MEMORY_BYTES // 2, "the flood was none")
        assert not flood.errors, flood.errors
        check_everything(broker.bootstrap, url, seaweedfs.options, "t", senders, watcher)
        in_time(max(back) <= BACK_S, back)
        budget = idle_bytes + MEMORY_BYTES + CACHE_BYTES + OVERHEAD_BYTES
        assert sampler.rss_bytes_max < budget
