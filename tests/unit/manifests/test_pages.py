"""Pages: a manifest stays small, and thousands of segments are found all the same."""

from dataclasses import replace

import pytest

from lakelog.catalog import Topic
from lakelog.errors import CorruptError, NotFoundError
from lakelog.maintenance import SealSettings, retain_partition
from lakelog.manifests import (
    ROWS_GOAL,
    ROWS_MAX,
    Manifest,
    PartitionPath,
    SegmentRow,
    change_manifest,
    changes,
    encode_manifest,
    encode_page,
    find_row,
    read_rows,
    turn_page,
)
from lakelog.names import manifest_key
from lakelog.store import Delete, Get, PutIfAbsent, PutIfMatch
from tests.unit.log.site import (
    GRACE_MS,
    Site,
    counting,
    first,
    killed_at_every_step,
    lose_answer,
    spans,
)


@pytest.fixture
def site() -> Site:
    return Site()


def row(number: int, width: int = 10, *, at: int = 0) -> SegmentRow:
    base = at + number * width
    name = f"segment-{base:020}"
    return SegmentRow(name, base, base + width, 0, 7, width, number, number + 1, number, 0, 1, 0)


def grown(site: Site, where: PartitionPath, rows: int) -> Manifest:
    """A history of so many segments, sealed a few at a time and put onto pages as a keeper does."""
    done = 0
    while done < rows:
        some = min(rows - done, 200)
        site.run(change_manifest(where, f"w{done}", lambda now, some=some: _more(now, some)))  # type: ignore[misc]
        done += some
        while site.run(turn_page(where, site.id(), site.now_ms)):
            pass
    return site.manifest(where)


def _more(now: Manifest, some: int) -> Manifest:
    first_ = now.sealed_end // 10
    rows = tuple(row(first_ + at) for at in range(some))
    return now.next(f"w{first_}", segments=(*now.segments, *rows), sealed_end=rows[-1].next_offset)


@pytest.fixture
def topic(site: Site) -> Topic:
    return site.topic(retention_ms="-1", retention_bytes="-1")


def test_a_short_manifest_stays_as_it_is(site: Site, topic: Topic) -> None:
    where = topic.path_of(0)
    now = grown(site, where, ROWS_MAX)
    assert (now.pages, len(now.segments)) == ((), ROWS_MAX)
    assert site.names(where) == set()


def test_a_long_one_keeps_the_newest_rows_and_the_rest_is_on_pages(
    site: Site, topic: Topic
) -> None:
    where = topic.path_of(0)
    now = grown(site, where, 5000)
    assert ROWS_GOAL <= len(now.segments) <= ROWS_MAX
    assert sum(page.rows for page in now.pages) + len(now.segments) == 5000
    assert len(encode_manifest(now)) < 64 << 10
    assert now.intents == ()
    assert site.run(read_rows(where, now)) == [row(at) for at in range(5000)]
    first_page = now.pages[0]
    assert first_page.length == 7 * first_page.rows
    assert (first_page.min_timestamp, first_page.max_timestamp) == (0, first_page.rows)
    assert first_page.appended_ms == first_page.rows - 1


