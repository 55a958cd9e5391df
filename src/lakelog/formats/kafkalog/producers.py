"""What a Kafka broker remembers of its producers, so that it can tell a retry from a new batch.

    {next offset:020}.snapshot => version crc count entry*
      version                   i16   1
      crc                       u32   CRC-32C of everything behind it
      count                     i32   entries
      entry, 46 bytes
         0  producer id         i64
         8  epoch               i16
        10  last sequence       i32   of its last batch; -1 when that is not known
        14  last offset         i64   of its last batch; -1 likewise
        22  offset delta        i32   last offset of that batch less its base offset
        26  timestamp           i64   of that batch, or of the marker behind it
        34  coordinator epoch   i32   of the last transaction marker; -1 without one
        38  open since          i64   first offset of the open transaction; -1 without one

Integers are big-endian. A snapshot is named by the offset up to which it covers the log: the one
that has the name of a segment says how things stood before that segment began.

Kafka writes entries in the order of its hash table. Here they are in order of producer id, which is
as good to read and the same on every run. Specification:
docs/reference/formats/kafka-log-directory.md
"""

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from crc32c import crc32c

from lakelog.errors import CorruptError, UnsupportedError
from lakelog.formats.contract import Bytes
from lakelog.formats.kafkalog.index import INDEX_BYTES_MAX
from lakelog.formats.kafkalog.transactions import AbortedTxn
from lakelog.formats.limits import fitting
from lakelog.records import Batch

__all__ = [
    "SNAPSHOT_SUFFIX",
    "ProducerState",
    "decode_snapshot",
    "encode_snapshot",
    "fold_producers",
]

SNAPSHOT_SUFFIX = ".snapshot"
VERSION = 1

_HEAD = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")
_MARKER_KEY = struct.Struct(">hh")
_MARKER_VALUE = struct.Struct(">hi")
_ABORT, _COMMIT = 0, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerState:
    """One producer, as the broker last saw it."""

    producer_id: int
    epoch: int
    last_sequence: int = -1
    last_offset: int = -1
    offset_delta: int = 0
    timestamp: int = -1
    coordinator_epoch: int = -1
    open_since: int = -1


def encode_snapshot(states: Iterable[ProducerState]) -> bytes:
    """Return the bytes of a snapshot. The same producers give the same bytes, in any order.

    Raises:
        InvalidInputError: there are more than are read.
    """
    ordered = sorted(states, key=lambda state: state.producer_id)
    body = _COUNT.pack(len(ordered)) + b"".join(
        _ENTRY.pack(
            state.producer_id,
            state.epoch,
            state.last_sequence,
            state.last_offset,
            state.offset_delta,
            state.timestamp,
            state.coordinator_epoch,
            state.open_since,
        )
        for state in ordered
    )
    data = _HEAD.pack(VERSION, crc32c(body)) + body
    return fitting(data, INDEX_BYTES_MAX, "a snapshot", "leave out producers that are gone")


def decode_snapshot(data: Bytes, *, next_offset: int) -> tuple[ProducerState, ...]:
    """Return the producers in the snapshot that is named ``next_offset``.

    Raises:
        UnsupportedError: another version.
        CorruptError: no Kafka wrote this.
    """
    if len(data) < _HEAD.size + _COUNT.size:
        raise CorruptError(f"{len(data)} bytes, a header has 10", at=0, where=SNAPSHOT_SUFFIX)
    version, crc = _HEAD.unpack_from(data)
    if version != VERSION:
        what = f"version {version}, this reader knows {VERSION}"
        raise UnsupportedError(what, at=0, where=SNAPSHOT_SUFFIX)
    body = memoryview(data)[_HEAD.size :]
    found = crc32c(body)
    if found != crc:
        what = f"CRC-32C is {found}, the snapshot says {crc}"
        raise CorruptError(what, at=2, where=SNAPSHOT_SUFFIX)
    (count,) = _COUNT.unpack_from(body)
    entries = body[_COUNT.size :]
    if count * _ENTRY.size != len(entries):
        what = f"{count} entries in {len(entries)} bytes"
        raise CorruptError(what, at=6, where=SNAPSHOT_SUFFIX)
    states = []
    for number, fields in enumerate(_ENTRY.iter_unpack(entries)):
        producer_id, epoch, sequence, offset, delta, timestamp, coordinator, since = fields
        if producer_id < 0 or not -1 <= offset < next_offset or since >= next_offset:
            what = f"producer {producer_id} at offset {offset}, open since {since}"
            at = _HEAD.size + _COUNT.size + number * _ENTRY.size
            raise CorruptError(what, at=at, where=SNAPSHOT_SUFFIX)
        states.append(
            ProducerState(
                producer_id=producer_id,
                epoch=epoch,
                last_sequence=sequence,
                last_offset=offset,
                offset_delta=delta,
                timestamp=timestamp,
                coordinator_epoch=coordinator,
                open_since=since,
            )
        )
    return tuple(states)


