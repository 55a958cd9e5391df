"""A manifest as a value and as bytes: what is refused, and what can happen to one."""

import json
from dataclasses import replace
from typing import Any

import pytest

from lakelog.errors import CorruptError, UnsupportedError
from lakelog.manifests import (
    Dropped,
    Intent,
    Manifest,
    PageRow,
    PartitionPath,
    SegmentRow,
    change_manifest,
    changes,
    decode_manifest,
    decode_page,
    encode_manifest,
    encode_page,
    read_manifest,
)
from lakelog.names import manifest_key
from lakelog.store import PutIfAbsent, PutIfMatch
from tests.unit.log.site import Site, first, lose_answer

TOPIC = bytes(range(16))
HERE = PartitionPath(TOPIC, "orders", 3)


def row(base: int, next_: int, name: str = "") -> SegmentRow:
    name = name or f"segment-{base:020}"
    return SegmentRow(name, base, next_, 0, 100, next_ - base, 1, 2, 3, 4, 5, 0)


def page(base: int, next_: int) -> PageRow:
    return PageRow(f"page-{base}", base, next_, 2, 200, 1, 2, 3)


def made(*rows: SegmentRow, **fields: Any) -> Manifest:
    end = rows[-1].next_offset if rows else 0
    given: dict[str, Any] = {"sealed_end": end, "segments": rows, **fields}
    return Manifest(topic=TOPIC, partition=3, **given)


FULL = made(
    row(20, 30), row(30, 40), pages=(page(0, 10), page(10, 20)), log_start=5, burnt=True,
    intents=(Intent("w", "seal", 40, 50, 7),), dropped=(Dropped("segment-x", 8),),
    writers=("a", "b"), generation=9,
)  # fmt: skip


def test_the_bytes_are_written_down() -> None:
    """Whoever reads a bucket by hand, or with another program, finds this."""
    assert json.loads(encode_manifest(FULL)) == {
        "format": 1, "topic": TOPIC.hex(), "partition": 3, "generation": 9, "sealed_end": 40,
        "log_start": 5, "cleaned_end": 0, "deleted": False, "burnt": True,
        "pages": [["page-0", 0, 10, 2, 200, 1, 2, 3], ["page-10", 10, 20, 2, 200, 1, 2, 3]],
        "segments": [
            ["segment-00000000000000000020", 20, 30, 0, 100, 10, 1, 2, 3, 4, 5, 0],
            ["segment-00000000000000000030", 30, 40, 0, 100, 10, 1, 2, 3, 4, 5, 0],
        ],
        "intents": [["w", "seal", 40, 50, 7]], "dropped": [["segment-x", 8]],
        "writers": ["a", "b"],
    }  # fmt: skip
    assert decode_manifest(encode_manifest(FULL)) == FULL


@pytest.mark.parametrize(
    ("rows", "fields"),
    [
        ((row(0, 10), row(11, 20)), {}),
        ((row(0, 10), row(9, 20)), {}),
        ((row(10, 20), row(0, 10)), {"sealed_end": 20}),
        ((row(0, 10), row(0, 10, "other")), {"sealed_end": 10}),
        ((row(5, 5),), {}),
        ((row(5, 4),), {"sealed_end": 9}),
        ((row(3, 10),), {}),
        ((row(3, 10),), {"log_start": 2}),
        ((row(0, 10),), {"sealed_end": 9}),
        ((row(0, 10),), {"sealed_end": 11}),
        ((row(0, 10),), {"sealed_end": 15, "log_start": 14}),
        ((), {"sealed_end": 1}),
        ((row(20, 30),), {"pages": (page(0, 10),)}),
        ((row(5, 30),), {"pages": (page(0, 10),)}),
        ((), {"sealed_end": -1}),
        ((), {"log_start": -1}),
        ((), {"partition": -1}),
        ((), {"topic": b"short"}),
    ],
)
def test_a_manifest_with_a_hole_cannot_be(
    rows: tuple[SegmentRow, ...], fields: dict[str, Any]
) -> None:
    given: dict[str, Any] = {"topic": TOPIC, "partition": 3, "segments": rows}
    given["sealed_end"] = rows[-1].next_offset if rows else 0
    with pytest.raises(CorruptError, match="manifest"):
        Manifest(**{**given, **fields})


def test_before_the_start_there_may_be_a_hole() -> None:
    made(row(0, 10), row(20, 30), log_start=20)
    made(row(20, 30), log_start=25)
    made(log_start=20, sealed_end=20)
    made(log_start=20, sealed_end=10)
    made(log_start=20)


