"""Rows that were made elsewhere: a manifest takes them where its history ends."""

import pytest

from lakelog.manifests import Manifest, SegmentRow, changes

EMPTY = Manifest(topic=bytes(15) + b"1", partition=0)


def row(base: int, next_: int) -> SegmentRow:
    return SegmentRow(f"segment-{base}", base, next_, 0, 100, next_ - base, 1, 2, 3, 4, 1, 0)


def adopted(now: Manifest, rows: tuple[SegmentRow, ...], end: int, start: int = 0) -> Manifest:
    after = changes.adopt(now, "me", now.sealed_end, rows, start=start, end=end)
    assert after is not None
    return after


def reach(manifest: Manifest) -> list[tuple[int, int]]:
    return [(one.base_offset, one.next_offset) for one in manifest.segments]


def test_rows_that_touch_are_taken_as_they_are() -> None:
    after = adopted(EMPTY, (row(0, 5), row(5, 9)), 9)
    assert (reach(after), after.sealed_end, after.log_start) == ([(0, 5), (5, 9)], 9, 0)


def test_a_row_reaches_up_to_the_next_and_the_last_to_the_end() -> None:
    after = adopted(EMPTY, (row(10, 12), row(20, 25)), 40, start=11)
    assert (reach(after), after.sealed_end, after.log_start) == ([(10, 20), (20, 40)], 40, 11)


def test_the_last_row_of_before_reaches_up_to_the_first_of_now() -> None:
    before = adopted(EMPTY, (row(0, 5),), 5)
    after = adopted(before, (row(8, 9),), 10, start=7)
    assert (reach(after), after.log_start) == ([(0, 8), (8, 10)], 0)


def test_nothing_but_an_end_is_taken_as_well() -> None:
    after = adopted(EMPTY, (), 70, start=60)
    assert (after.segments, after.sealed_end, after.log_start) == ((), 70, 70)
    behind = adopted(adopted(EMPTY, (row(0, 5),), 5), (), 9)
    assert (reach(behind), behind.sealed_end) == ([(0, 9)], 9)


@pytest.mark.parametrize("end", [0, 5])
def test_what_does_not_go_on_is_left(end: int) -> None:
    before = adopted(EMPTY, (row(0, 5),), 5)
    assert changes.adopt(before, "me", 4, (row(4, 9),), start=0, end=9) is None
    assert changes.adopt(before, "me", 5, (), start=0, end=end) is None
    gone = changes.delete(before, "you")
    assert gone is not None
    assert changes.adopt(gone, "me", 5, (row(5, 9),), start=0, end=9) is None
