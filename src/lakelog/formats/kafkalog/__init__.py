"""Kafka log directories: a real broker's files.

    {topic}-{partition}/
        {base offset:020}.log .index .timeindex .txnindex     a segment
        {next offset:020}.snapshot                            producers, up to that offset
        leader-epoch-checkpoint  partition.metadata

A topic's name may hold hyphens, so the partition is what stands behind the last one. Files on their
way out or in (.deleted, .cleaned, .swap, .tmp), and an index without its log, are no part of the
log; nor are directories on their way out or in ({topic}-{partition}.{id}-delete, -stray, -future).
Segments and their indexes are read and written, the other files are only read.

segment        .log: a run of batches, and how it is read with what lies beside it
index          .index and .timeindex
producers      .snapshot: what the broker remembers of its producers
transactions   .txnindex: what was aborted
checkpoints    leader-epoch-checkpoint and partition.metadata
"""

from lakelog.formats.batches import OffsetIndex
from lakelog.formats.kafkalog.checkpoints import (
    LEADER_EPOCHS_NAME,
    METADATA_NAME,
    EpochStart,
    decode_leader_epochs,
    decode_metadata,
)
from lakelog.formats.kafkalog.index import (
    INDEX_BYTES_MAX,
    INDEX_INTERVAL_BYTES,
    TimeIndex,
    decode_offset_index,
    decode_time_index,
    encode_indexes,
)
from lakelog.formats.kafkalog.producers import ProducerState, decode_snapshot
from lakelog.formats.kafkalog.segment import (
    FORMAT,
    LOG_BYTES_MAX,
    directory_name,
    encode_side_files,
    parse_directory_name,
)
from lakelog.formats.kafkalog.transactions import AbortedTxn, decode_txn_index

__all__ = [
    "FORMAT",
    "INDEX_BYTES_MAX",
    "INDEX_INTERVAL_BYTES",
    "LEADER_EPOCHS_NAME",
    "LOG_BYTES_MAX",
    "METADATA_NAME",
    "AbortedTxn",
    "EpochStart",
    "OffsetIndex",
    "ProducerState",
    "TimeIndex",
    "decode_leader_epochs",
    "decode_metadata",
    "decode_offset_index",
    "decode_snapshot",
    "decode_time_index",
    "decode_txn_index",
    "directory_name",
    "encode_indexes",
    "encode_side_files",
    "parse_directory_name",
]
