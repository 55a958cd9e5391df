"""A broker on a disk that loses its power every few seconds, and with it all that was not synced.

The disk is a file system of its own (``parts/forgetful_fs``): at a cut every process is killed, and
what was not synced is lost or kept by chance, byte ranges and names each by themselves. Now and
then an fsync fails, too, and the broker ends. Two idempotent producers and a plain one send all the
while. At the end everything that was acknowledged is there, where its producer was told; what the
idempotent ones sent is there once, and in order; and the namespace is good.

``LAKELOG_POWER_CUTS`` says how many cuts.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random  # noqa: TID251 (seeded)

import pytest

from lakelog.catalog import make_namespace
from lakelog.host import THIS_HOST, new_id
from lakelog.model import Rules
from lakelog.pipeline import run_here
from lakelog.pipeline.fsck import VerifyNamespace
from lakelog.store import StoreSpec, run, working
from tests.e2e.broker.traffic import Sender, create_topic, read_assigned, sending
from tests.e2e.broker.truth import check_acked, check_order, read_stored
from tests.parts.forgetful_fs import ForgetfulFs, forgetful_fs
from tests.parts.lakelog import Lakelog, running_lakelog
from tests.parts.process import FailedPartError
from tests.patience import in_time

CUTS = int(os.environ.get("LAKELOG_POWER_CUTS", "4"))  # noqa: TID251
PARTITIONS = 4
RATE = 100
"""Records of each producer in a second."""

FAILING = 0.0005
"""How often an fsync fails: once in a few seconds."""

STARTS_MAX = 8
"""A start takes some two hundred syncs, so about one in ten fails."""

ENDED = "ended with status 74"
RULES = Rules(lanes=2, grace_ms=1_000, checkpoint_every=8)
ARGUMENTS = ("--flush-interval-ms", "5", "--keep-every", "1")


@contextmanager
def sent_to(broker: Lakelog) -> Iterator[list[Sender]]:
    create_topic(broker.bootstrap, "t", PARTITIONS)
    senders = [
        Sender(
            number,
            broker.bootstrap,
            "t",
            partitions=PARTITIONS,
            records=RATE * 60 * (CUTS + 10),
            rate=RATE,
            request_timeout_ms=2_000,
            idempotent=number < 2,
        )
        for number in range(3)
    ]
    with sending(senders):
        yield senders


def cut_power(disk: ForgetfulFs, broker: Lakelog) -> int:
    """Cut the power and start again; return how often that was, since a start may fail as well."""
    count = 0
    while True:
        broker.kill()
        disk.cut_power()
        count += 1
        try:
            broker.start()
        except FailedPartError as error:
            if ENDED not in str(error) or count == STARTS_MAX:
                raise
        else:
            return count


def live(broker: Lakelog, senders: list[Sender], for_s: float) -> bool:
    """Let a broker live until somebody was answered, and longer; say whether it still does."""
    acked, end = sum(sender.acked for sender in senders), time.monotonic() + 60
    while broker.is_running and sum(sender.acked for sender in senders) == acked:
        in_time(time.monotonic() < end, "nobody is answered any more")
        time.sleep(0.01)  # noqa: TID251 (for other threads)
    time.sleep(for_s)  # noqa: TID251 (a life)
    return broker.is_running


@pytest.mark.timeout(120 + 20 * CUTS)
def test_files_of_the_disk_are_cut_by_their_handle_and_by_their_name() -> None:
    """What recovers a log does the one, and FUSE makes them two requests."""
    with forgetful_fs(seed=1) as disk:
        path = disk.folder / "file"
        path.write_bytes(b"whole|half")
        with path.open("r+b") as file:
            file.truncate(6)
        assert path.read_bytes() == b"whole|"
        os.truncate(path, 5)
        assert path.read_bytes() == b"whole"


def test_what_was_acknowledged_survives_every_power_cut() -> None:
    chance, cuts, failed = Random(CUTS), 0, 0
    with forgetful_fs(seed=CUTS, failing=FAILING) as disk:
        place = StoreSpec(f"file://{disk.folder}/log")
        run(make_namespace(new_id(), RULES), working(place.open().perform))
        with running_lakelog(place.url, None, ARGUMENTS) as broker, sent_to(broker) as senders:
            with disk.failing():
                while cuts < CUTS:
                    is_alive = live(broker, senders, chance.uniform(0.2, 2.0))
                    failed += not is_alive
                    if is_alive and chance.random() < 0.3:
                        # What this one left unsynced the next one meets, and then loses its power.
                        broker.kill()
                        broker.launch()
                        time.sleep(chance.uniform(1.0, 3.0))  # noqa: TID251 (a short life)
                    cuts += cut_power(disk, broker)
            cut_power(disk, broker)
            for sender in senders:
                sender.finish()
            check(broker, place, senders)
            told = f"{cuts + 1} cuts, {failed} failed syncs"
            print(f"\n{told}, {sum(sender.acked for sender in senders)} records")  # noqa: T201


def check(broker: Lakelog, place: StoreSpec, senders: list[Sender]) -> None:
    for sender in senders:
        assert not sender.errors, sender.errors
        assert sender.acked == sender.records
    log = read_stored(place.url, {}, "t")
    check_acked(log, senders)
    once = [sender for sender in senders if sender.idempotent]
    numbers = {sender.number for sender in once}
    check_order({at: [row for row in log[at] if row[0] in numbers] for at in log}, once)
    assert read_assigned(broker.bootstrap, "t", PARTITIONS) == log
    report = run_here(VerifyNamespace(host=THIS_HOST, source=place))
    assert report.is_good, report.table.to_pylist()