def fold_producers(
    batches: Iterable[Batch], start: Iterable[ProducerState] = ()
) -> tuple[dict[int, ProducerState], list[AbortedTxn]]:
    """Return how producers stand behind ``batches``, and the transactions aborted in them.

    Nobody is forgotten for being idle: that takes a clock, and Kafka does it when it loads.

    Raises:
        CorruptError: a control batch that holds no transaction marker.
    """
    states = {state.producer_id: state for state in start}
    aborted: list[AbortedTxn] = []
    for batch in batches:
        producer_id = batch.header.producer_id
        if producer_id < 0:
            continue
        before = states.get(producer_id, ProducerState(producer_id=producer_id, epoch=-1))
        if not batch.header.is_control:
            states[producer_id] = _data(before, batch)
        elif batch.records:
            # An empty control batch is what compaction leaves of a transaction that is gone.
            states[producer_id], is_abort = _marker(before, batch)
            if is_abort and before.open_since >= 0:
                aborted.append(_aborted(before, batch, states))
    return states, aborted


def _data(before: ProducerState, batch: Batch) -> ProducerState:
    header = batch.header
    since = before.open_since
    if header.is_transactional and since < 0:
        since = header.base_offset
    return ProducerState(
        producer_id=before.producer_id,
        epoch=header.producer_epoch,
        last_sequence=header.last_sequence,
        last_offset=header.next_offset - 1,
        offset_delta=header.last_offset_delta,
        timestamp=header.max_timestamp,
        coordinator_epoch=before.coordinator_epoch,
        open_since=since,
    )


def _marker(before: ProducerState, batch: Batch) -> tuple[ProducerState, bool]:
    record = batch.records[0]
    key, value = record.key or b"", record.value or b""
    if len(key) < _MARKER_KEY.size or len(value) < _MARKER_VALUE.size:
        raise CorruptError("a transaction marker cut short", at=0)
    kind = _MARKER_KEY.unpack_from(key)[1]
    if kind not in (_ABORT, _COMMIT):
        raise CorruptError(f"a control record of type {kind} from a producer", at=0)
    after = replace(
        before,
        epoch=batch.header.producer_epoch,
        timestamp=record.timestamp,
        coordinator_epoch=_MARKER_VALUE.unpack_from(value)[1],
        open_since=-1,
    )
    if after.epoch != before.epoch:
        # A new epoch begins with nothing known of its batches.
        after = replace(after, last_sequence=-1, last_offset=-1, offset_delta=0)
    return after, kind == _ABORT


def _aborted(
    before: ProducerState, batch: Batch, states: Mapping[int, ProducerState]
) -> AbortedTxn:
    still_open = [state.open_since for state in states.values() if state.open_since >= 0]
    return AbortedTxn(
        producer_id=before.producer_id,
        first_offset=before.open_since,
        last_offset=batch.header.base_offset,
        last_stable_offset=min(still_open, default=batch.header.base_offset + 1),
    )
