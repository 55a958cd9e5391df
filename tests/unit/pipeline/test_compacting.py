"""compact as a job: of each key the newest record stays, at its offset."""

from pathlib import Path

import pytest

from lakelog.catalog import Topic
from lakelog.host import THIS_HOST, new_id
from lakelog.manifests import change_manifest, changes, turn_page
from lakelog.pipeline import (
    Compact,
    CompactSettings,
    Connections,
    plan_job,
)
from lakelog.store import StoreSpec, run
from tests.unit.pipeline.shop import Shop, fill


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def test_of_each_key_the_newest_stays_at_its_offset(shop: Shop) -> None:
    fill(shop)
    shop.store()
    assert len(shop.manifest.segments) > 3
    report = shop.compact()
    assert report.outcomes == {"compacted": 1}
    assert report.records == 7
    assert shop.rows() == shop.newest()
    assert (shop.manifest.cleaned_end, shop.manifest.sealed_end) == (80, 80)
    shop.sweep(shop.orders)
    assert shop.stems() == shop.named(shop.orders)
    assert shop.rows() == shop.newest()


def test_what_is_clean_is_left_alone(shop: Shop) -> None:
    fill(shop)
    shop.store()
    shop.compact()
    before = shop.manifest
    assert shop.compact().outcomes == {}
    assert shop.manifest == before


def test_it_goes_on_where_it_ended(shop: Shop) -> None:
    for _ in range(4):
        fill(shop, 6)
        shop.store()
        assert shop.compact().is_good
        assert shop.rows() == shop.newest()
    fill(shop, 2)
    unsealed = shop.sent[-8:]
    assert shop.rows()[-8:] == unsealed


def test_it_is_due_by_the_rules_of_the_topic(shop: Shop) -> None:
    fill(shop)
    shop.store()
    assert shop.compact(always=False).outcomes == {"compacted": 1}
    shop.send((b"k1", b"one more"))
    shop.store()
    plan, _ = plan_job(Compact(host=THIS_HOST, target=StoreSpec(shop.url)))
    assert [unit.partition for unit in plan.units] == []


def test_a_tombstone_takes_the_others_first_and_goes_later(shop: Shop) -> None:
    shop.send((b"a", b"1"), (b"b", b"1"))
    shop.send((b"a", None))
    shop.store()
    shop.compact()
    assert shop.rows() == [(1, b"b", b"1"), (2, b"a", None)]


def test_records_without_a_key_go(shop: Shop) -> None:
    shop.send((None, b"x"), (b"a", b"1"), (None, b"y"))
    shop.store()
    shop.compact()
    assert shop.rows() == [(1, b"a", b"1")]


def test_where_everything_went_the_log_goes_on_behind(shop: Shop) -> None:
    shop.send((None, b"x"), (None, b"y"))
    shop.store()
    shop.send((None, b"z"))
    shop.store()
    assert shop.compact().is_good
    manifest = shop.manifest
    assert (manifest.segments, manifest.sealed_end, manifest.log_start) == ((), 3, 3)
    shop.send((b"a", b"1"))
    assert shop.rows() == [(3, b"a", b"1")]
    shop.store()
    assert shop.rows() == [(3, b"a", b"1")]


def test_a_map_that_is_full_ends_early_and_the_next_run_goes_on(shop: Shop) -> None:
    fill(shop, 60, keys=100)
    shop.store()
    small = CompactSettings(map_bytes=1024)
    ends = [0]
    while shop.manifest.cleaned_end < shop.manifest.sealed_end:
        assert shop.compact(settings=small).is_good
        assert shop.manifest.cleaned_end > ends[-1]
        ends.append(shop.manifest.cleaned_end)
    assert len(ends) > 3
    assert shop.rows() == shop.newest()


def test_rows_on_pages_are_compacted_as_well(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(shop)
    shop.store()
    monkeypatch.setattr("lakelog.manifests.cells.ROWS_MAX", 3)
    monkeypatch.setattr("lakelog.manifests.cells.ROWS_GOAL", 2)
    assert shop.run(turn_page(shop.orders.path_of(0), new_id(), 0))
    assert shop.manifest.pages
    assert shop.compact().is_good
    assert not shop.manifest.pages
    assert shop.rows() == shop.newest()


def test_who_changed_the_rows_first_wins(shop: Shop) -> None:
    fill(shop)
    shop.store()
    job = Compact(host=THIS_HOST, target=StoreSpec(shop.url), always=True)
    plan, _ = plan_job(job)
    assert shop.compact().is_good
    where, write = shop.orders.path_of(0), new_id().hex()
    shop.run(change_manifest(where, write, lambda now: changes.start(now, write, 70)))
    before = shop.rows()
    step = job.step(plan.units[0])
    assert run(step, Connections(job.stores).perform).outcome == "good"
    assert shop.rows() == before


def test_only_compacted_topics_are_compacted(shop: Shop) -> None:
    other: Topic = shop.topic("other")
    shop.fill(other, 9)
    shop.store()
    before = shop.logs(other)
    assert shop.compact().outcomes == {}
    assert shop.logs(other) == before