def test_every_offset_is_found_by_one_page(site: Site, topic: Topic) -> None:
    where = topic.path_of(0)
    now = grown(site, where, 3000)
    assert len(now.pages) > 5
    for offset in (0, 9, 10, 4321, 9999, 17_777, 25_000, 29_999):
        seen, perform = counting(site)
        assert site.run(find_row(where, now, offset), perform) == row(offset // 10)
        assert len(seen) <= 1
        assert site.run(read_rows(where, now, offset))[0] == row(offset // 10)


def test_a_page_that_is_gone_or_another_is_not_passed_over(site: Site, topic: Topic) -> None:
    where = topic.path_of(0)
    now = grown(site, where, 1500)
    key = f"{where.prefix}{now.pages[0].name}.json"
    wrong = (encode_page([]), encode_page([row(0)]), encode_page([row(at) for at in range(1, 400)]))
    for body in wrong:
        site.replace(key, body)
        with pytest.raises(CorruptError, match="page"):
            site.run(find_row(where, now, 0))
    site.perform(Delete(key))
    with pytest.raises(NotFoundError):
        site.run(read_rows(where, now))


def test_two_who_turn_a_page_at_once_turn_one(site: Site, topic: Topic) -> None:
    where = topic.path_of(0)
    site.run(change_manifest(where, "w", lambda now: _more(now, 600)))
    other = first(
        site, PutIfMatch, "manifest",
        lambda: site.run(turn_page(where, site.id(), site.now_ms)), nth=2,
    )  # fmt: skip
    site.run(turn_page(where, site.id(), site.now_ms), other)
    now = site.manifest(where)
    assert len(now.pages) == 1
    assert site.run(read_rows(where, now)) == [row(at) for at in range(600)]
    site.pass_ms(GRACE_MS)
    assert site.sweep(where) == 1
    assert len(site.names(where)) == 1
    assert site.manifest(where).intents == ()


def test_a_page_whose_answer_was_lost_is_turned_once(site: Site, topic: Topic) -> None:
    where = topic.path_of(0)
    site.run(change_manifest(where, "w", lambda now: _more(now, 600)))
    flow = turn_page(where, site.id(), site.now_ms)
    assert site.run(flow, lose_answer(site, PutIfMatch, "manifest", times=2))
    assert len(site.manifest(where).pages) == 1


def test_rows_that_were_dropped_meanwhile_do_not_come_back_on_a_page(
    site: Site, topic: Topic
) -> None:
    where = topic.path_of(0)
    site.run(change_manifest(where, "w", lambda now: _more(now, 600)))

    def drop() -> None:
        site.delete_records(where, 50)
        site.run(change_manifest(where, "d", lambda now: changes.drop(now, "d", {})))

    flow = turn_page(where, site.id(), site.now_ms)
    assert not site.run(flow, first(site, PutIfAbsent, ".json", drop))
    now = site.manifest(where)
    assert (now.pages, now.segments[0]) == ((), row(5))


def test_rows_with_a_hole_between_them_wait_for_the_first_to_be_dropped(
    site: Site, topic: Topic
) -> None:
    """What nobody may read was not sealed: there is a hole, and a page has none."""
    where = topic.path_of(0)
    site.run(change_manifest(where, "w", lambda now: _more(now, 100)))
    site.delete_records(where, 1500)
    site.run(change_manifest(where, "s", lambda now: changes.skip(now, "s", 1500)))
    site.run(change_manifest(where, "v", lambda now: _more(now, 600)))
    assert site.manifest(where).segments[100].base_offset == 1500
    assert not site.run(turn_page(where, site.id(), site.now_ms))
    site.run(retain_partition(topic, where, site.id, now_ms=site.now_ms))
    assert site.run(turn_page(where, site.id(), site.now_ms))
    now = site.manifest(where)
    assert site.run(find_row(where, now, 1500)).base_offset == 1500


def test_nobody_turns_a_page_of_a_deleted_topic(site: Site, topic: Topic) -> None:
    where = topic.path_of(0)
    site.run(change_manifest(where, "w", lambda now: _more(now, 600)))
    flow = turn_page(where, site.id(), site.now_ms)

    def delete() -> None:
        site.run(change_manifest(where, "d", lambda now: changes.delete(now, "d")))

    assert not site.run(flow, first(site, PutIfAbsent, ".json", delete))
    assert site.manifest(where).pages == ()
    assert not site.run(turn_page(where, site.id(), site.now_ms))


# ---------------------------------------------------------------------------- with records


def test_a_log_of_many_segments_is_read_through_its_pages(site: Site, topic: Topic) -> None:
    """Six hundred segments, of which most are on a page; then retention takes that page."""
    where = topic.path_of(0)
    lane = site.lane()
    log = site.fill(lane, where, 600, count=1)
    site.seal(SealSettings(segment_bytes=1))
    assert site.run(turn_page(where, site.id(), site.now_ms))
    now = site.manifest(where)
    assert (len(now.pages), len(now.segments)) == (1, ROWS_GOAL)
    site.trim(idle=True)
    site.pass_ms(GRACE_MS)
    site.reap()
    site.sweep(where)
    assert site.log(where) == log
    site.delete_records(where, 400)
    after = site.run(retain_partition(topic, where, site.id, now_ms=site.now_ms))
    assert after.pages == ()
    assert len(after.dropped) == 400 + 1
    assert site.sweep(where) == 0
    site.pass_ms(GRACE_MS)
    assert site.sweep(where) == 3 * 400 + 1
    assert spans(site.log_from(where, 590)) == [(at, at + 1) for at in range(590, 600)]
    for offset in (400, 401, 599):
        assert site.read(where, offset, 1).body == log[offset]


def test_retention_takes_whole_pages_and_no_page_that_is_still_needed(
    site: Site, topic: Topic
) -> None:
    where = topic.path_of(0)
    now = grown(site, where, 2000)
    start = now.pages[1].next_offset - 10
    site.delete_records(where, start)
    after = site.run(retain_partition(topic, where, site.id, now_ms=site.now_ms))
    assert after.pages == now.pages[1:]
    assert len(after.dropped) == now.pages[0].rows + 1
    assert site.run(find_row(where, after, start)).base_offset == start


def test_a_page_that_cannot_be_read_is_dropped_another_time(site: Site, topic: Topic) -> None:
    where = topic.path_of(0)
    now = grown(site, where, 2000)
    site.delete_records(where, 20_000)
    keep = first(
        site, Get, ".json", lambda: site.perform(Delete(f"{where.prefix}{now.pages[0].name}.json"))
    )
    after = site.run(retain_partition(topic, where, site.id, now_ms=site.now_ms), keep)
    assert after.pages == now.pages
    assert len(after.segments) == len(now.segments)


def test_killed_anywhere_a_page_is_turned_or_not() -> None:
    wheres: list[PartitionPath] = []

    def make() -> Site:
        site = Site()
        wheres[:] = [site.topic().path_of(0)]
        site.run(change_manifest(wheres[0], "w", lambda now: _more(now, 600)))
        return site

    for site in killed_at_every_step(
        make, lambda site: turn_page(wheres[0], site.id(), site.now_ms)
    ):
        where = wheres[0]
        assert site.run(read_rows(where, site.manifest(where))) == [row(at) for at in range(600)]
        site.pass_ms(GRACE_MS)
        site.run(turn_page(where, site.id(), site.now_ms))
        site.sweep(where)
        now = site.manifest(where)
        assert site.run(read_rows(where, now)) == [row(at) for at in range(600)]
        assert {f"{page.name}.json" for page in now.pages} == site.names(where)
        assert len(now.pages) == 1


def test_the_manifest_of_a_deleted_topic_names_what_was_on_its_pages(site: Site) -> None:
    topic = site.topic("gone")
    where = topic.path_of(0)
    grown(site, where, 1000)
    deleted = replace(topic, deleted=True)
    after = site.run(retain_partition(deleted, where, site.id, now_ms=site.now_ms))
    assert after.deleted
    names = {one.name for one in after.dropped}
    assert {row(at).name for at in range(1000)} < names
    assert manifest_key(where.path, 0) in site.objects()
