"""verify and reindex on a namespace: damage has a name, and what is sound is never alarmed."""

import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random  # noqa: TID251 (seeded)
from typing import Any

import pytest

from lakelog.catalog import AclCell, Topic, change_quotas, open_topic, read_topic
from lakelog.catalog.acls import encode_acls
from lakelog.coordination import BucketGroups
from lakelog.errors import LakelogError, NotFoundError
from lakelog.formats.lanes import (
    NO_ID,
    Event,
    EventKind,
    Slice,
    decode_checkpoint,
    encode_bundle,
    encode_checkpoint,
)
from lakelog.formats.lanes import Bundle as BundleValue
from lakelog.host import THIS_HOST
from lakelog.journal import (
    Begin,
    append,
    decode_head,
    encode_head,
    new_append,
    write_checkpoint,
)
from lakelog.log import bounds
from lakelog.manifests import (
    Intent,
    change_manifest,
    changes,
    decode_manifest,
    encode_manifest,
    make_segment,
)
from lakelog.names import (
    ACLS_KEY,
    QUOTAS_KEY,
    bundle_key,
    checkpoint_key,
    group_shard_key,
    head_key,
    staged_key,
    tail_key,
    topic_key,
)
from lakelog.pipeline.fsck import VerifyNamespace
from lakelog.records import decode_header
from lakelog.security import Alteration
from lakelog.segments import Selection
from lakelog.store import (
    Delete,
    Get,
    Head,
    ListPage,
    Op,
    PutIfAbsent,
    PutIfMatch,
    run,
    working,
)
from tests.unit.log.site import GRACE_MS, Paused, first, seal, trim_lane
from tests.unit.pipeline.damages import Damage, Objects, draw, excuse, kinds, logs
from tests.unit.pipeline.lived_in import (
    EVERY,
    LANES,
    NOWHERE,
    SETTINGS,
    House,
    bad,
    live_in,
    named,
    outcomes,
)


