"""JSON lines are complete, and bytes in them are never in doubt."""

import base64
import json
from pathlib import Path

from lakelog.cli.dump.jsonl import as_json, json_bytes
from lakelog.model import Header, Record
from lakelog.records import NewBatch, encode_batch
from tests.unit.cli.making import TIME, VALUE_AT, batch, flipped, run, write_log, write_segment


def _lines(output: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in output.splitlines()]


def test_bytes_are_text_where_they_can_be() -> None:
    assert json_bytes(None) is None
    assert json_bytes(b"") == ""
    assert json_bytes("é\n".encode()) == "é\n"
    assert json_bytes(b'{"base64": "/w=="}') == '{"base64": "/w=="}'
    assert json_bytes(b"\xff") == {"base64": base64.b64encode(b"\xff").decode()}


def test_a_line_is_always_utf8() -> None:
    assert as_json({"file": "é"}) == '{"file": "é"}\n'
    assert as_json({"file": "\udcff"}) == '{"file": "\\udcff"}\n'


def test_a_segment_is_its_batches_and_records(tmp_path: Path) -> None:
    record = Record(
        offset=7,
        timestamp=TIME,
        key=b"\xff",
        value=b"line\nbreak",
        headers=(Header("h", None), Header("\udcfe", b"\x00")),
    )
    new = NewBatch(records=[record], producer_id=3, producer_epoch=1, base_sequence=9)
    path = write_log(tmp_path, [encode_batch(new)], base_offset=7)

    segment, found, told = _lines(run("dump", "--json", path).stdout)

    assert segment == {
        "kind": "segment",
        "file": str(path),
        "format": "kafkalog",
        "base_offset": 7,
    }
    assert found.pop("crc") != 0
    assert found == {
        "kind": "batch",
        "file": str(path),
        "position": 0,
        "size": path.stat().st_size,
        "base_offset": 7,
        "next_offset": 8,
        "count": 1,
        "is_valid": True,
        "codec": "none",
        "timestamp_type": "CreateTime",
        "base_timestamp": TIME,
        "max_timestamp": TIME,
        "producer_id": 3,
        "producer_epoch": 1,
        "base_sequence": 9,
        "last_sequence": 9,
        "leader_epoch": 0,
        "is_transactional": False,
        "is_control": False,
        "delete_horizon": None,
    }
    assert told == {
        "kind": "record",
        "file": str(path),
        "offset": 7,
        "timestamp": TIME,
        "key": {"base64": "/w=="},
        "value": "line\nbreak",
        "headers": [
            {"key": "h", "value": None},
            {"key": {"base64": "/g=="}, "value": "\x00"},
        ],
        "sequence": 9,
    }


def test_formats_without_batches_have_blocks(tmp_path: Path) -> None:
    path = write_segment(tmp_path, "strm", count=2)

    kinds = [line["kind"] for line in _lines(run("dump", "--json", path).stdout)]

    assert kinds == ["segment", "block", "record", "record"]


def test_damage_is_a_line_among_the_others(tmp_path: Path) -> None:
    path = write_log(tmp_path, [batch(0), flipped(batch(3), VALUE_AT), batch(6)])

    lines = _lines(run("dump", "--json", path).stdout)

    (damage,) = [line for line in lines if line["kind"] == "damage"]
    at = len(batch(0))
    assert (damage["file"], damage["position"], damage["size"]) == (str(path), at, len(batch(3)))
    assert "CRC-32C" in str(damage["what"])
    untrusted = [line for line in lines if line.get("is_valid") is False]
    assert [line["kind"] for line in untrusted] == ["batch", "record", "record", "record"]
    assert [line["offset"] for line in lines if line["kind"] == "record"] == list(range(9))


def test_index_entries_are_lines(tmp_path: Path) -> None:
    path = write_segment(tmp_path, "rustlog").with_suffix(".index")

    lines = _lines(run("dump", "--json", path).stdout)

    assert [line["offset"] for line in lines] == [0, 100, 200]
    assert {line["kind"] for line in lines} == {"index-entry"}
