"""Groups are moved between the bucket and a real etcd, while brokers and clients work."""

from pathlib import Path

import pytest

from lakelog.catalog import check_metadata, open_namespace, place_store
from lakelog.cli.running import open_log
from lakelog.coordination import (
    RELEASED,
    encode_group,
    groups_in,
    mirror_shard,
    shard_of,
    stored_shards,
)
from lakelog.errors import UnavailableError
from lakelog.groups import Durable, Offsets, Roster
from lakelog.host import new_id
from lakelog.store import StoreSpec, run, working
from tests.cluster.history import Diary
from tests.cluster.moves import moved, run_meta
from tests.parts.etcd import running_etcd
from tests.parts.seaweedfs import SeaweedFS

HEARTBEAT_MS = 300
NAMES = ("billing", "shipping", "fraud")


@pytest.mark.seaweedfs
def test_no_commit_is_lost_while_groups_move_and_a_coordinator_sleeps(
    seaweedfs: SeaweedFS, tmp_path: Path
) -> None:
    with moved(
        seaweedfs, tmp_path, kinds=("rdkafka",), heartbeat_ms=HEARTBEAT_MS, servers=1
    ) as story:
        for way, metadata, shards in (
            (("migrate", "--to", "etcd"), "etcd", 8),
            (("reshard", "32"), "etcd", 32),
            (("migrate", "--to", "bucket"), "bucket", 32),
        ):
            story.move(*way)
            status = story.status()
            assert (status["metadata"], status["shards"]) == (metadata, shards)
        found = story.load.finish(Diary.now())
        assert not found, found.shown()


def test_groups_of_an_etcd_that_is_lost_are_restored_from_the_bucket(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/log"
    with running_etcd() as etcd:
        options = {"metadata": etcd.url("lake/lost")}
        spec = StoreSpec(url, options)
        store, namespace, _ = open_log(spec, make=True)
        perform = working(store.perform)
        groups = groups_in(namespace.metadata, new_id())
        held = None
        for name in NAMES:
            shard = shard_of(name, groups.shards)
            held = run(groups.claim(shard, groups.shards), perform)
            body = encode_group(Durable(id=name, roster=Roster(), offsets=Offsets.of({})))
            run(mirror_shard(run(groups.save(held, {name: body}), perform), 0), perform)
        etcd.stop()
        etcd.forget()
        etcd.start()

        fresh = spec.open()
        with pytest.raises(UnavailableError, match="lakelog meta restore"):
            run(check_metadata(namespace), working(fresh.perform))
        run_meta(url, options, "restore", "--lost")
        now = run(open_namespace(), working(fresh.perform))
        run(check_metadata(now), working(fresh.perform))
        found = run(
            stored_shards(groups_in(now.metadata, RELEASED, move=now.moves)),
            working(place_store(fresh, now).perform),
        )
        assert {name for one in found.values() if one for name in one.groups} == set(NAMES)
        assert held is not None
        with pytest.raises(UnavailableError, match="moved or restored"):
            run(groups.look(held), perform)
