"""kafka-dump-log: files on disks and in stores, of Kafka and of others."""

from pathlib import Path

import pytest

from lakelog.cli.dump.kafka_dump_log import run
from lakelog.model import Record
from lakelog.records import NewBatch, encode_batch
from lakelog_kafka_tools.thrown import Thrown
from tests.unit.kafka_tools.scripted import told

_NAME = "00000000000000000005.log"


def _batch(base: int, *values: bytes | None) -> bytes:
    records = [
        Record(offset=base + at, timestamp=7, key=None, value=value)
        for at, value in enumerate(values)
    ]
    return encode_batch(NewBatch(records=records))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / _NAME
    path.write_bytes(_batch(5, b"a", b"b") + _batch(9, b"c"))
    return path


def test_batches_alone_unless_more_is_asked_for(log: Path) -> None:
    found = told(run, "--files", str(log))

    assert found.code == 0
    assert found.err == ""
    begin, start, *batches = found.out.splitlines()
    assert begin == f"Dumping {log}"
    assert start == "Log starting offset: 5"
    assert [line[:14] for line in batches] == ["baseOffset: 5 ", "baseOffset: 9 "]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            ("--deep-iteration",),
            "| offset: 5 CreateTime: 7 keySize: -1 valueSize: 1 sequence: -1 headerKeys: []",
        ),
        (
            ("--print-data-log",),
            (
                "| offset: 5 CreateTime: 7 keySize: -1 valueSize: 1 sequence: -1 headerKeys: []"
                " payload: a"
            ),
        ),
        (("--print-data-log", "--skip-record-metadata"), "| payload: a"),
        (("--deep-iteration", "--skip-record-metadata"), ""),
    ],
)
def test_as_much_of_records_as_is_asked_for(
    log: Path, arguments: tuple[str, ...], line: str
) -> None:
    assert told(run, "--files", str(log), *arguments).out.splitlines()[3] == line


def test_gaps_are_told_at_the_end(log: Path) -> None:
    assert told(run, "--files", str(log), "--deep-iteration").err == (
        f"Non-consecutive offsets in {log}\n  -1 is followed by 5\n  6 is followed by 9\n"
    )


def test_no_more_than_some_bytes_are_read(log: Path) -> None:
    size = len(_batch(5, b"a", b"b"))

    assert told(run, "--files", str(log), "--max-bytes", str(size)).out.count("baseOffset") == 1
    assert told(run, "--files", str(log), "--max-bytes", str(size - 1)).out.count("base") == 0


@pytest.mark.parametrize("byte", [b"\0", b"\1"])
def test_what_is_no_batch_at_the_end_is_counted(log: Path, byte: bytes) -> None:
    log.write_bytes(log.read_bytes() + byte * 7)

    assert told(run, "--files", str(log)).out.endswith(
        f"Found 7 invalid bytes at the end of {_NAME}\n"
    )


def test_an_index_that_contradicts_its_log_is_told_of(log: Path) -> None:
    index = log.with_suffix(".index")
    position = len(_batch(5, b"a", b"b"))
    index.write_bytes((4).to_bytes(4) + position.to_bytes(4) + (7).to_bytes(4) + bytes(4))

    found = told(run, "--files", str(index))

    assert found.out.splitlines()[1:] == [
        f"offset: 9 position: {position}",
        "offset: 12 position: 0",
    ]
    assert found.err == f"Mismatches in :{index}\n  Index offset: 12, log offset: 6\n"


def test_an_object_is_read_where_it_lies(log: Path) -> None:
    here = told(run, "--files", str(log), "--print-data-log").out

    there = told(run, "--files", f"file://{log}", "--print-data-log").out

    assert there == here.replace(f"Dumping {log}", f"Dumping file://{log}")


def test_files_that_nobody_knows_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("x")

    assert told(run, "--files", f"{path},{tmp_path}/no") == (
        0,
        f"Dumping {path}\nDumping {tmp_path}/no\n",
        f"Ignoring unknown file {path}\nIgnoring unknown file {tmp_path}/no\n",
    )


def test_what_is_not_built_is_said(log: Path) -> None:
    with pytest.raises(Thrown, match="--offsets-decoder is not supported here"):
        told(run, "--files", str(log), "--offsets-decoder")


def test_a_file_that_is_not_there_is_javas_exception() -> None:
    with pytest.raises(Thrown, match=r"NoSuchFileException: /no/00000000000000000005\.log"):
        told(run, "--files", f"/no/{_NAME}")
