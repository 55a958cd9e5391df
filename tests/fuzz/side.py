"""Headers, footers, indexes and checkpoints, each decoder by itself.

The first byte of an input stands for what the decoder is told besides the bytes.
"""

from collections.abc import Callable
from itertools import pairwise

from lakelog.errors import CorruptError, UnsupportedError
from lakelog.formats import kafkalog, kafs, rustlog, strm
from tests.fuzz.reseal import reseal_snapshot
from tests.fuzz.targets import Target
from tests.kafka_files import (
    encode_leader_epochs,
    encode_metadata,
    encode_snapshot,
    encode_txn_index,
)

__all__ = ["BASE_OFFSET", "TARGETS"]

BASE_OFFSET = 1000


def _kafs_index(_: int, data: bytes) -> None:
    index = kafs.decode_index(data)
    entries = list(index)
    assert all(a.offset < b.offset and a.position < b.position for a, b in pairwise(entries))
    for entry in entries:
        assert index.position(entry.offset) == entry.position


def _kafka_index(_: int, data: bytes) -> None:
    index = kafkalog.decode_offset_index(data, base_offset=BASE_OFFSET)
    for entry in index:
        assert entry.offset >= BASE_OFFSET
        assert index.position(entry.offset) == entry.position
    assert index.position(BASE_OFFSET - 1) == 0


def _kafka_timeindex(_: int, data: bytes) -> None:
    index = kafkalog.decode_time_index(data, base_offset=BASE_OFFSET)
    for entry in index:
        assert index.offset(entry.timestamp + 1) == entry.offset
    assert index.offset(-1) == BASE_OFFSET


def _kafka_txnindex(_: int, data: bytes) -> None:
    aborted = kafkalog.decode_txn_index(data, base_offset=BASE_OFFSET)
    assert encode_txn_index(aborted) == data


def _kafka_snapshot(told: int, data: bytes) -> None:
    data = reseal_snapshot(data) if told & 1 else data
    states = kafkalog.decode_snapshot(data, next_offset=BASE_OFFSET)
    again = kafkalog.decode_snapshot(encode_snapshot(states), next_offset=BASE_OFFSET)
    assert list(again) == sorted(states, key=lambda state: state.producer_id)


def _kafka_leader_epochs(_: int, data: bytes) -> None:
    epochs = kafkalog.decode_leader_epochs(data)
    assert kafkalog.decode_leader_epochs(encode_leader_epochs(epochs)) == epochs


def _kafka_metadata(_: int, data: bytes) -> None:
    topic_id = kafkalog.decode_metadata(data)
    assert kafkalog.decode_metadata(encode_metadata(topic_id)) == topic_id


def _rustlog_index(told: int, data: bytes) -> None:
    size, active = (told >> 1) * 20, bool(told & 1)
    entries = rustlog.decode_index(data, base_offset=BASE_OFFSET, log_size=size, active=active)
    assert all(entry.offset >= BASE_OFFSET for entry in entries)
    assert all(0 <= entry.position <= size - 20 for entry in entries)
    assert all(a.offset < b.offset and a.position < b.position for a, b in pairwise(entries))


def _rustlog_checkpoint(_: int, data: bytes) -> None:
    checkpoint = rustlog.decode_checkpoint(data)
    assert rustlog.decode_checkpoint(rustlog.encode_checkpoint(checkpoint)) == checkpoint


def _strm_header(_: int, data: bytes) -> None:
    header = strm.decode_header(data)
    assert header.encode() == data[:64]


def _strm_footer(told: int, data: bytes) -> None:
    # A footer is found at the end of a file of a size that it must fit.
    size = 100 + told
    footer = strm.decode_footer(data[:32], size=size)
    assert 64 <= footer.index_position == size - 32 - footer.index_size


def _strm_index(told: int, data: bytes) -> None:
    entries = strm.decode_index(data, at=64 + 8 * told)
    assert entries[0].position == 64
    assert all(a.offset < b.offset and a.position + 16 < b.position for a, b in pairwise(entries))
    assert entries[-1].position + 16 < 64 + 8 * told


def _target(check: Callable[[int, bytes], None], data: bytes) -> bool:
    try:
        check(data[0] if data else 0, data[1:])
    except (CorruptError, UnsupportedError):
        return False
    return True


def _make(check: Callable[[int, bytes], None]) -> Target:
    return lambda data: _target(check, data)


TARGETS: dict[str, Target] = {
    "kafs-index": _make(_kafs_index),
    "kafka-index": _make(_kafka_index),
    "kafka-timeindex": _make(_kafka_timeindex),
    "kafka-txnindex": _make(_kafka_txnindex),
    "kafka-snapshot": _make(_kafka_snapshot),
    "kafka-leader-epochs": _make(_kafka_leader_epochs),
    "kafka-metadata": _make(_kafka_metadata),
    "rustlog-index": _make(_rustlog_index),
    "rustlog-checkpoint": _make(_rustlog_checkpoint),
    "strm-header": _make(_strm_header),
    "strm-footer": _make(_strm_footer),
    "strm-index": _make(_strm_index),
}