GOOD: dict[str, Any] = json.loads(encode_manifest(FULL))
WRONG: list[dict[str, Any]] = [
    {"topic": "zz"}, {"topic": "00"}, {"topic": 5}, {"partition": "3"}, {"partition": True},
    {"partition": 3.0}, {"generation": None}, {"sealed_end": 4e1}, {"log_start": float("inf")},
    {"deleted": 0}, {"deleted": "true"}, {"deleted": None}, {"burnt": 1}, {"segments": None},
    {"segments": [[]]}, {"segments": [5]}, {"segments": [GOOD["segments"][0][:-1]]},
    {"segments": [[*GOOD["segments"][0], 0]]}, {"segments": ["x" * 12]},
    {"segments": [[5, *GOOD["segments"][0][1:]]]}, {"pages": {"a": 1}}, {"pages": [None]},
    {"intents": [["w", "seal", 40, 50]]}, {"intents": [["w", "seal", "40", 50, 7]]},
    {"dropped": [["x", 1.5]]}, {"dropped": 7}, {"writers": 7}, {"writers": None},
    {"sealed_end": 41}, {"cleaned_end": 41}, {"cleaned_end": -1}, {"cleaned_end": None},
]  # fmt: skip
NOISE = [
    b"", b"{", b"[]", b"7", b"null", b'"x"', b"\xff", b"[" * 100_000, b"{}",
    b'{"format": 1}', b"1" * 5000,
]  # fmt: skip


@pytest.mark.parametrize(
    "body",
    [
        *NOISE,
        *(json.dumps({**GOOD, **wrong}).encode() for wrong in WRONG),
        *(
            json.dumps({k: v for k, v in GOOD.items() if k != name}).encode()
            for name in GOOD.keys() - {"cleaned_end"}
        ),
    ],
)
def test_what_is_no_manifest_is_refused(body: bytes) -> None:
    with pytest.raises(CorruptError, match="manifest"):
        decode_manifest(body)


@pytest.mark.parametrize(
    "body",
    [
        *NOISE[:-3],
        encode_page([row(0, 10), row(11, 20)]),
        encode_page([row(0, 10), row(5, 20)]),
        encode_page([row(10, 20), row(0, 10)]),
        b'{"format": 1, "segments": 7}',
        b'{"format": 1, "segments": [[1]]}',
        b'{"format": 1}',
    ],
)
def test_what_is_no_page_is_refused(body: bytes) -> None:
    with pytest.raises(CorruptError, match="manifest"):
        decode_page(body)


@pytest.mark.parametrize("version", [0, 2, "1", None])
def test_a_later_version_asks_for_a_newer_reader(version: object) -> None:
    with pytest.raises(UnsupportedError, match="newer"):
        decode_manifest(json.dumps({**GOOD, "format": version}).encode())
    with pytest.raises(UnsupportedError, match="newer"):
        decode_page(json.dumps({"format": version, "segments": []}).encode())


# ---------------------------------------------------------------------------- changes


def begun(now: Manifest, write: str = "w", base: int = 0, next_: int = 10) -> Manifest:
    after = changes.begin(now, Intent(write, "seal", base, next_, 5))
    assert after is not None
    return after


def test_rows_are_taken_only_where_history_ends_and_only_if_announced() -> None:
    now = begun(made(row(0, 10)), base=10)
    assert changes.seal(now, "w", 9, (row(9, 20),)) is None
    assert changes.seal(now, "w", 11, (row(11, 20),)) is None
    assert changes.seal(now, "other", 10, (row(10, 20),)) is None
    after = changes.seal(now, "w", 10, (row(10, 15), row(15, 20)))
    assert after is not None
    assert (after.sealed_end, len(after.segments), after.intents) == (20, 3, ())
    assert changes.seal(after, "w", 10, (row(10, 20),)) is None
    assert changes.seal(after, "w", 20, (row(20, 30),)) is None


def test_a_cancelled_writer_cannot_commit() -> None:
    now = begun(made())
    assert changes.cancel(now, "s", 4) is None
    after = changes.cancel(now, "s", 5)
    assert after is not None
    assert changes.seal(after, "w", 0, (row(0, 10),)) is None
    assert changes.page(after, "w", page(0, 10), (row(0, 10),)) is None


def test_a_start_goes_up_only() -> None:
    now = made(row(0, 10), log_start=5)
    assert changes.start(now, "w", 5) is None
    assert changes.start(now, "w", 4) is None
    after = changes.start(now, "w", 50)
    assert after is not None
    assert (after.log_start, after.sealed_end) == (50, 10)


def test_a_skip_goes_up_and_not_beyond_the_start() -> None:
    now = made(row(0, 10), log_start=20)
    assert changes.skip(now, "w", 21) is None
    assert changes.skip(now, "w", 10) is None
    after = changes.skip(now, "w", 20)
    assert after is not None
    assert after.sealed_end == 20


