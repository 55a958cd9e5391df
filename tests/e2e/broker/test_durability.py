"""A broker that is killed every few seconds, asked to stop, or stopped for a while, on SeaweedFS.

Three idempotent producers send all the while, and a group reads. At the end everything that was
sent is there, once, in order, for a client that knows nothing and for whoever reads the store.
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random  # noqa: TID251 (seeded)

import pytest

from lakelog.host import new_id
from tests.e2e.broker.traffic import Sender, Watcher, create_topic, sending
from tests.e2e.broker.truth import check_acked, check_everything, read_stored
from tests.parts.lakelog import Lakelog, running_lakelog
from tests.parts.seaweedfs import SeaweedFS
from tests.patience import in_time

RECORDS = int(os.environ.get("LAKELOG_DURABILITY_RECORDS", "50000"))  # noqa: TID251
PRODUCERS = 3
PARTITIONS = 6
RATE = 2_500 if RECORDS <= 100_000 else 10_000
"""Records of all producers in a second."""

ARGUMENTS = ("--init", "--flush-interval-ms", "50", "--keep-every", "10")

STOPPED_S = 20.0
EXIT_S_MAX = 5.0


@dataclass
class Stage:
    """A broker, and who talks to it."""

    broker: Lakelog
    topic: str
    senders: list[Sender]
    watcher: Watcher

    @property
    def is_through(self) -> bool:
        return all(sender.is_through for sender in self.senders)

    @property
    def acked(self) -> int:
        return sum(sender.acked for sender in self.senders)

    def wait(self, within_s: float) -> None:
        """Wait for the producers."""
        end = time.monotonic() + within_s
        while not self.is_through:
            in_time(time.monotonic() < end, f"{self.acked} acknowledged, and then nothing")
            time.sleep(0.05)  # noqa: TID251 (for other threads)

    def check(self) -> None:
        broker = self.broker
        check_everything(
            broker.bootstrap, broker.storage, broker.options, self.topic, self.senders, self.watcher
        )


@contextmanager
def staged(seaweedfs: SeaweedFS, records: int, rate: float) -> Iterator[Stage]:
    """Three producers of a topic and a group that reads it."""
    url = f"s3://{seaweedfs.bucket('durability')}/{new_id().hex()}"
    with running_lakelog(url, seaweedfs.options, ARGUMENTS) as broker:
        create_topic(broker.bootstrap, "t", PARTITIONS)
        each = dict.fromkeys(range(PRODUCERS), records // PRODUCERS)
        each[0] += records % PRODUCERS
        senders = [
            Sender(
                number,
                broker.bootstrap,
                "t",
                partitions=PARTITIONS,
                records=each[number],
                rate=rate / PRODUCERS,
            )
            for number in range(PRODUCERS)
        ]
        watcher = Watcher(broker.bootstrap, "t", "watchers")
        try:
            with sending(senders):
                yield Stage(broker, "t", senders, watcher)
        finally:
            watcher.stop()


@pytest.mark.seaweedfs
@pytest.mark.timeout(RECORDS / RATE * 4 + 240)
def test_nothing_is_lost_or_doubled_by_a_broker_that_is_killed(seaweedfs: SeaweedFS) -> None:
    chance, kills = Random(RECORDS), 0
    with staged(seaweedfs, RECORDS, RATE) as stage:
        before = 0
        while not stage.is_through:
            time.sleep(chance.uniform(0.5, 2.0))  # noqa: TID251 (a life)
            if stage.acked == before:
                continue  # It gets to live until somebody has been answered.
            before = stage.acked
            stage.broker.kill()
            kills += 1
            stage.broker.start()
        stage.check()
        print(f"\n{RECORDS} records, {kills} kills, {stage.watcher.again} seen again")  # noqa: T201
    in_time(kills >= 3, kills)


@pytest.mark.seaweedfs
@pytest.mark.timeout(240)
def test_a_broker_that_is_asked_to_stop_answers_what_it_accepted(seaweedfs: SeaweedFS) -> None:
    with staged(seaweedfs, 15_000, 3_000) as stage:
        broker = stage.broker
        time.sleep(2)  # noqa: TID251 (some traffic)
        os.kill(broker.pid, signal.SIGTERM)
        began = time.monotonic()
        ended = os.waitid(os.P_PID, broker.pid, os.WEXITED | os.WNOWAIT)
        took_s = time.monotonic() - began
        assert ended is not None
        assert (ended.si_code, ended.si_status) == (os.CLD_EXITED, 0)
        in_time(took_s < EXIT_S_MAX, took_s)
        broker.stop()
        acked = check_acked(read_stored(broker.storage, broker.options, stage.topic), stage.senders)
        in_time(0 < acked < 15_000, acked)
        broker.start()
        stage.wait(60)
        stage.check()
        print(f"\nexit after {took_s:.2f} s, {acked} acknowledged by then")  # noqa: T201


@pytest.mark.seaweedfs
@pytest.mark.timeout(240)
def test_nothing_is_lost_or_doubled_by_a_broker_that_slept(seaweedfs: SeaweedFS) -> None:
    with staged(seaweedfs, 20_000, 2_000) as stage:
        time.sleep(2)  # noqa: TID251 (some traffic)
        stage.broker.signal(signal.SIGSTOP)
        time.sleep(STOPPED_S)  # noqa: TID251 (the story itself)
        before = stage.acked
        stage.broker.signal(signal.SIGCONT)
        stage.wait(60)
        assert before < 20_000
        stage.check()
