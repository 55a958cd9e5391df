"""Kafka's files as a broker writes them: what the product reads and never writes.

Tests make such files by these functions; ``tests/e2e/test_kafka_oracle.py`` compares them, byte by
byte, with those of a real broker.
"""

import re
import struct
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from crc32c import crc32c

from lakelog.errors import CorruptError, InvalidInputError
from lakelog.formats import Files
from lakelog.formats.kafkalog import (
    LEADER_EPOCHS_NAME,
    METADATA_NAME,
    AbortedTxn,
    EpochStart,
    ProducerState,
    decode_leader_epochs,
    index,
)
from lakelog.formats.limits import fitting
from lakelog.records import Batch

__all__ = [
    "LogDirectory",
    "encode_leader_epochs",
    "encode_metadata",
    "encode_snapshot",
    "encode_txn_index",
    "fold_producers",
    "plan_directory",
]

LOG_SUFFIX, SNAPSHOT_SUFFIX = ".log", ".snapshot"

_FILE = re.compile(r"([0-9]{20})(\.log|\.index|\.timeindex|\.txnindex|\.snapshot)")
_I64_MAX = (1 << 63) - 1
_SNAPSHOT_HEAD = struct.Struct(">hI")
_SNAPSHOT_COUNT = struct.Struct(">i")
_PRODUCER = struct.Struct(">qhiqiqiq")
_ABORTED_TXN = struct.Struct(">hqqqq")
_MARKER_KEY = struct.Struct(">hh")
_MARKER_VALUE = struct.Struct(">hi")
_ABORT, _COMMIT = 0, 1


# ---------------------------------------------------------------------------- directories


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirectory:
    """What a directory holds."""

    segments: tuple[Files, ...]
    """In order of base offset. A snapshot that bears a segment's name is among its files."""

    snapshots: tuple[int, ...]
    """The offsets up to which there are producer snapshots, in order."""

    has_leader_epochs: bool
    has_metadata: bool

    ignored: tuple[str, ...]
    """Names that are no part of the log, in the order they came."""


def plan_directory(entries: Iterable[tuple[str, int]], *, active: bool = True) -> LogDirectory:
    """Return what the files of one partition's directory are, given their names and sizes.

    ``active`` says whether a broker may be writing to the last segment; in an archive none does.
    """
    sizes: dict[int, dict[str, int]] = {}
    names: set[str] = set()
    ignored: list[str] = []
    for name, size in entries:
        found = _FILE.fullmatch(name)
        if found is not None and (base := int(found[1])) <= _I64_MAX:
            sizes.setdefault(base, {})[found[2]] = size
        elif name in (LEADER_EPOCHS_NAME, METADATA_NAME):
            names.add(name)
        else:
            ignored.append(name)
    bases = sorted(base for base, held in sizes.items() if LOG_SUFFIX in held)
    for base, held in sizes.items():
        if LOG_SUFFIX not in held:
            ignored += (f"{base:020}{suffix}" for suffix in held if suffix != SNAPSHOT_SUFFIX)
    return LogDirectory(
        segments=tuple(
            Files(base_offset=base, sizes=sizes[base], active=active and base == bases[-1])
            for base in bases
        ),
        snapshots=tuple(sorted(base for base, held in sizes.items() if SNAPSHOT_SUFFIX in held)),
        has_leader_epochs=LEADER_EPOCHS_NAME in names,
        has_metadata=METADATA_NAME in names,
        ignored=tuple(ignored),
    )


# ---------------------------------------------------------------------------- text files


def encode_leader_epochs(epochs: Sequence[EpochStart]) -> bytes:
    """Return the text of a leader epoch checkpoint.

    Raises:
        InvalidInputError: epochs or offsets that do not rise.
    """
    lines = ["0", f"{len(epochs)}", *(f"{epoch} {start}" for epoch, start in epochs)]
    data = "".join(f"{line}\n" for line in lines).encode()
    try:
        decode_leader_epochs(data)
    except CorruptError as error:
        raise InvalidInputError(error.what) from error
    return data


def encode_metadata(topic_id: UUID) -> bytes:
    """Return the text of a partition.metadata.

    Raises:
        InvalidInputError: the id is all zero, which stands for none.
    """
    if topic_id.int == 0:
        raise InvalidInputError("the topic id is all zero")
    text = urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode()
    return f"version: 0\ntopic_id: {text}".encode()


# ---------------------------------------------------------------------------- transactions


def encode_txn_index(aborted: Iterable[AbortedTxn]) -> bytes:
    """Return the bytes of a transaction index; ``aborted`` is in order of last offset.

    Raises:
        InvalidInputError: there are more than are read.
    """
    data = b"".join(
        _ABORTED_TXN.pack(
            0,
            txn.producer_id,
            txn.first_offset,
            txn.last_offset,
            txn.last_stable_offset,
        )
        for txn in aborted
    )
    return fitting(data, index.INDEX_BYTES_MAX, "a transaction index", "use smaller segments")


# ---------------------------------------------------------------------------- producers


def encode_snapshot(states: Iterable[ProducerState]) -> bytes:
    """Return the bytes of a snapshot. The same producers give the same bytes, in any order.

    Raises:
        InvalidInputError: there are more than are read.
    """
    ordered = sorted(states, key=lambda state: state.producer_id)
    body = _SNAPSHOT_COUNT.pack(len(ordered)) + b"".join(
        _PRODUCER.pack(
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
    data = _SNAPSHOT_HEAD.pack(1, crc32c(body)) + body
    return fitting(data, index.INDEX_BYTES_MAX, "a snapshot", "leave out producers that are gone")


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
