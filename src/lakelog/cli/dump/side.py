"""The files beside segments: what is printed of each, entry by entry.

An index that is being written to is a file of full size whose rest is zero. kafka-dump-log shows
the first of those zero entries when no other comes before it. The text here shows it too, since it
must be the same; the JSON does not, since there is no such entry.

An index that breaks its own rules is shown as far as it can be read, and then reported.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from lakelog.cli.dump.files import SideFile
from lakelog.cli.dump.reading import Fault
from lakelog.errors import CorruptError, UnsupportedError
from lakelog.formats import kafkalog, kafs, rustlog
from lakelog_kafka_tools.java import id_text, optional_long

__all__ = ["Entry", "offset_entries", "read_side_file", "time_entries"]

OFFSET_ENTRY_BYTES = 8
TIME_ENTRY_BYTES = 12
_RUSTLOG_ENTRY_BYTES = 16
Row = tuple[int, int, int]
"""An entry of an index: where it stands, then offset and position, or timestamp and offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry of a side file, as text and as fields; either may be left out."""

    kind: str
    text: str = ""
    fields: dict[str, object] = field(default_factory=dict)


def read_side_file(file: SideFile, data: bytes) -> Iterator[Entry | Fault]:
    """Yield the entries of a side file, and what is wrong with it."""
    read = _READERS.get((file.format.name, file.kind)) or _READERS[("kafkalog", file.kind)]
    try:
        yield from read(data, file)
    except (CorruptError, UnsupportedError) as error:
        yield Fault(path=file.path, position=error.at, size=0, what=error.what)


def offset_entries(data: bytes, base: int) -> Iterator[Row]:
    """Yield the entries of an offset index, up to what a running broker has not filled yet."""
    whole = data[: len(data) - len(data) % OFFSET_ENTRY_BYTES]
    return _filled(kafkalog.OffsetIndex(base_offset=base, data=whole), base, offset_at=1)


def time_entries(data: bytes, base: int) -> Iterator[Row]:
    """Yield the entries of a time index, up to what a running broker has not filled yet."""
    whole = data[: len(data) - len(data) % TIME_ENTRY_BYTES]
    return _filled(kafkalog.TimeIndex(base_offset=base, data=whole), base, offset_at=2)


def _filled(entries: Iterable[Row], base: int, *, offset_at: int) -> Iterator[Row]:
    for number, entry in enumerate(entries):
        if entry[offset_at] == base and number > 0:
            return
        yield entry


def _offset_index(data: bytes, file: SideFile) -> Iterator[Entry]:
    for entry in _index(offset_entries(data, file.base_offset), file):
        yield entry if entry.fields.get("position") else replace(entry, fields={})
    kafkalog.decode_offset_index(data, base_offset=file.base_offset)


def _index(entries: Iterable[Row], file: SideFile) -> Iterator[Entry]:
    """Yield the entries of an offset index, or say that there are none."""
    is_empty = True
    for at, offset, position in entries:
        is_empty = False
        yield Entry(
            kind="index-entry",
            text=f"offset: {offset} position: {position}",
            fields={"at": at, "offset": offset, "position": position},
        )
    if is_empty:
        yield Entry(kind="index-entry", text=f"{file.path} is empty.")


def _time_index(data: bytes, file: SideFile) -> Iterator[Entry]:
    for at, timestamp, offset in time_entries(data, file.base_offset):
        text = f"timestamp: {timestamp} offset: {offset}"
        fields: dict[str, object] = {"at": at, "timestamp": timestamp, "offset": offset}
        yield Entry(kind="time-index-entry", text=text, fields=fields if timestamp else {})
    kafkalog.decode_time_index(data, base_offset=file.base_offset)


def _snapshot(data: bytes, file: SideFile) -> Iterator[Entry]:
    for state in kafkalog.decode_snapshot(data, next_offset=file.base_offset):
        since = optional_long(state.open_since if state.open_since >= 0 else None)
        text = (
            f"producerId: {state.producer_id} producerEpoch: {state.epoch} "
            f"coordinatorEpoch: {state.coordinator_epoch} currentTxnFirstOffset: {since} "
            f"lastTimestamp: {state.timestamp}"
        )
        if state.last_offset >= 0:
            first = (state.last_sequence - state.offset_delta) & 0x7FFFFFFF
            text += (
                f" firstSequence: {first} lastSequence: {state.last_sequence} "
                f"lastOffset: {state.last_offset} offsetDelta: {state.offset_delta} "
                f"timestamp: {state.timestamp}"
            )
        fields = {name: getattr(state, name) for name in _PRODUCER_FIELDS}
        yield Entry(kind="producer", text=text, fields=fields)


_PRODUCER_FIELDS = (
    "producer_id",
    "epoch",
    "last_sequence",
    "last_offset",
    "offset_delta",
    "timestamp",
    "coordinator_epoch",
    "open_since",
)
_TRANSACTION_FIELDS = ("producer_id", "first_offset", "last_offset", "last_stable_offset")


def _transactions(data: bytes, file: SideFile) -> Iterator[Entry]:
    for txn in kafkalog.decode_txn_index(data, base_offset=file.base_offset):
        text = (
            f"version: 0 producerId: {txn.producer_id} firstOffset: {txn.first_offset} "
            f"lastOffset: {txn.last_offset} lastStableOffset: {txn.last_stable_offset}"
        )
        fields = {name: getattr(txn, name) for name in _TRANSACTION_FIELDS}
        yield Entry(kind="aborted-transaction", text=text, fields=fields)


def _leader_epochs(data: bytes, file: SideFile) -> Iterator[Entry]:  # noqa: ARG001
    for epoch, start in kafkalog.decode_leader_epochs(data):
        fields: dict[str, object] = {"epoch": epoch, "start_offset": start}
        yield Entry(kind="leader-epoch", text=f"epoch: {epoch} startOffset: {start}", fields=fields)


def _metadata(data: bytes, file: SideFile) -> Iterator[Entry]:  # noqa: ARG001
    # Kafka's own tools show topic ids as the file has them, not as UUIDs.
    topic_id = id_text(kafkalog.decode_metadata(data).bytes)
    yield Entry(kind="topic-id", text=f"topicId: {topic_id}", fields={"topic_id": topic_id})


def _kafs_index(data: bytes, file: SideFile) -> Iterator[Entry]:
    return _index(kafs.decode_index(data), file)


def _rustlog_index(data: bytes, file: SideFile) -> Iterator[Entry]:
    # How long the log is does not matter here: a walk of the log compares the two.
    entries = rustlog.decode_index(data, base_offset=file.base_offset, log_size=1 << 63)
    return _index(
        (
            (number * _RUSTLOG_ENTRY_BYTES, entry.offset, entry.position)
            for number, entry in enumerate(entries)
        ),
        file,
    )


def _cleaner(data: bytes, file: SideFile) -> Iterator[Entry]:  # noqa: ARG001
    found = rustlog.decode_checkpoint(data)
    text = (
        f"lastCleanedOffset: {found.last_cleaned_offset} "
        f"retentionHorizonMs: {found.retention_horizon_ms} "
        f"compactionState: {found.compaction_state}"
    )
    fields: dict[str, object] = {
        "last_cleaned_offset": found.last_cleaned_offset,
        "retention_horizon_ms": found.retention_horizon_ms,
        "compaction_state": found.compaction_state,
        "created_at_ns": found.created_at_ns,
    }
    yield Entry(kind="cleaner-checkpoint", text=text, fields=fields)


_READERS: dict[tuple[str, str], Callable[[bytes, SideFile], Iterator[Entry]]] = {
    ("kafkalog", ".index"): _offset_index,
    ("kafkalog", ".timeindex"): _time_index,
    ("kafkalog", ".snapshot"): _snapshot,
    ("kafkalog", ".txnindex"): _transactions,
    ("kafkalog", kafkalog.LEADER_EPOCHS_NAME): _leader_epochs,
    ("kafkalog", kafkalog.METADATA_NAME): _metadata,
    ("kafs", ".index"): _kafs_index,
    ("rustlog", ".index"): _rustlog_index,
    ("rustlog", rustlog.CHECKPOINT_NAME): _cleaner,
}
