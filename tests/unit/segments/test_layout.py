"""Segments are found by the names of objects, whatever else lies around."""

import pytest

from lakelog.errors import InvalidInputError
from lakelog.records import OFFSET_MAX
from lakelog.segments import (
    LAYOUTS,
    SegmentRef,
    find_directories,
    layout_named,
)


def found(layout: str, *keys: str) -> list[SegmentRef]:
    objects = [(key, 100 + len(key)) for key in sorted(keys)]
    directories = find_directories(LAYOUTS[layout], objects)
    return [segment for directory in directories for segment in directory.segments]


def places(segments: list[SegmentRef]) -> list[tuple[str, int, int]]:
    return [(ref.topic, ref.partition, ref.base_offset) for ref in segments]


def test_a_broker_s_directory_holds_partitions_by_name() -> None:
    segments = found(
        "kafka",
        "d/orders-eu-0/00000000000000000000.log",
        "d/orders-eu-0/00000000000000000000.index",
        "d/orders-eu-0/00000000000000000500.log",
        "d/orders-eu-0/00000000000000000500.timeindex",
        "d/orders-eu-0/00000000000000000900.index",
        "d/orders-eu-0/00000000000000000200.log.deleted",
        "d/orders-eu-0/leader-epoch-checkpoint",
        "d/orders-eu-1.0123456789abcdef-delete/00000000000000000000.log",
        "d/meta.properties",
    )
    assert places(segments) == [("orders-eu", 0, 0), ("orders-eu", 0, 500)]
    first, last = segments
    assert (first.next_offset_max, first.active) == (500, False)
    assert (last.next_offset_max, last.active) == (OFFSET_MAX, True)
    assert set(first.sizes) == {".log", ".index"}
    assert first.key(".index") == "d/orders-eu-0/00000000000000000000.index"


def test_a_bucket_of_kafscale_nests_partitions_in_topics() -> None:
    segments = found(
        "kafs",
        "production/orders/0/segment-00000000000000000000.kfs",
        "production/orders/0/segment-00000000000000000000.index",
        "production/orders/10/segment-00000000000000000007.kfs",
        "production/orders/0/segment-00000000000000000000-0badcafe.kfs",
        "production/orders/x/segment-00000000000000000007.kfs",
        "production/orders/00/segment-00000000000000000007.kfs",
        "0/segment-00000000000000000007.kfs",
    )
    assert places(segments) == [("orders", 0, 0), ("orders", 0, 0), ("orders", 10, 7)]
    assert not segments[0].active


def test_a_segment_that_carries_the_id_of_its_write_is_found() -> None:
    (segment,) = found("kafs", "orders/0/segment-00000000000000000040-0badcafe.kfs")
    assert (segment.base_offset, segment.next_offset_max) == (40, OFFSET_MAX)
    assert segment.key(".kfs") == "orders/0/segment-00000000000000000040-0badcafe.kfs"


def test_a_directory_with_a_manifest_and_no_segment_is_found() -> None:
    (directory,) = find_directories(LAYOUTS["kafs"], [("orders/0/manifest", 9)])
    assert (directory.topic, directory.segments, directory.has_manifest) == ("orders", (), True)
    assert not list(find_directories(LAYOUTS["strm"], [("orders/0/manifest", 9)]))


def test_archives_and_local_logs_are_found() -> None:
    assert places(found("strm", "data/t/3/00000000000000000005.seg")) == [("t", 3, 5)]
    assert places(found("rustlog", "data/topics/t/partitions/3/00000000000000000005.log")) == [
        ("t", 3, 5)
    ]
    assert found("rustlog", "data/topics/t/3/00000000000000000005.log") == []


def test_an_unknown_layout_is_refused_by_name() -> None:
    with pytest.raises(InvalidInputError, match="no layout 'avro'; there are kafka, kafs"):
        layout_named("avro")
