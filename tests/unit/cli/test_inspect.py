"""inspect: one line per segment, exact, and a total."""

import json
from pathlib import Path

import pytest

from lakelog.formats import FORMATS
from lakelog.model import Record
from lakelog.records import Codec, NewBatch, encode_batch
from tests.unit.cli.making import (
    TIME,
    VALUE_AT,
    batch,
    flipped,
    records,
    run,
    write_log,
    write_segment,
)

INDEX_ENTRIES = {"kafkalog": 0, "kafs": 1, "strm": 1, "rustlog": 3}


def _lines(*args: object) -> list[dict[str, object]]:
    return [json.loads(line) for line in run("inspect", "--json", *args).stdout.splitlines()]


@pytest.mark.parametrize("quick", [(), ("--quick",)])
@pytest.mark.parametrize("name", FORMATS)
def test_a_segment_is_summed_up(tmp_path: Path, name: str, quick: tuple[str, ...]) -> None:
    path = write_segment(tmp_path, name, base_offset=10)

    (line,) = _lines(*quick, path)

    assert line == {
        "kind": "segment",
        "file": str(path),
        "format": name,
        "base_offset": 10,
        "next_offset": 260,
        "records": 250,
        "batches": 250 if name == "rustlog" else 1,
        "size": path.stat().st_size,
        "codecs": ["none"],
        "min_timestamp": TIME + 10,
        "max_timestamp": TIME + 259,
        "producers": 0,
        "index_entries": INDEX_ENTRIES[name],
        "damage": 0,
    }


def test_a_directory_is_totalled(tmp_path: Path) -> None:
    for base in (0, 250):
        write_segment(tmp_path, "kafs", base)
    write_segment(tmp_path / "t-0", "kafkalog")

    *segments, total = _lines(tmp_path)

    assert len(segments) == 3
    assert (total["kind"], total["file"], total["segments"]) == ("total", str(tmp_path), 3)
    assert (total["records"], total["batches"]) == (750, 3)
    assert total["size"] == sum(line["size"] for line in segments)  # type: ignore[misc]
    assert (total["min_timestamp"], total["max_timestamp"]) == (TIME, TIME + 499)


def test_the_earliest_record_need_not_be_the_first(tmp_path: Path) -> None:
    times = (TIME, TIME - 9, TIME + 9)
    records = [
        Record(offset=offset, timestamp=time, key=None, value=None)
        for offset, time in enumerate(times)
    ]
    new = NewBatch(records=records, producer_id=7, producer_epoch=0, base_sequence=0)
    path = write_log(tmp_path, [encode_batch(new)])

    (exact,), (quick,) = _lines(path), _lines("--quick", path)

    assert (exact["min_timestamp"], exact["max_timestamp"]) == (TIME - 9, TIME + 9)
    assert (quick["min_timestamp"], quick["max_timestamp"]) == (TIME, TIME + 9)
    assert exact["producers"] == quick["producers"] == 1


@pytest.mark.parametrize("quick", [(), ("--quick",)])
def test_damage_is_counted_and_not_summed_up(tmp_path: Path, quick: tuple[str, ...]) -> None:
    path = write_log(tmp_path, [batch(0), flipped(batch(3), VALUE_AT), batch(6)])

    result = run("inspect", "--json", *quick, path)
    line = json.loads(result.stdout)

    assert result.exit_code == 1
    assert (line["records"], line["batches"], line["damage"]) == (6, 2, 1)
    assert line["next_offset"] == 9
    assert result.stderr.splitlines()[-1].endswith(f"; next: lakelog dump {path}")


def test_people_get_a_table(tmp_path: Path) -> None:
    path = write_segment(tmp_path, "kafs")

    title, row = run("inspect", path).stdout.splitlines()

    assert title.split()[:4] == ["FORMAT", "BASE", "NEXT", "RECORDS"]
    assert row.split() == [
        "kafs", "0", "250", "250", "1", str(path.stat().st_size), "none",
        "2023-11-14T22:13:20.000Z", "2023-11-14T22:13:20.249Z", "0", "1", "0", str(path),
    ]  # fmt: skip


def test_times_that_no_calendar_has_are_shown_as_they_are(tmp_path: Path) -> None:
    far = [Record(offset=0, timestamp=(1 << 62), key=None, value=None)]
    path = write_log(tmp_path, [encode_batch(NewBatch(records=far))])

    assert f" {1 << 62} " in run("inspect", path).stdout


def test_side_files_are_no_segments(tmp_path: Path) -> None:
    path = write_segment(tmp_path, "kafs")

    assert len(_lines(path, path.with_suffix(".index"))) == 1
    assert run("inspect", path.with_suffix(".index")).exit_code == 2


def test_an_empty_log_is_whole(tmp_path: Path) -> None:
    path = write_log(tmp_path, [])

    (line,) = _lines(path)

    assert (line["records"], line["next_offset"], line["min_timestamp"]) == (0, None, None)
    assert run("inspect", path).exit_code == 0


def test_many_codecs_keep_the_columns_in_line(tmp_path: Path) -> None:
    batches = [
        encode_batch(NewBatch(records=records(offset, 1), codec=codec))
        for offset, codec in enumerate(Codec)
    ]
    title, row, *_ = run("inspect", write_log(tmp_path, batches)).stdout.splitlines()
    at = title.index("CODECS")
    assert row[at:].split()[0] == "gzip+4"
    assert title.index("EARLIEST") == row.index("20", at)
