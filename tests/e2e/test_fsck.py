"""verify on a namespace that lives: no alarm while it is used, and no damage without its name.

The first story runs on files and on SeaweedFS. A real broker takes records, its keeper seals, trims
and sweeps every second with a grace of a second, records expire and are deleted, a topic comes and
goes; and a verify runs again and again.

The second takes what is left of such a life, and damages one object at a time.
``LAKELOG_FSCK_SECONDS``, ``LAKELOG_FSCK_DAMAGES`` and ``LAKELOG_FSCK_BYTES`` say how long, how
often and how large.
"""

import os
import threading
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from random import Random  # noqa: TID251 (seeded)
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from lakelog.catalog import make_namespace, open_namespace
from lakelog.errors import LakelogError
from lakelog.host import THIS_HOST, SystemClock, new_id
from lakelog.journal import Lane
from lakelog.maintenance import SealSettings, maintain
from lakelog.model import Rules
from lakelog.pipeline import Report, run_here
from lakelog.pipeline.fsck import ReindexNamespace, VerifyNamespace
from lakelog.store import StoreSpec, retrying, run, working
from tests.parts.lakelog import Lakelog, running_lakelog
from tests.patience import in_time
from tests.unit.pipeline.damages import Objects, draw, excuse, kind_of, kinds, logs

if TYPE_CHECKING:
    from tests.parts.seaweedfs import SeaweedFS

SECONDS = float(os.environ.get("LAKELOG_FSCK_SECONDS", "15"))  # noqa: TID251
DAMAGES = int(os.environ.get("LAKELOG_FSCK_DAMAGES", "30"))  # noqa: TID251
BYTES = int(os.environ.get("LAKELOG_FSCK_BYTES", str(64 << 20)))  # noqa: TID251
RULES = Rules(lanes=3, grace_ms=1_000, checkpoint_every=8)
KEEPING = ("--keep-every", "1")


