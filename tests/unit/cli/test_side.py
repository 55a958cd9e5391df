"""Side files, entry by entry; the lines are those of kafka-dump-log where it knows the file."""

import json
import struct
from pathlib import Path

import pytest

from lakelog.formats.kafkalog import AbortedTxn, ProducerState
from tests.kafka_files import encode_snapshot, encode_txn_index
from tests.unit.cli.making import run

BASE = 100


def _dump(directory: Path, name: str, data: bytes, *, code: int = 0) -> list[str]:
    path = directory / name
    path.write_bytes(data)
    result = run("dump", path)
    assert result.exit_code == code, result.stderr
    first, *lines = result.stdout.splitlines()
    assert first == f"Dumping {path}"
    return lines


INDEX, TIME_INDEX = f"{BASE:020}.index", f"{BASE:020}.timeindex"


@pytest.mark.parametrize(
    ("name", "data", "lines"),
    [
        (INDEX, struct.pack(">2i", 5, 80) + bytes(800), ["offset: 105 position: 80"]),
        (INDEX, bytes(800), ["offset: 100 position: 0"]),
        (TIME_INDEX, struct.pack(">qi", 77, 5) + bytes(120), ["timestamp: 77 offset: 105"]),
        (TIME_INDEX, bytes(120), ["timestamp: 0 offset: 100"]),
        (TIME_INDEX, b"", []),
        (
            "leader-epoch-checkpoint",
            b"0\n2\n0 0\n3 1042\n",
            ["epoch: 0 startOffset: 0", "epoch: 3 startOffset: 1042"],
        ),
        (
            "partition.metadata",
            b"version: 0\ntopic_id: 3fz-TXJbTVSQ5Wp2mAabcQ",
            ["topicId: 3fz-TXJbTVSQ5Wp2mAabcQ"],
        ),
    ],
)
def test_entries_are_lines(tmp_path: Path, name: str, data: bytes, lines: list[str]) -> None:
    assert _dump(tmp_path, name, data) == lines


def test_aborted_transactions_are_lines(tmp_path: Path) -> None:
    txn = AbortedTxn(producer_id=5, first_offset=104, last_offset=107, last_stable_offset=108)

    assert _dump(tmp_path, f"{BASE:020}.txnindex", encode_txn_index([txn])) == [
        "version: 0 producerId: 5 firstOffset: 104 lastOffset: 107 lastStableOffset: 108"
    ]


def test_producers_are_lines_and_show_a_batch_only_if_they_had_one(tmp_path: Path) -> None:
    busy = ProducerState(
        producer_id=5,
        epoch=0,
        last_sequence=2,
        last_offset=2,
        offset_delta=2,
        timestamp=17,
        open_since=0,
    )
    idle = ProducerState(producer_id=6, epoch=1, timestamp=18, coordinator_epoch=3)

    first, second = _dump(tmp_path, f"{BASE:020}.snapshot", encode_snapshot([busy, idle]))

    assert first == (
        "producerId: 5 producerEpoch: 0 coordinatorEpoch: -1 "
        "currentTxnFirstOffset: OptionalLong[0] lastTimestamp: 17 firstSequence: 0 "
        "lastSequence: 2 lastOffset: 2 offsetDelta: 2 timestamp: 17"
    )
    assert second == (
        "producerId: 6 producerEpoch: 1 coordinatorEpoch: 3 "
        "currentTxnFirstOffset: OptionalLong.empty lastTimestamp: 18"
    )


def test_the_checkpoint_of_rustlogs_cleaner_is_a_line(tmp_path: Path) -> None:
    (line,) = _dump(tmp_path, ".cleaner_checkpoint", struct.pack(">QQ", 7, 9))

    assert line == "lastCleanedOffset: 7 retentionHorizonMs: 0 compactionState: Idle"


def test_an_empty_index_says_so(tmp_path: Path) -> None:
    name = f"{BASE:020}.index"

    assert _dump(tmp_path, name, b"") == [f"{tmp_path / name} is empty."]


def test_space_set_aside_is_no_entry_in_json(tmp_path: Path) -> None:
    for suffix in ("index", "timeindex"):
        path = tmp_path / f"{BASE:020}.{suffix}"
        path.write_bytes(bytes(24))

        assert run("dump", "--json", path).stdout == ""


def test_an_index_that_breaks_its_rules_is_shown_and_told(tmp_path: Path) -> None:
    data = struct.pack(">4i", 9, 160, 5, 80) + b"half"

    lines = _dump(tmp_path, f"{BASE:020}.index", data, code=1)

    assert lines == ["offset: 109 position: 160", "offset: 105 position: 80"]


def test_a_damaged_snapshot_is_told(tmp_path: Path) -> None:
    path = tmp_path / f"{BASE:020}.snapshot"
    path.write_bytes(encode_snapshot([])[:-1] + b"\1")

    result = run("dump", "--json", path)

    assert result.exit_code == 1
    assert json.loads(result.stdout)["position"] == 2
    assert f"lakelog: {path} at byte 2: CRC-32C is " in result.stderr
