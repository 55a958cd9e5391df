"""reindex, without Spark."""

from itertools import chain, repeat
from pathlib import Path

import pytest

from lakelog.errors import ConflictError, InvalidInputError, NotFoundError, UnavailableError
from lakelog.host import THIS_HOST
from lakelog.pipeline import Reindex, Verify, run_here
from lakelog.pipeline.output import put_once, replace_once
from lakelog.store import Exists, MemoryStore, PutIfAbsent, StoreSpec, run, working
from tests.stores import make_records, write_partition

INDEXED = {"kafka": (".index", ".timeindex"), "kafs": (".index",), "rustlog": (".index",)}


@pytest.fixture(params=INDEXED)
def layout(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def reindex(root: Path, layout: str, *, closed: bool = True) -> Reindex:
    return Reindex(source=StoreSpec(str(root)), layout=layout, closed=closed)


def side_files(root: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in root.rglob("*index")}


def write(root: Path, layout: str) -> dict[str, bytes]:
    write_partition(root, layout, make_records(layout, 9000), segment_records=3000)
    return side_files(root)


def test_what_is_missing_is_made_as_it_was(tmp_path: Path, layout: str) -> None:
    made = write(tmp_path, layout)
    for path in tmp_path.rglob("*index"):
        path.unlink()
    report = run_here(reindex(tmp_path, layout))
    assert report.outcomes == {"rebuilt": 3}
    assert side_files(tmp_path) == made
    assert run_here(reindex(tmp_path, layout)).outcomes == {"good": 3}


def test_what_is_wrong_is_replaced(tmp_path: Path, layout: str) -> None:
    made = write(tmp_path, layout)
    victim = sorted(tmp_path.rglob("*.index"))[1]
    victim.write_bytes(victim.read_bytes()[:-3])
    assert not run_here(
        Verify(host=THIS_HOST, source=StoreSpec(str(tmp_path)), layout=layout)
    ).is_good
    report = run_here(reindex(tmp_path, layout))
    assert report.outcomes == {"good": 2, "rebuilt": 1}
    assert side_files(tmp_path) == made


def test_what_is_sound_is_left_alone(tmp_path: Path, layout: str) -> None:
    write(tmp_path, layout)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*index")}
    assert run_here(reindex(tmp_path, layout)).outcomes == {"good": 3}
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*index")} == before


def test_damaged_data_gets_no_index(tmp_path: Path, layout: str) -> None:
    write(tmp_path, layout)
    for path in tmp_path.rglob("*.index"):
        path.unlink()
    victim = sorted(p for p in tmp_path.rglob("*") if p.suffix in (".log", ".kfs"))[0]
    data = bytearray(victim.read_bytes())
    data[4 if layout == "rustlog" else 1000] ^= 0x40
    victim.write_bytes(data)
    report = run_here(reindex(tmp_path, layout))
    assert report.outcomes == {"damaged": 1, "rebuilt": 2}
    assert not victim.with_suffix(".index").exists()


def test_a_segment_that_is_written_to_is_left_to_its_writer(tmp_path: Path) -> None:
    write(tmp_path, "kafka")
    for path in tmp_path.rglob("*.index"):
        path.unlink()
    report = run_here(reindex(tmp_path, "kafka", closed=False))
    assert report.outcomes == {"active": 1, "rebuilt": 2}


def test_strm_has_nothing_to_make(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="inside"):
        run_here(reindex(tmp_path, "strm"))


# ---------------------------------------------------------------------------- writing once


def test_an_object_is_made_once_and_found_afterwards() -> None:
    store = MemoryStore()
    assert run(put_once("a", b"1"), working(store.perform)) is True
    assert run(put_once("a", b"1"), working(store.perform)) is False
    with pytest.raises(ConflictError, match="other bytes"):
        run(put_once("a", b"2"), working(store.perform))


def test_a_lost_answer_is_no_failure() -> None:
    store = MemoryStore()
    lost = chain([True, False], repeat(True))
    waits: list[float] = []

    def perform(op: object) -> object:
        answer = store.perform(op)  # type: ignore[arg-type]
        if isinstance(op, PutIfAbsent) and next(lost):
            raise UnavailableError("no answer")
        return answer

    work = working(perform, sleep=waits.append)
    assert run(put_once("a", b"1"), work) is True
    with pytest.raises(UnavailableError):
        run(put_once("b", b"1"), work)
    assert len(waits) == 10
    assert sum(waits) > 1, "a store that is in trouble is given time"


def test_an_object_that_comes_and_goes_is_tried_four_times_with_pauses_that_grow() -> None:
    puts = 0
    waits: list[float] = []

    def perform(op: object) -> object:
        nonlocal puts
        if not isinstance(op, PutIfAbsent):
            raise NotFoundError("it is gone")
        puts += 1
        assert puts <= 4, "it goes on for ever"
        return Exists()

    with pytest.raises(UnavailableError, match=r"a was there and gone again.*4 attem"):
        run(put_once("a", b"1"), working(perform, sleep=waits.append))
    assert puts == 4
    assert len(waits) == 3
    bounds = (0.1, 0.2, 0.4)
    assert all(0 < wait <= bound for wait, bound in zip(waits, bounds, strict=True))


def test_an_object_that_was_gone_once_is_made() -> None:
    store, was_there = MemoryStore(), chain([True], repeat(False))
    waits: list[float] = []

    def perform(op: object) -> object:
        if isinstance(op, PutIfAbsent) and next(was_there):
            return Exists()
        return store.perform(op)  # type: ignore[arg-type]

    assert run(put_once("a", b"1"), working(perform, sleep=waits.append)) is True
    assert len(waits) == 1


def test_a_replacement_minds_what_it_replaces() -> None:
    store = MemoryStore()
    etag = store.perform(PutIfAbsent("a", b"1")).etag
    run(replace_once("a", b"2", etag), store.perform)
    with pytest.raises(ConflictError, match="run again"):
        run(replace_once("a", b"3", etag), store.perform)
