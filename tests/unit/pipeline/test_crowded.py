"""compact by many: a partition with too many keys for one map becomes what one map makes of it.

Spark's shuffles are dictionaries here.
"""

from collections import defaultdict
from pathlib import Path
from random import Random  # noqa: TID251 (seeded)

import pytest

from lakelog.host import THIS_HOST, new_id
from lakelog.journal import append, new_append
from lakelog.manifests import change_manifest, changes
from lakelog.model import Record
from lakelog.pipeline import (
    Compact,
    CompactedSegment,
    CompactSettings,
    CompactUnit,
    Result,
    ShuffledCompaction,
    compact_shuffled,
    plan_job,
    run_here,
)
from lakelog.records import NewBatch, encode_batch
from lakelog.records.scattering import outdating
from lakelog.store import StoreSpec
from tests.unit.pipeline.shop import Shop, fill

SMALL = CompactSettings(map_bytes=1024)


def clean_all(crowd: ShuffledCompaction) -> list[CompactedSegment]:
    buckets: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
    for segment in range(len(crowd)):
        for bucket, slots in crowd.note(segment):
            buckets[bucket].append((segment, slots))
    assert set(buckets) <= set(range(crowd.buckets))
    settled: dict[int, list[bytes]] = defaultdict(list)
    for blocks in buckets.values():
        for segment, slots in outdating(blocks):
            settled[segment].append(slots)
    # Each of them twice, as if Spark had tried it again.
    for segment in range(len(crowd)):
        crowd.clean(segment, settled[segment])
    return [crowd.clean(segment, settled[segment]) for segment in range(len(crowd))]


class CrowdedShop(Shop):
    @property
    def job(self) -> Compact:
        return Compact(host=THIS_HOST, target=StoreSpec(self.url), always=True, settings=SMALL)

    def unit(self) -> CompactUnit:
        (unit,) = plan_job(self.job)[0].units
        assert isinstance(unit, CompactUnit)
        return unit

    def by_many(self) -> Result | None:
        return compact_shuffled(self.job, self.unit(), clean_all)


@pytest.fixture
def shop(tmp_path: Path) -> CrowdedShop:
    return CrowdedShop(tmp_path / "many")


@pytest.fixture
def other(tmp_path: Path) -> Shop:
    return Shop(tmp_path / "one")


def test_who_wants_all_or_nothing_is_told_that_it_is_crowded(shop: CrowdedShop) -> None:
    fill(shop, 60, keys=100)
    shop.store()
    before, log = shop.manifest, shop.rows()
    assert shop.compact(settings=SMALL, whole=True).outcomes == {"crowded": 1}
    assert shop.manifest.segments == before.segments
    assert shop.manifest.intents == ()
    assert shop.rows() == log
    assert shop.compact(whole=True).outcomes == {"compacted": 1}


def test_many_keep_what_one_keeps(shop: CrowdedShop, other: Shop) -> None:
    """Run after run, with tombstones and records without keys among them."""
    chance = Random(3)
    for _ in range(4):
        for _ in range(40):
            pairs = [
                (
                    None if chance.random() < 0.1 else b"k%d" % chance.randrange(90),
                    None if chance.random() < 0.2 else b"v%d" % chance.randrange(9),
                )
                for _ in range(chance.randint(1, 5))
            ]
            shop.send(*pairs)
            other.send(*pairs)
        shop.store()
        other.store()
        result = shop.by_many()
        assert result is not None
        assert other.compact().is_good
        assert shop.rows() == other.rows() == shop.newest()
        assert (result.outcome, result.records) == ("compacted", len(shop.newest()))
        assert shop.manifest.cleaned_end == shop.manifest.sealed_end == len(shop.sent)
    assert plan_job(shop.job)[0].units == []


def test_what_takes_the_place_of_an_empty_first_segment_begins_where_it_began(
    shop: CrowdedShop,
) -> None:
    shop.send((b"a", b"1"))
    shop.store()
    shop.send((b"b", b"1"))
    shop.store()
    shop.send((b"a", b"2"), (b"c", b"1"))
    shop.store()
    shop.send((b"b", b"2"))
    shop.store()
    assert len(shop.manifest.segments) == 4
    assert shop.by_many() is not None
    assert shop.rows() == shop.newest()
    assert shop.manifest.segments[0].base_offset == 0
    shop.sweep(shop.orders)
    assert shop.stems() == shop.named(shop.orders)
    assert shop.rows() == shop.newest()


def test_nothing_may_be_left_of_all_of_them(shop: CrowdedShop) -> None:
    for _ in range(3):
        shop.send((None, b"x"), (None, b"y"))
        shop.store()
    assert shop.by_many() is not None
    assert (shop.rows(), shop.manifest.log_start) == ([], 6)
    shop.send((b"a", b"1"))
    assert shop.rows() == [(6, b"a", b"1")]


def test_who_changed_the_rows_meanwhile_wins(shop: CrowdedShop) -> None:
    fill(shop)
    shop.store()

    def late(crowd: ShuffledCompaction) -> list[CompactedSegment]:
        made = clean_all(crowd)
        assert shop.compact().is_good
        return made

    result = compact_shuffled(shop.job, shop.unit(), late)
    assert result is not None
    assert result.outcome == "moved"
    assert shop.rows() == shop.newest()


def test_a_log_that_begins_later_meanwhile_is_left_alone(shop: CrowdedShop) -> None:
    fill(shop)
    shop.store()
    unit, where, write = shop.unit(), shop.orders.path_of(0), new_id().hex()
    shop.run(change_manifest(where, write, lambda now: changes.start(now, write, 80)))
    before = shop.rows()
    result = compact_shuffled(shop.job, unit, clean_all)
    assert result is not None
    assert result.outcome == "good"
    assert shop.rows() == before


def test_damage_is_named_and_nothing_is_changed(shop: CrowdedShop) -> None:
    fill(shop)
    shop.store()
    before = shop.manifest
    row = before.segments[2]
    path = Path(shop.url, shop.orders.path_of(0).prefix, f"{row.name}.kfs")
    body = bytearray(path.read_bytes())
    body[row.position + row.length // 2] ^= 1
    path.write_bytes(body)
    result = shop.by_many()
    assert result is not None
    assert (result.outcome, result.findings_count) == ("damaged", 1)
    assert row.name in result.findings[0].object
    assert shop.manifest.segments == before.segments


def test_a_segment_that_is_gone_is_left_to_the_next_run(shop: CrowdedShop) -> None:
    fill(shop)
    shop.store()
    before = shop.manifest
    Path(shop.url, shop.orders.path_of(0).prefix, f"{before.segments[1].name}.kfs").unlink()
    result = shop.by_many()
    assert result is not None
    assert result.outcome == "moved"
    assert shop.manifest.segments == before.segments


def test_transactions_are_left_to_one(shop: CrowdedShop, monkeypatch: pytest.MonkeyPatch) -> None:
    """They come with topics that were imported; a journal takes none."""
    fill(shop)
    monkeypatch.setattr("lakelog.journal.requests._TRANSACTIONS", 0)
    records = [Record(offset=0, timestamp=5, key=b"k1", value=b"t")]
    new = NewBatch(
        records=records, is_transactional=True, producer_id=7, producer_epoch=0, base_sequence=0
    )
    lane = shop.lanes[shop.orders.lane(0)]
    shop.run(append(lane, [new_append(shop.orders.id, 0, encode_batch(new))]))
    shop.store()
    before = shop.manifest
    assert shop.by_many() is None
    assert shop.manifest.segments == before.segments
    assert run_here(shop.job).outcomes == {"compacted": 1}
