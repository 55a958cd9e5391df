"""Kafka log directories: a real broker's files, read and written.

directory      which files make up a partition
segment        .log: a run of batches, and how it is read with what lies beside it
index          .index and .timeindex
producers      .snapshot: what the broker remembers of its producers
transactions   .txnindex: what was aborted
checkpoints    leader-epoch-checkpoint and partition.metadata
"""

from lakelog.formats.kafkalog.checkpoints import (
    LEADER_EPOCHS_NAME,
    METADATA_NAME,
    EpochStart,
    decode_leader_epochs,
    decode_metadata,
    encode_leader_epochs,
    encode_metadata,
)
from lakelog.formats.kafkalog.directory import (
    LogDirectory,
    directory_name,
    parse_directory_name,
    plan_directory,
)
from lakelog.formats.kafkalog.index import (
    INDEX_BYTES_MAX,
    INDEX_INTERVAL_BYTES,
    OffsetIndex,
    TimeIndex,
    decode_offset_index,
    decode_time_index,
    encode_indexes,
)
from lakelog.formats.kafkalog.producers import (
    ProducerState,
    decode_snapshot,
    encode_snapshot,
    fold_producers,
)
from lakelog.formats.kafkalog.segment import FORMAT, LOG_BYTES_MAX, KafkaSegment, encode_segment
from lakelog.formats.kafkalog.transactions import AbortedTxn, decode_txn_index, encode_txn_index

__all__ = [
    "FORMAT",
    "INDEX_BYTES_MAX",
    "INDEX_INTERVAL_BYTES",
    "LEADER_EPOCHS_NAME",
    "LOG_BYTES_MAX",
    "METADATA_NAME",
    "AbortedTxn",
    "EpochStart",
    "KafkaSegment",
    "LogDirectory",
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
    "encode_leader_epochs",
    "encode_metadata",
    "encode_segment",
    "encode_snapshot",
    "encode_txn_index",
    "fold_producers",
    "parse_directory_name",
    "plan_directory",
]
