"""RustLog: records one after another in a file, and a sparse index beside it.

    topics/{topic}/partitions/{partition}/
      00000000000000000000.log     records, nothing else                      see ``layout``
      00000000000000000000.index   offset and position of every 100th record
      .cleaner_checkpoint          how far retention has come                 see ``checkpoint``

There is no checksum but what a spool brings in its payloads (``envelope``). Of others a reader sees
what breaks the structure (a record that runs past the end, an offset that does not rise) and
nothing else: a flipped bit in a payload or a timestamp is read as if it were right, and a file cut
between two records is a shorter valid file.

layout      records and index: bytes <-> values; records -> a segment
walk        every byte of a segment, in order, on behind damage
lookup      a few records of a segment, through the index
writer      Arrow columns -> a segment; imported only when asked for
checkpoint  the cleaner's file
envelope    what a spool puts into a payload: a checksum, a key, headers
row         the row of FORMATS

Specification: docs/reference/formats/rustlog.md
"""

from lakelog.formats.rustlog.checkpoint import (
    CHECKPOINT_NAME,
    CleanerCheckpoint,
    decode_checkpoint,
    encode_checkpoint,
)
from lakelog.formats.rustlog.envelope import (
    ENVELOPE_BYTES,
    ENVELOPE_MAGIC,
    Envelope,
    decode_envelope,
    encode_envelope,
    is_envelope,
)
from lakelog.formats.rustlog.layout import (
    INDEX_INTERVAL,
    PAYLOAD_BYTES_MAX,
    IndexEntry,
    LogRecord,
    decode_index,
    encode_index,
    encode_log,
)
from lakelog.formats.rustlog.lookup import RustLogSegment, open_segment
from lakelog.formats.rustlog.row import FORMAT, encode_records, partition_path
from lakelog.formats.rustlog.walk import walk

__all__ = [
    "CHECKPOINT_NAME",
    "ENVELOPE_BYTES",
    "ENVELOPE_MAGIC",
    "FORMAT",
    "INDEX_INTERVAL",
    "PAYLOAD_BYTES_MAX",
    "CleanerCheckpoint",
    "Envelope",
    "IndexEntry",
    "LogRecord",
    "RustLogSegment",
    "decode_checkpoint",
    "decode_envelope",
    "decode_index",
    "encode_checkpoint",
    "encode_envelope",
    "encode_index",
    "encode_log",
    "encode_records",
    "is_envelope",
    "open_segment",
    "partition_path",
    "walk",
]