@pytest.fixture(autouse=True, scope="module")
def small_manifests() -> Iterator[None]:
    """Pages turn after a few rows; and flows run one after the other, so that seeds tell all."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lakelog.manifests.cells.ROWS_MAX", 4)
        patch.setattr("lakelog.manifests.cells.ROWS_GOAL", 2)
        patch.setattr(
            "lakelog.pipeline.fsck.jobs.run_by_threads",
            lambda flows, perform: [run(flow, perform) for flow in flows],
        )
        patch.setattr("lakelog.pipeline.run.working_by_threads", working)
        yield


@pytest.fixture
def house() -> House:
    return House()


# ---------------------------------------------------------------------------- what is sound


def test_a_namespace_that_was_just_made_is_good(house: House) -> None:
    results = house.verify()
    assert outcomes(results) == {"good"}
    assert {one.object for one in results} == {head_key(0), head_key(1)}


def test_a_namespace_that_was_lived_in_is_good(house: House) -> None:
    live_in(house)
    results = house.verify(records=True)
    assert bad(results) == []
    assert outcomes(results) <= {"good", "uncheckpointed"}
    found = kinds(house.objects())
    segments = {one.object for one in results if one.object.endswith(".kfs")}
    assert segments == set(found[".kfs"])
    assert len(found[".json"]) >= 2  # Pages.
    assert sum(one.records for one in results) > 100


def test_there_must_be_a_namespace() -> None:
    site = House()
    for key in site.objects():
        site.perform(Delete(key))
    with pytest.raises(NotFoundError, match="lakelog init"):
        site.verify()


def test_what_is_sealed_and_not_trimmed_yet_is_good(house: House) -> None:
    house.produce(house.make("orders", 3), 2)
    for number in range(LANES):
        house.run(seal(house.lane(number), SETTINGS))
    assert outcomes(house.verify()) == {"good"}


@pytest.mark.parametrize("end", [".kfs", ".index", ".timeindex", "manifest"])
def test_a_seal_on_its_way_is_no_alarm_and_its_objects_are_nobodys_orphans(
    house: House, end: str
) -> None:
    topic = house.make("orders")
    house.produce(topic, 6)
    kind = PutIfMatch if end == "manifest" else PutIfAbsent
    sealer = Paused(house, seal(house.lane(topic.lane(0)), SETTINGS), kind, end)
    assert outcomes(house.verify()) == {"good"}
    sealer.finish()
    assert outcomes(house.verify()) == {"good"}


def test_a_sealer_that_died_leaves_orphans_and_they_are_told(house: House) -> None:
    topic = house.make("orders")
    house.produce(topic, 6)
    Paused(house, seal(house.lane(topic.lane(0)), SETTINGS), PutIfMatch, "manifest")
    house.pass_ms(GRACE_MS)
    where, write = topic.path_of(0), house.id().hex()
    house.run(change_manifest(where, write, lambda now: changes.cancel(now, write, house.now_ms)))
    results = house.verify()
    assert bad(results) == []
    left = {where.prefix + name for name in house.names(where)}
    assert len(left) >= 3
    assert named(results, "orphan") == left


def test_a_partition_of_which_everything_has_expired_is_good(house: House) -> None:
    topic = house.make("orders", retention_ms="1")
    house.produce(topic, 8)
    for _ in range(3):
        house.keep(idle=True)
        house.pass_ms(GRACE_MS)
    assert not house.manifest(topic.path_of(0)).segments
    assert outcomes(house.verify()) == {"good"}
    house.produce(topic, 1)
    assert outcomes(house.verify()) == {"good"}


def test_records_that_were_deleted_before_they_were_sealed_are_no_gap(house: House) -> None:
    topic = house.make("orders")
    house.produce(topic, 9)
    house.delete_records(topic.path_of(0), 18)
    house.keep(idle=True)
    house.pass_ms(GRACE_MS)
    house.keep(idle=True)
    assert bad(house.verify()) == []
    house.produce(topic, 2)
    assert bad(house.verify()) == []


@pytest.mark.parametrize("tell", [True, False])
def test_a_deleted_topic_is_good_at_every_step_of_its_end(house: House, tell: bool) -> None:
    topic = house.make("orders", 2)
    house.produce(topic, 5)
    house.keep()
    house.produce(topic, 1)
    house.delete(topic, tell=tell)
    results = house.verify()
    assert bad(results) == []
    assert named(results, "undeleted") == {"orders/0/manifest", "orders/1/manifest"}
    again = house.make("orders", 1)
    house.produce(again, 3)
    for _ in range(30):
        assert bad(house.verify()) == []
        house.keep(idle=True)
        house.pass_ms(GRACE_MS)
    assert outcomes(house.verify()) == {"good"}
    assert "orders/0/manifest" in house.objects()


def test_a_topic_that_is_being_imported_is_good(house: House) -> None:
    topic = house.make("orders", 2, closed=True)
    where = topic.path_of(0)
    batches = bytearray(house.batch(5))
    made = make_segment([bytes(batches)], base_offset=0, next_offset=5, appended_ms=house.now_ms)
    name = f"segment-{0:020}-{'a' * 32}"
    for suffix, body in (
        (".kfs", made.body),
        (".index", made.index),
        (".timeindex", made.timeindex),
    ):
        house.perform(PutIfAbsent(f"{where.prefix}{name}{suffix}", body))
        assert outcomes(house.verify()) == {"good"}
    write, row = house.id().hex(), made.row._replace(name=name)
    house.run(
        change_manifest(
            where, write, lambda now: changes.adopt(now, write, 0, (row,), start=0, end=9)
        )
    )
    # The next wave is on its way: nobody names it, and nobody has announced it.
    house.perform(PutIfAbsent(f"{where.prefix}segment-{9:020}-{'b' * 32}.kfs", b"half of it"))
    results = house.verify()
    assert outcomes(results) == {"good"}
    assert sum(one.records for one in results) == 5
    lane = house.lane(topic.lane(0))
    house.run(append(lane, [Begin(topic_partition=where.topic_partition, offset=9)]))
    assert outcomes(house.verify()) == {"good"}
    house.run(open_topic("orders", topic.id, house.id()))
    assert outcomes(house.verify()) == {"good", "orphan"}
    house.pass_ms(GRACE_MS)
    house.append(lane, where, house.batch(2))
    house.keep(idle=True)
    assert outcomes(house.verify()) == {"good"}


def test_burnt_names_are_good(house: House) -> None:
    topic = house.make("orders")
    house.produce(topic, 3)
    house.perform(PutIfAbsent(f"orders/0/segment-{0:020}.kfs", b"left over"))
    house.run(
        change_manifest(
            topic.path_of(0), "x", lambda now: changes.begin(now, Intent("y", "seal", 90, 91, 0))
        )
    )
    house.pass_ms(GRACE_MS)
    house.keep()
    assert house.manifest(topic.path_of(0)).burnt
    house.produce(topic, 3)
    house.keep()
    assert bad(house.verify()) == []


def test_bundles_and_checkpoints_below_the_floor_may_be_anything(house: House) -> None:
    topic = house.make("orders")
    lane = topic.lane(0)
    house.produce(topic, 9)
    house.keep(idle=True)
    floor = decode_head(house.objects()[head_key(lane)], lane).floor
    assert floor > EVERY
    house.replace(bundle_key(lane, 0), b"a ghost")
    house.perform(Delete(bundle_key(lane, 2)))
    house.replace(checkpoint_key(lane, EVERY - 1), b"?")
    assert outcomes(house.verify()) == {"good"}


def test_a_floor_below_what_is_sealed_no_longer_is_good(house: House) -> None:
    """It stands on a checkpoint far above it, and between them lies what is not sealed."""
    topic = house.make("orders")
    number = topic.lane(0)
    house.produce(topic, 6)
    house.run(seal(house.lane(number), SETTINGS))
    house.produce(topic, 6)
    house.run(trim_lane(house.lane(number)))
    head = decode_head(house.objects()[head_key(number)], number)
    assert (head.floor, head.checkpoint) == (6, 11)
    assert outcomes(house.verify()) == {"good"}


def test_a_checkpoint_that_somebody_wrote_who_knew_less_is_good(house: House) -> None:
    """A slice index begins where its writer began to read."""
    topic = house.make("orders")
    number, where = topic.lane(0), topic.path_of(0)
    house.produce(topic, 5)
    house.keep(idle=True)  # A checkpoint in the middle of a round.
    lane = house.lane(number)
    for _ in range(EVERY):
        house.run(append(lane, [new_append(*where.topic_partition, house.batch())]))
        house.run(write_checkpoint(lane))
    rolls = [
        decode_checkpoint(body)
        for key, body in house.objects(f"_lakelog/lanes/{number:04}/").items()
        if key.endswith(".checkpoint")
    ]
    assert any(one.first % EVERY for one in rolls)
    assert outcomes(house.verify()) == {"good"}


def test_a_checkpoint_whose_roll_was_cut_is_good(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakelog.journal.checkpoints.ROLL_ROWS_MAX", 2)
    house.produce(house.make("orders"), 3 * EVERY)
    assert outcomes(house.verify()) == {"good"}


# ---------------------------------------------------------------------------- what is told


def test_strangers_are_told_and_left_alone(house: House) -> None:
    house.produce(house.make("orders"), 3)
    house.keep()
    keys = {
        "readme.txt", "some/where/else.bin", "orders/0/notes.txt", "orders/0/deeper/x",
        "_lakelog/lanes/0000/x", "_lakelog/what", "_lakelog/topics/no~name", "orders/07/manifest",
        "nobody/3/segment-00000000000000000000.kfs",
    }  # fmt: skip
    for key in keys:
        house.perform(PutIfAbsent(key, b"?"))
    results = house.verify()
    assert bad(results) == []
    assert named(results, "stranger") == keys


def test_quotas_are_no_stranger_and_damage_to_them_is_found(house: House) -> None:
    house.run(change_quotas([Alteration([("user", "a")], [("producer_byte_rate", 5.0)])]))
    results = house.verify()
    assert bad(results) == []
    assert named(results, "stranger") == set()
    house.perform(Delete(QUOTAS_KEY))
    house.perform(PutIfAbsent(QUOTAS_KEY, b'{"format": 1, "version": 1, "quotas": [7]}'))
    assert named(house.verify(), "damaged") == {QUOTAS_KEY}


def test_a_topic_may_be_called_like_what_passes_by(house: House) -> None:
    house.produce(house.make("lakelog-probe"), 2)
    house.keep()
    house.perform(PutIfAbsent("lakelog-probe/0123abcd", b"?"))
    results = house.verify()
    assert outcomes(results) == {"good"}
    assert "lakelog-probe" in {one.topic for one in results}


def test_a_missing_index_is_told_and_made_again(house: House) -> None:
    house.produce(house.make("orders"), 6)
    house.keep()
    before = house.objects()
    gone = [key for key in before if key.endswith(("index",))][:3]
    for key in gone:
        house.perform(Delete(key))
    results = house.verify()
    assert bad(results) == []
    assert named(results, "unindexed") == set(gone)
    assert outcomes(house.reindex()) == {"good", "rebuilt"}
    assert house.objects() == before
    assert outcomes(house.reindex()) == {"good"}


def test_a_wrong_index_is_damage_and_is_replaced(house: House) -> None:
    house.produce(house.make("orders"), 6)
    house.keep()
    before = house.objects()
    wrong = [next(key for key in before if key.endswith(end)) for end in (".index", ".timeindex")]
    for key in wrong:
        house.replace(key, before[key] + b"\0" * 12)
    assert named(house.verify()) == set(wrong)
    assert "rebuilt" in outcomes(house.reindex())
    assert house.objects() == before


def test_reindex_makes_no_index_of_damage(house: House) -> None:
    house.produce(house.make("orders"), 2)
    house.keep()
    (segment,) = [key for key in house.objects() if key.endswith(".kfs")]
    index = segment.replace(".kfs", ".index")
    house.perform(Delete(index))
    body = bytearray(house.objects()[segment])
    body[-30] ^= 1
    house.replace(segment, bytes(body))
    assert outcomes(house.reindex()) == {"damaged"}
    assert index not in house.objects()


def test_a_missing_checkpoint_is_told_unless_the_floor_stands_on_it(house: House) -> None:
    topic = house.make("orders")
    lane = topic.lane(0)
    house.produce(topic, 5 * EVERY)
    key = checkpoint_key(lane, 2 * EVERY - 1)
    house.perform(Delete(key))
    results = house.verify()
    assert bad(results) == []
    assert named(results, "uncheckpointed") == {key}
    house.keep()
    head = decode_head(house.objects()[head_key(lane)], lane)
    house.perform(Delete(checkpoint_key(lane, head.checkpoint)))
    assert named(house.verify()) >= {head_key(lane), checkpoint_key(lane, head.checkpoint)}


def test_a_tail_that_leads_nowhere_is_told(house: House) -> None:
    topic = house.make("orders")
    house.produce(topic, EVERY)
    key = tail_key(topic.lane(0))
    for body in (b"?", b'{"checkpoint": 77}', b'{"checkpoint": "3"}', b"[]"):
        house.replace(key, body)
        results = house.verify()
        assert bad(results) == []
        assert named(results, "stale") == {key}


def test_only_the_history_of_chosen_topics(house: House) -> None:
    live_in(house)
    chosen = Selection(topics=frozenset({"users"}))
    results = house.verify(selection=chosen)
    assert {one.topic for one in results} == {"users"}
    assert outcomes(results) == {"good"}


# ---------------------------------------------------------------------------- what is damage


def damaged(house: House, key: str, change: Callable[[bytes], bytes | None]) -> set[str]:
    """Change an object, and return what a verify names."""
    body = change(house.objects()[key])
    if body is None:
        house.perform(Delete(key))
    else:
        house.replace(key, body)
    return named(house.verify())


def test_a_gap_between_history_and_journal_names_both_sides(house: House) -> None:
    topic = house.make("orders")
    lane = topic.lane(0)
    house.produce(topic, 9)
    house.keep()
    house.produce(topic, 9)

    def higher(body: bytes) -> bytes:
        head = decode_head(body, lane)
        (last, *_) = [
            seq for seq in range(99, 0, -1) if checkpoint_key(lane, seq) in house.objects()
        ]
        return encode_head(head.raised(last, last, 0))

    assert damaged(house, head_key(lane), higher) == {head_key(lane), "orders/0/manifest"}


def test_a_lane_that_lost_its_end_is_noticed_by_what_was_sealed(house: House) -> None:
    topic = house.make("orders")
    lane = topic.lane(0)
    house.produce(topic, 2)
    house.run(seal(house.lane(lane), SETTINGS))
    assert damaged(house, bundle_key(lane, 1), lambda _: None) == {
        bundle_key(lane, 1),
        "orders/0/manifest",
    }


def test_a_lane_that_lost_its_end_is_noticed_by_a_checkpoint(house: House) -> None:
    topic = house.make("orders")
    lane = topic.lane(0)
    house.produce(topic, EVERY)
    found = damaged(house, bundle_key(lane, EVERY - 1), lambda _: None)
    assert found == {bundle_key(lane, EVERY - 1)}


def test_a_hole_in_a_lane_is_named(house: House) -> None:
    topic = house.make("orders")
    lane = topic.lane(0)
    house.produce(topic, 12)
    for seq in (5, 6):
        house.perform(Delete(bundle_key(lane, seq)))
    (found,) = bad(house.verify())
    assert found.object == bundle_key(lane, 5)
    assert "up to 6" in found.what


def test_a_bundle_that_does_not_follow_is_named(house: House) -> None:
    """A chain is one by its nonces, also where every bundle is sound."""
    topic = house.make("orders")
    lane = topic.lane(0)
    house.produce(topic, 6)
    other = House()
    twin = other.make("orders")
    other._ids = 1000
    for _ in range(6):
        other.append(other.lane(twin.lane(0)), topic.path_of(0), other.batch())
    foreign = other.objects()[bundle_key(twin.lane(0), 2)]
    if twin.lane(0) == lane:
        assert bundle_key(lane, 2) in damaged(house, bundle_key(lane, 2), lambda _: foreign)


@pytest.mark.parametrize("name", ["ends", "producers", "leader", "created_ms", "nonce"])
def test_a_checkpoint_that_says_something_else_is_named(house: House, name: str) -> None:
    """Its checksum is right: only folding the chain tells."""
    topic = house.make("orders")
    lane = topic.lane(0)
    house.produce(topic, 3 * EVERY)
    key = checkpoint_key(lane, 2 * EVERY - 1)
    others: dict[str, Any] = {
        "ends": (), "producers": (), "leader": b"x" * 16, "created_ms": 1, "nonce": b"x" * 16,
    }  # fmt: skip

    def other(body: bytes) -> bytes:
        return encode_checkpoint(replace(decode_checkpoint(body), **{name: others[name]}))

    assert key in damaged(house, key, other)


def test_a_roll_that_leads_elsewhere_is_named(house: House) -> None:
    topic = house.make("orders")
    lane = topic.lane(0)
    house.produce(topic, 3 * EVERY)
    key = checkpoint_key(lane, 2 * EVERY - 1)

    def shorter(body: bytes) -> bytes:
        checkpoint = decode_checkpoint(body)
        return encode_checkpoint(replace(checkpoint, slice_index=checkpoint.slice_index[1:]))

    assert damaged(house, key, shorter) == {key}


def test_a_row_and_a_segment_that_differ_are_both_named(house: House) -> None:
    house.produce(house.make("orders"), 2)
    house.keep()
    (segment,) = [key for key in house.objects() if key.endswith(".kfs")]
    for name in ("records", "min_timestamp", "max_timestamp", "appended_ms", "crc", "codecs"):
        before = house.objects()

        def other(body: bytes, name: str = name) -> bytes:
            manifest = decode_manifest(body)
            (row,) = manifest.segments
            row = row._replace(**{name: getattr(row, name) ^ 1})
            return encode_manifest(manifest.next("x", segments=(row,)))

        assert damaged(house, "orders/0/manifest", other) == {segment, "orders/0/manifest"}
        house.put_back(before)


def test_a_page_and_its_row_that_differ_are_both_named(house: House) -> None:
    house.produce(house.make("orders"), 12)
    house.keep()
    (page,) = house.manifest(house.run(read_topic("orders")).path_of(0)).pages
    keys = {f"orders/0/{page.name}.json", "orders/0/manifest"}
    for name in ("length", "min_timestamp", "max_timestamp", "appended_ms", "rows"):
        before = house.objects()

        def other(body: bytes, name: str = name) -> bytes:
            row = page._replace(**{name: getattr(page, name) + 1})
            return encode_manifest(decode_manifest(body).next("x", pages=(row,)))

        assert damaged(house, "orders/0/manifest", other) == keys
        house.put_back(before)


def test_a_manifest_that_is_gone_is_missed(house: House) -> None:
    house.produce(house.make("orders"), 2)
    for number in range(LANES):
        house.run(seal(house.lane(number), SETTINGS))
    assert damaged(house, "orders/0/manifest", lambda _: None) == {"orders/0/manifest"}


def test_manifests_that_were_exchanged_are_named(house: House) -> None:
    """Of two topics, or of two partitions of one."""
    for name in ("orders", "users"):
        house.produce(house.make(name, 2), 2)
    house.keep()
    before = house.objects()
    for one, two in (("orders/0", "users/0"), ("orders/0", "orders/1")):
        keys = {f"{one}/manifest", f"{two}/manifest"}
        for key, other in zip(sorted(keys), sorted(keys, reverse=True), strict=True):
            house.replace(key, before[other])
        told = {one.object for one in bad(house.verify()) if "it is of partition" in one.what}
        assert told == keys
        house.put_back(before)


def test_a_manifest_of_a_deleted_topic_whose_cell_lives_is_named(house: House) -> None:
    house.produce(house.make("orders"), 2)
    house.keep()

    def deleted(body: bytes) -> bytes:
        return encode_manifest(changes.delete(decode_manifest(body), "x") or decode_manifest(body))

    assert damaged(house, "orders/0/manifest", deleted) == {
        "orders/0/manifest",
        topic_key("orders"),
    }


def test_a_topic_cell_that_is_gone_is_missed(house: House) -> None:
    house.produce(house.make("orders"), 2)
    house.keep()
    found = damaged(house, topic_key("orders"), lambda _: None)
    assert found >= {topic_key("orders")}


def test_a_lane_with_a_topic_that_nobody_knows_is_noticed(house: House) -> None:
    topic = house.make("orders")
    house.produce(topic, 2)
    assert damaged(house, topic_key("orders"), lambda _: None) == {"_lakelog/topics"}


def test_a_shard_of_groups_that_is_gone_is_told(house: House) -> None:
    house.groups()
    house.perform(Delete("_lakelog/groups/01"))
    results = house.verify()
    assert bad(results) == []
    assert named(results, "unclaimed") == {"_lakelog/groups/01"}


def test_shards_that_disagree_how_many_they_are_are_named(house: House) -> None:
    store = BucketGroups(house.id(), shards=3)
    keys = [group_shard_key(shard) for shard in range(3)]
    for shard in range(3):
        house.run(store.claim(shard, 3))
    assert outcomes(house.verify()) == {"good"}

    def other(body: bytes) -> bytes:
        return body.replace(b'"shards":3', b'"shards":4')

    assert damaged(house, keys[1], other) == {keys[1]}
    assert damaged(house, keys[2], lambda _: None) == {keys[0], keys[1]}  # One against one.


def test_damage_in_a_staged_object_is_named(house: House) -> None:
    topic = house.make("orders")
    key, body = stage(house, topic)
    assert outcomes(house.verify()) == {"good"}
    whole = bytearray(body)
    whole[-1] ^= 1
    assert damaged(house, key, lambda _: bytes(whole)) == {key}
    assert damaged(house, key, lambda _: body[:-1]) == {key}
    assert damaged(house, key, lambda _: None) == {key}


def stage(house: House, topic: Topic) -> tuple[str, bytes]:
    """A bundle that commits what a bulk write has staged; nobody writes those yet."""
    lane, write, body = topic.lane(0), house.id(), house.batch(3)
    header = decode_header(body)
    slice_ = Slice(
        topic=topic.id, partition=0, batches=0, base_offset=0, offsets=3, position=0,
        length=len(body), min_timestamp=header.base_timestamp, max_timestamp=header.max_timestamp,
        write=0, part=0,
    )  # fmt: skip
    event = Event(EventKind.WRITE_COMMITTED, write, b"q" * 16, 1)
    bundle = BundleValue(
        lane=lane, seq=0, created_ms=house.now_ms, epoch=0, writer=house.id(), nonce=house.id(),
        previous=NO_ID, bulk=True, slices=(slice_,), events=(event,),
    )  # fmt: skip
    key = staged_key(write, lane, 0)
    house.perform(PutIfAbsent(key, body))
    house.perform(PutIfAbsent(bundle_key(lane, 0), encode_bundle(bundle)))
    return key, body


# ---------------------------------------------------------------------------- laws


@pytest.fixture(scope="module")
def lived_in(small_manifests: None) -> House:
    house = House()
    live_in(house)
    return house


@pytest.mark.parametrize("seed", range(3))
def test_damage_of_any_object_has_its_name(lived_in: House, seed: int) -> None:
    """50 draws each; what passes in silence is excused, and reads as before where that matters."""
    random = Random(seed)
    before = lived_in.objects()
    noticed = 0
    for _ in range(50):
        damage = draw(random, before)
        lived_in.put_back(damage.objects)
        results = lived_in.verify()
        told = {finding.object for one in results for finding in one.findings}
        for key in damage.keys:
            if key not in told:
                reason = excuse(damage, before, key) or _still_reads(lived_in, damage, before)
                assert reason, f"{damage}: {key} was not named, but {sorted(told)}"
        noticed += bool(bad(results))
        lived_in.put_back(before)
    assert noticed >= 25


def _still_reads(house: House, damage: Damage, before: Objects) -> str:
    """A head may name another floor, or another checkpoint, and be as right."""
    if not all(key.endswith("/head") for key in damage.keys):
        return ""
    try:
        now = house.run(logs())
    except LakelogError:
        return ""
    house.put_back(before)
    return "it reads the same" if now == house.run(logs()) else ""


@pytest.mark.parametrize("seed", range(12))
def test_whatever_happens_while_it_runs_there_is_no_alarm(seed: int) -> None:
    random = Random(seed)
    house = House()
    live_in(house)
    topics = {"orders", "users", "again"}
    busy = False

    def act() -> None:
        nonlocal busy
        busy = True
        _act(house, random, topics)
        busy = False

    def perform(op: Op) -> Any:
        if not busy and random.random() < 0.03:
            act()
        return house.perform(op)

    for _ in range(4):
        assert bad(house.verify(perform)) == []
    assert bad(house.verify()) == []


def _act(house: House, random: Random, names: set[str]) -> None:
    topic = house.run(read_topic(random.choice(sorted(names))))
    match random.randrange(9):
        case 8:
            if topic.is_open:
                house.merge(topic)
        case 0 | 1:
            if topic.is_open:
                house.produce(topic, random.randrange(1, 6))
        case 2:
            house.keep()
        case 3:
            house.keep(idle=True)
        case 4:
            house.pass_ms(GRACE_MS)
            house.keep(idle=True)
        case 5:
            if topic.is_open:
                partition = random.randrange(topic.partitions)
                where = topic.path_of(partition)
                lane = house.lane(topic.lane(partition))
                end = house.run(bounds(lane, where)).end
                house.delete_records(where, random.randrange(end + 1))
        case 6:
            if not topic.deleted:
                house.delete(topic, tell=random.random() < 0.5)
        case _:
            if topic.deleted:
                house.make(topic.name, random.randrange(1, 4))


def vanish(house: House) -> None:
    """Everything is sealed, expires, is trimmed and deleted; and a ghost comes back."""
    topic = house.run(read_topic("orders"))
    where, lane = topic.path_of(0), topic.lane(0)
    ghosts = house.objects(f"_lakelog/lanes/{lane:04}/")
    end = house.run(bounds(house.lane(lane), where)).end
    house.delete_records(where, end - 1)
    for _ in range(3):
        house.keep(idle=True)
        house.pass_ms(GRACE_MS)
    ghost = next(body for key, body in ghosts.items() if key.endswith(".bundle"))
    for seq in range(0, 12, 3):
        house.perform(PutIfAbsent(bundle_key(lane, seq), ghost))


@pytest.mark.parametrize("trimmed", [False, True])
def test_at_any_moment_everything_may_be_trimmed_and_deleted(trimmed: bool) -> None:
    """Before each operation of a verify, one after the other."""
    seen: set[str] = set()
    for k in range(10_000):
        house = House()
        topic = house.make("orders")
        lane = house.lane(topic.lane(0))
        house.produce(topic, 12)
        house.run(seal(lane, SETTINGS))
        house.keep_pages()
        if trimmed:
            house.produce(topic, EVERY)
            assert house.run(trim_lane(lane)).floor == 12
        house.produce(topic, 2)
        left = [k]

        def perform(op: Op, left: list[int] = left, house: House = house) -> Any:
            left[0] -= 1
            if left[0] == -1:
                vanish(house)
            return house.perform(op)

        results = house.verify(perform)
        assert bad(results) == [], k
        seen |= outcomes(results)
        if left[0] >= 0:
            break
    assert k > 60
    assert seen >= {"good", "gone"}


@pytest.mark.parametrize("seq", [0, 4])
def test_a_floor_that_rises_by_one_excuses_one_bundle(house: House, seq: int) -> None:
    """The lowest key counts: where a checkpoint was used, that is the one before the first."""
    topic = house.make("orders")
    lane = topic.lane(0)
    house.produce(topic, 10)
    house.run(seal(house.lane(lane), SETTINGS))

    def rise() -> None:
        head = decode_head(house.objects()[head_key(lane)], lane)
        house.replace(head_key(lane), encode_head(head.raised(seq + 1, 7, 0)))
        house.perform(Delete(bundle_key(lane, seq)))

    results = house.verify(first(house, Get, bundle_key(lane, seq), rise))
    assert bad(results) == []
    house.perform(Delete(bundle_key(lane, seq + 1)))
    assert named(house.verify()) >= {bundle_key(lane, seq + 1)}


def test_a_topic_that_is_made_meanwhile_is_no_stranger(house: House) -> None:
    house.produce(house.make("orders"), 2)
    house.keep()

    def appear() -> None:
        house.produce(house.make("later", 2), 3)
        house.keep()

    results = house.verify(first(house, ListPage, "", appear, nth=2))
    assert outcomes(results) <= {"good", "gone"}
    assert {"later", "orders"} <= {one.topic for one in results}


def test_a_bundle_that_a_listing_has_missed_is_no_hole(house: House) -> None:
    topic = house.make("orders")
    lane = topic.lane(0)
    house.produce(topic, 12)
    missed = {bundle_key(lane, 5), bundle_key(lane, 6)}

    def perform(op: Op) -> Any:
        answer = house.perform(op)
        if isinstance(op, ListPage):
            left = tuple(info for info in answer.objects if info.key not in missed)
            return replace(answer, objects=left)
        return answer

    results = house.verify(perform)
    assert outcomes(results) == {"good"}
    batches = sum(one.batches for one in results)
    assert batches == 12

    def deleted_meanwhile(op: Op) -> Any:
        if isinstance(op, Head) and op.key in missed:
            vanish(house)
        return perform(op)

    assert bad(house.verify(deleted_meanwhile)) == []


def test_a_unit_is_small_and_can_be_sent_anywhere(house: House) -> None:
    live_in(house)
    job = VerifyNamespace(host=THIS_HOST, source=NOWHERE)
    performs = working(house.perform)
    plan = job.plan(lambda _: performs)
    assert {type(unit).__name__ for unit in plan.units} == {
        "Border", "BundleRange", "NamedSegment", "Shards",
    }  # fmt: skip
    for unit in plan.units:
        assert pickle.loads(pickle.dumps(unit)) == unit
        assert unit.size >= 1
        if type(unit).__name__ == "NamedSegment":
            assert len(pickle.dumps(unit)) < 1000
        if type(unit).__name__ == "Stretch":
            assert unit.last - unit.first < 3 * EVERY


def test_acls_are_known_and_judged(house: House) -> None:
    house.perform(PutIfAbsent(ACLS_KEY, encode_acls(AclCell(version=1))))
    results = house.verify()
    assert bad(results) == []
    assert named(results, "stranger") == set()
    assert damaged(house, ACLS_KEY, lambda body: body[:-1]) == {ACLS_KEY}