def test_what_lies_before_the_start_is_dropped_from_the_front() -> None:
    now = replace(FULL, log_start=30, dropped=())
    names = {"page-0": ("s0", "s1"), "page-10": ("s2",)}
    after = changes.drop(now, "w", names)
    assert after is not None
    assert after.pages == ()
    assert [one.base_offset for one in after.segments] == [30]
    gone = ["s0", "s1", "page-0", "s2", "page-10", "segment-00000000000000000020"]
    assert [(one.name, one.since_ms) for one in after.dropped] == [(name, 0) for name in gone]
    assert changes.drop(after, "w", {}) is None


def test_behind_a_page_that_could_not_be_read_everything_stays() -> None:
    now = replace(FULL, log_start=30, dropped=())
    assert changes.drop(now, "w", {}) is None
    after = changes.drop(now, "w", {"page-0": ("s0",)})
    assert after is not None
    assert [one.name for one in after.pages] == ["page-10"]
    assert after.segments == now.segments


def test_a_page_replaces_the_very_rows_it_is_of() -> None:
    now = begun(made(row(0, 5), row(5, 10), row(10, 20)))
    rows = (row(0, 5), row(5, 10))
    wrong = (row(0, 5), row(5, 10)._replace(name="rewritten since"))
    assert changes.page(now, "w", page(0, 10), wrong) is None
    assert changes.page(now, "w", page(5, 10), (row(5, 10),)) is None
    assert changes.page(now, "other", page(0, 10), rows) is None
    after = changes.page(now, "w", page(0, 10), rows)
    assert after is not None
    assert (after.pages, after.segments, after.intents) == ((page(0, 10),), (row(10, 20),), ())


def test_after_deletion_nothing_comes_back() -> None:
    now = changes.delete(FULL, "d")
    assert now is not None
    assert (now.deleted, now.intents) == (True, ())
    assert (now.log_start, now.sealed_end) == (40, 40)
    now = changes.drop(now, "e", {"page-0": ("s0",), "page-10": ("s1",)})
    assert now is not None
    assert (now.pages, now.segments) == ((), ())
    names = {one.name for one in now.dropped}
    assert names >= {"segment-x", "s0", "page-0", "page-10", "segment-00000000000000000020"}
    assert changes.delete(now, "d") is None
    assert changes.begin(now, Intent("w", "seal", 40, 50, 7)) is None
    assert changes.seal(now, "w", 40, (row(40, 50),)) is None
    assert changes.skip(now, "w", 40) is None
    assert changes.start(now, "w", 60) is None
    assert changes.page(now, "w", page(0, 10), (row(0, 10),)) is None


def test_names_that_are_burnt_stay_so() -> None:
    after = changes.burn(made(), "w")
    assert after is not None
    assert after.burnt
    assert changes.burn(after, "w") is None


# ---------------------------------------------------------------------------- cells


def test_a_partition_without_a_manifest_has_an_empty_history() -> None:
    assert Site().run(read_manifest(HERE)) == made()


def test_a_manifest_of_another_partition_or_topic_is_refused() -> None:
    for other in (replace(FULL, partition=4), replace(FULL, topic=bytes(16))):
        site = Site()
        site.perform(PutIfAbsent(manifest_key("orders", 3), encode_manifest(other)))
        with pytest.raises(CorruptError, match="orders/3/manifest"):
            site.run(read_manifest(HERE))
        before = site.objects()
        with pytest.raises(CorruptError, match="orders/3/manifest"):
            site.run(change_manifest(HERE, "w", lambda now: changes.start(now, "w", 99)))
        assert site.objects() == before


@pytest.mark.parametrize("kind", [PutIfAbsent, PutIfMatch])
def test_a_change_whose_answer_was_lost_happens_once(kind: type) -> None:
    site = Site()
    if kind is PutIfMatch:
        site.run(change_manifest(HERE, "a", lambda now: changes.start(now, "a", 1)))
    flow = change_manifest(HERE, "w", lambda now: now.next("w", log_start=now.log_start + 10))
    after = site.run(flow, lose_answer(site, kind, "manifest", times=3))
    assert after.log_start == 10 + (kind is PutIfMatch)
    assert after == site.run(read_manifest(HERE))


def test_of_two_changes_both_happen() -> None:
    site = Site()

    def other() -> None:
        site.run(change_manifest(HERE, "b", lambda now: changes.burn(now, "b")))

    flow = change_manifest(HERE, "a", lambda now: changes.start(now, "a", 7))
    after = site.run(flow, first(site, PutIfAbsent, "manifest", other))
    assert (after.burnt, after.log_start, after.generation) == (True, 7, 2)
    assert after.writers == ("b", "a")
