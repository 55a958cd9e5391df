"""Three brokers whose members and groups are in a real etcd of three servers."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from lakelog.catalog import check_metadata
from lakelog.cli.running import open_log
from lakelog.errors import InvalidInputError, UnavailableError
from lakelog.names import BROKERS_PREFIX, GROUPS_PREFIX
from lakelog.store import ListPage, StoreSpec, run, working
from tests.cluster.history import Diary
from tests.cluster.load import PARTITIONS, TOPIC, Load, loaded
from tests.cluster.story import BOTH, new_namespace
from tests.e2e.cluster.test_cluster import await_service, led_by
from tests.parts.cluster import Cluster, running_cluster
from tests.parts.etcd import Etcd, running_etcd
from tests.parts.lakelog import Lakelog, running_lakelog
from tests.parts.seaweedfs import SeaweedFS

HEARTBEAT_MS = 300
ALL = list(range(PARTITIONS))


@contextmanager
def three(seaweedfs: SeaweedFS, home: Path) -> Iterator[tuple[Cluster, Load, Etcd]]:
    with running_etcd(3) as etcd:
        options = {**seaweedfs.options, "metadata": etcd.url("lake/tests")}
        with (
            running_cluster(
                new_namespace(seaweedfs), options, heartbeat_ms=HEARTBEAT_MS, home=home
            ) as cluster,
            loaded(cluster, home, kinds=BOTH, storage_options=options) as load,
        ):
            yield cluster, load, etcd


@pytest.mark.seaweedfs
def test_clients_go_on_while_brokers_and_servers_of_etcd_are_killed(
    seaweedfs: SeaweedFS, tmp_path: Path
) -> None:
    with three(seaweedfs, tmp_path) as (cluster, load, etcd):
        bucket = StoreSpec(cluster.storage, seaweedfs.options).open()
        for prefix in (BROKERS_PREFIX, GROUPS_PREFIX):
            assert not bucket.perform(ListPage(prefix)).objects, "nothing of it is in the bucket"

        lost, since = led_by(cluster, 2), Diary.now()
        cluster.kill(2)
        await_service(load, since, lost)
        cluster.start(2)
        cluster.wait_until_whole(TOPIC)
        for at in range(3):
            etcd.servers[at].kill()
            await_service(load, Diary.now(), ALL)
            etcd.start(at)
        cluster.stop(3)
        await_service(load, Diary.now(), ALL)

        # All of etcd is gone: what clients know of goes on.
        etcd.stop()
        await_service(load, Diary.now(), ALL)
        load.wait_until(lambda: False, 5)
        await_service(load, Diary.now(), ALL)
        etcd.start()
        since, commits = Diary.now(), len(load.tail().commits)
        load.wait_until(lambda: len(load.history.commits) > commits + 10, 60)
        cluster.start(3)
        cluster.wait_until_whole(TOPIC)

        found = load.finish(Diary.now())
        assert not found, found.shown()


@pytest.fixture(scope="module")
def etcd() -> Iterator[Etcd]:
    with running_etcd() as running:
        yield running


def test_who_looks_for_members_where_they_are_not_does_not_start(
    etcd: Etcd, tmp_path: Path
) -> None:
    here, there = f"file://{tmp_path}/here", f"file://{tmp_path}/there"
    with_etcd = StoreSpec(there, {"metadata": etcd.url("lake/there")})
    _, made, _ = open_log(with_etcd, make=True)
    assert made.metadata == "etcd"
    assert open_log(with_etcd, make=False)[1:] == (made, False)
    with pytest.raises(InvalidInputError, match="are in etcd: give the storage option"):
        open_log(StoreSpec(there), make=False)
    # Who knows an etcd that is not used yet is ready to move there.
    _, made, _ = open_log(StoreSpec(here), make=True)
    knowing = open_log(StoreSpec(here, {"metadata": etcd.url("lake/here")}), make=False)
    assert knowing[1:] == (made, False)


def writes(broker: Lakelog) -> int:
    """How often a broker has asked etcd to write, by its own metrics."""
    _, page = broker.get("/metrics")
    found = re.findall(r'^lakelog_etcd_requests_total\{op="put",.*\} (\S+)$', page, re.MULTILINE)
    return int(sum(map(float, found)))


def test_to_produce_and_to_fetch_writes_nothing_to_etcd(etcd: Etcd, tmp_path: Path) -> None:
    beats = tmp_path / "server.properties"
    beats.write_text("cluster.heartbeat.ms=60000\n")
    options = {"metadata": etcd.url("lake/quiet")}
    given = ("--kafka-config", str(beats))
    with running_lakelog(f"file://{tmp_path}/log", options, given) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0})
        producer.produce("t", b"first")
        producer.flush(30)
        before = writes(broker)
        assert before > 0, "members and claims"
        for number in range(200):
            producer.produce("t", b"%d" % number)
            assert producer.flush(30) == 0
        reader = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
        reader.assign([TopicPartition("t", 0, 0)])
        assert len(reader.consume(201, timeout=30)) == 201
        assert writes(broker) == before
        reader.close()


def test_a_folder_of_etcd_is_of_one_storage(etcd: Etcd, tmp_path: Path) -> None:
    options = {"metadata": etcd.url("lake/taken")}
    open_log(StoreSpec(f"file://{tmp_path}/a", options), make=True)
    with pytest.raises(InvalidInputError, match="choose another folder"):
        open_log(StoreSpec(f"file://{tmp_path}/b", options), make=True)


def test_brokers_that_make_a_namespace_at_the_same_time_make_one(
    etcd: Etcd, tmp_path: Path
) -> None:
    spec = StoreSpec(f"file://{tmp_path}/log", {"metadata": etcd.url("lake/race")})
    with ThreadPoolExecutor(4) as pool:
        opened = list(pool.map(lambda _: open_log(spec, make=True), range(4)))
    assert len({namespace.id for _, namespace, _ in opened}) == 1
    assert {namespace.metadata for _, namespace, _ in opened} == {"etcd"}


def test_an_etcd_that_has_lost_everything_is_not_taken_for_a_new_one(tmp_path: Path) -> None:
    with running_etcd() as lost:
        spec = StoreSpec(f"file://{tmp_path}/log", {"metadata": lost.url("lake/lost")})
        open_log(spec, make=True)
        lost.stop()
        lost.forget()
        lost.start()
        store, namespace, _ = open_log(spec, make=True)
        with pytest.raises(UnavailableError, match="has no metadata of a namespace"):
            run(check_metadata(namespace), working(store.perform))
