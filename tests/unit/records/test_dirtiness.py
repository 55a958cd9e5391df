"""When a log is cleaned and how far: stories about segments of 100 bytes and ten offsets."""

from typing import Any

import pytest

from lakelog.records.dirtiness import Cleanable, SegmentDirtiness, dirty_ratio, plan_cleaning

NOW = 1_000_000


def plan(marks: str, *, last: int = NOW, **settings: Any) -> Cleanable:
    """Segments, ``c`` cleaned and ``d`` dirty; the last ends at ``last``, each takes 1000 ms."""
    count = len(marks)
    segments = [
        SegmentDirtiness(
            base_offset=10 * i,
            next_offset=10 * i + 10,
            size_bytes=100,
            first_timestamp=last - 1000 * (count - i),
            max_timestamp=last - 1000 * (count - i - 1),
            is_cleaned=mark == "c",
        )
        for i, mark in enumerate(marks)
    ]
    return plan_cleaning(segments, now_ms=NOW, **settings)


def span(found: Cleanable) -> tuple[int, int]:
    return found.dirty_from, found.clean_to


def test_a_log_without_segments_is_clean() -> None:
    found = plan("")
    assert (span(found), found.ratio, found.is_due) == ((0, 0), 0.0, False)


def test_a_log_that_was_cleaned_is_clean() -> None:
    found = plan("ccc")
    assert (span(found), found.ratio, found.is_due) == ((30, 30), 0.0, False)


def test_a_log_that_was_never_cleaned_is_all_dirty() -> None:
    found = plan("dd")
    assert (span(found), found.ratio, found.is_due) == ((0, 20), 1.0, True)


@pytest.mark.parametrize(
    ("marks", "is_due"), [("cccd", False), ("ccdd", False), ("cddd", True), ("dddd", True)]
)
def test_a_log_is_due_when_more_than_half_is_dirty(marks: str, is_due: bool) -> None:
    assert plan(marks).is_due is is_due


def test_how_much_must_be_dirty_can_be_said() -> None:
    assert plan("cccd", min_ratio=0.2).is_due
    assert not plan("dddd", min_ratio=1).is_due


def test_what_is_cleaned_behind_what_is_dirty_counts_as_dirty() -> None:
    found = plan("cdcd")
    assert (span(found), found.clean_bytes, found.dirty_bytes) == ((10, 40), 100, 300)


@pytest.mark.parametrize(
    ("lag", "clean_to"), [(0, 40), (1, 30), (1000, 30), (1001, 20), (10**9, 0)]
)
def test_segments_with_records_younger_than_the_least_lag_wait(lag: int, clean_to: int) -> None:
    """A record that is exactly as old as that is old enough."""
    found = plan("dddd", min_lag_ms=lag)
    assert found.clean_to == clean_to
    assert found.is_due is (clean_to > 0)


def test_young_segments_do_not_count_as_dirty() -> None:
    found = plan("ccddd", min_lag_ms=2000)
    assert (found.clean_bytes, found.dirty_bytes, found.is_due) == (200, 100, False)


def test_what_is_not_stable_is_not_cleaned() -> None:
    assert plan("dddd", stable_offset=25).clean_to == 20
    assert plan("dddd", stable_offset=30).clean_to == 30
    assert plan("cddd", stable_offset=3).clean_to == 10


def test_a_record_that_waited_for_too_long_makes_a_log_due() -> None:
    assert not plan("cccccd", max_lag_ms=1000).is_due
    found = plan("cccccd", max_lag_ms=999)
    assert (found.is_due, found.waits_ms) == (True, 1)


def test_nothing_is_due_while_all_that_waits_is_too_young() -> None:
    found = plan("cd", max_lag_ms=1, min_lag_ms=10)
    assert (found.waits_ms, found.dirty_bytes, found.is_due) == (999, 0, False)


def test_times_that_nobody_knows_wait_for_nothing() -> None:
    rows = [SegmentDirtiness(0, 10, 100, -1, -1, False)]
    assert plan_cleaning(rows, now_ms=NOW, max_lag_ms=1).waits_ms == 0


def test_the_ratio_of_nothing_is_zero() -> None:
    assert [dirty_ratio(0, 0), dirty_ratio(3, 1), dirty_ratio(0, 9)] == [0.0, 0.25, 1.0]