@pytest.fixture(params=["files", "seaweedfs"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> StoreSpec:
    if request.param == "files":
        return StoreSpec(f"file://{tmp_path}/log")
    seaweedfs: SeaweedFS = request.getfixturevalue("seaweedfs")
    return StoreSpec(f"s3://{seaweedfs.bucket('fsck')}/log", seaweedfs.options)


def perform_at(place: StoreSpec) -> Any:
    return working(retrying(place.open().perform))


def serve(place: StoreSpec) -> Any:
    run(make_namespace(new_id(), RULES), perform_at(place))
    return running_lakelog(place.url, place.options, KEEPING)


def verify(place: StoreSpec) -> Report:
    return run_here(VerifyNamespace(host=THIS_HOST, source=place))


def bad(report: Report) -> list[dict[str, Any]]:
    return [
        finding
        for row in report.table.to_pylist()
        if row["outcome"] == "damaged"
        for finding in row["findings"]
    ]


# ---------------------------------------------------------------------------- a life


class Life:
    """What goes on in a namespace, in threads, until it is over."""

    def __init__(self, broker: Lakelog) -> None:
        self._settings = {"bootstrap.servers": broker.bootstrap, "log_level": 0}
        self._over = threading.Event()
        self._admin = AdminClient(self._settings)
        self.sent = 0
        self.done: Counter[str] = Counter()
        self.create("orders", 4)
        self.create("brief", 2, **{"retention.ms": "1000"})
        self.create("again", 1)
        self._threads = [
            threading.Thread(target=target) for target in (self._produce, self._change)
        ]

    def create(self, name: str, partitions: int, **configs: str) -> None:
        new = NewTopic(name, partitions, 1, config=configs)
        _settle(self._admin.create_topics([new]))

    def __enter__(self) -> "Life":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _produce(self) -> None:
        producer = Producer({**self._settings, "linger.ms": 5, "enable.idempotence": True})
        while not self._over.is_set():
            for topic in ("orders", "brief", "again"):
                for _ in range(20):
                    producer.produce(topic, b"%09d" % self.sent * 20, key=b"%d" % (self.sent % 9))
                    self.sent += 1
            producer.poll(0.02)
        producer.flush(20)

    def _change(self) -> None:
        consumer = Consumer(
            {**self._settings, "group.id": "readers", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe(["orders"])
        while not self._over.wait(0.2):
            for message in consumer.consume(500, 0.2):
                self.done["read"] += message.error() is None
            self._delete_records(consumer)
            self._renew()
        consumer.close()

    def _delete_records(self, consumer: Consumer) -> None:
        _, end = consumer.get_watermark_offsets(TopicPartition("orders", 1), 5)
        _settle(self._admin.delete_records([TopicPartition("orders", 1, end // 2)]))
        self.done["deleted"] += 1

    def _renew(self) -> None:
        """Every other time the topic goes, and then it comes again."""
        self.done["renewed"] += 1
        if self.done["renewed"] % 8 == 4:
            _settle(self._admin.delete_topics(["again"]))
        elif self.done["renewed"] % 8 == 0:
            self.create("again", 1)


def _settle(futures: Mapping[Any, Future[Any]]) -> None:
    for future in futures.values():
        with suppress(KafkaException):  # A topic that is just going, or coming.
            future.result(20)


def test_a_namespace_that_is_used_gives_no_alarm(place: StoreSpec) -> None:
    seen: Counter[str] = Counter()
    runs = 0
    with serve(place) as broker, Life(broker) as life:
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            report = verify(place)
            assert bad(report) == []
            assert report.is_good
            seen.update(report.outcomes)
            runs += 1
    in_time(life.sent > 1000, life.sent)
    report = verify(place)
    assert report.is_good
    assert report.records > 0
    in_time(runs >= 3, runs)
    in_time(seen["good"] > 100, seen)


# ---------------------------------------------------------------------------- damage


@pytest.fixture(scope="module")
def remains(tmp_path_factory: pytest.TempPathFactory) -> StoreSpec:
    """A namespace that nobody uses any more: most of it is sealed, and some is not."""
    place = StoreSpec(str(tmp_path_factory.mktemp("remains") / "log"))
    with serve(place) as broker, Life(broker):
        _send(broker, BYTES)
    _keep(place)
    return place


def _send(broker: Lakelog, size: int) -> None:
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "batch.size": 200_000, "linger.ms": 50}
    )
    body = Random(7).randbytes(4096)  # Of which nobody makes less.
    for number in range(size // len(body)):
        if not number % 256:
            producer.poll(0.05)
            producer.flush(30)
        producer.produce("orders", b"%08d" % number + body[8:], partition=number % 4)
    in_time(producer.flush(60) == 0, "some are not acknowledged")


def _keep(place: StoreSpec) -> None:
    perform = perform_at(place)
    rules = run(open_namespace(), perform).rules
    lanes = {
        number: Lane(number=number, rules=rules, clock=SystemClock(), ids=new_id, writer=new_id())
        for number in range(rules.lanes)
    }
    kept = run(maintain(lanes, SealSettings(segment_bytes=4 << 20)), perform)
    assert not kept.failures


def _objects(place: StoreSpec) -> Objects:
    root = Path(place.url)
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and ".lakelog-staging" not in path.parts
    }


def _put(place: StoreSpec, keys: tuple[str, ...], objects: Objects) -> None:
    for key in keys:
        path = Path(place.url, key)
        if key in objects:
            path.write_bytes(objects[key])
        else:
            path.unlink()


def test_every_damage_has_its_name(remains: StoreSpec) -> None:
    before = _objects(remains)
    assert verify(remains).is_good
    assert sum(map(len, before.values())) > BYTES // 2
    random = Random(11)
    passed: Counter[str] = Counter()
    for _ in range(DAMAGES):
        damage = draw(random, before)
        _put(remains, damage.keys, damage.objects)
        report = verify(remains)
        told = {one.object for one in report.findings(10_000)}
        for key in damage.keys:
            why = "named" if key in told else excuse(damage, before, key)
            if not why and kind_of(key) == "head":
                why = _still_reads(remains, damage.keys, before)
            assert why, f"{damage}: {key} was not named, but {sorted(told)}"
            passed[why] += 1
        _put(remains, damage.keys, before)
    assert verify(remains).is_good
    assert passed["named"] > DAMAGES // 2


def _still_reads(place: StoreSpec, keys: tuple[str, ...], before: Objects) -> str:
    try:
        now = run(logs(), perform_at(place))
    except LakelogError:
        return ""
    _put(place, keys, before)
    return "it reads the same" if now == run(logs(), perform_at(place)) else ""


def test_lost_indexes_are_made_again_byte_for_byte(remains: StoreSpec) -> None:
    before = _objects(remains)
    found = kinds(before)
    lost = (*found[".index"], *found[".timeindex"])
    # How many segments there are depends on the pace of the machine; that every partition of orders
    # has some does not.
    assert {key.rsplit("/", 1)[0] for key in lost} >= {
        f"orders/{partition}" for partition in range(4)
    }
    _put(remains, lost, {})
    assert set(verify(remains).outcomes) >= {"unindexed"}
    report = run_here(ReindexNamespace(source=remains))
    assert report.outcomes["rebuilt"] == len(lost) // 2
    assert {key: body for key, body in _objects(remains).items() if key in lost} == {
        key: before[key] for key in lost
    }
