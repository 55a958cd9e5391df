"""The objects of a lane of the journal.

rows        what tables are made of
frame       how an object begins and ends
bundle      what one flush stores
checkpoint  what a chain of bundles amounts to
"""

from lakelog.formats.lanes.bundle import (
    BUNDLE_BYTES_MAX,
    BUNDLE_SUFFIX,
    DIRECTORY_BYTES_MAX,
    PAYLOAD_BYTES_MAX,
    Bundle,
    bundle_directory_start,
    bundle_pieces,
    decode_bundle,
    decode_directory,
    directory_bytes,
    encode_bundle,
)
from lakelog.formats.lanes.checkpoint import (
    CHECKPOINT_BYTES_MAX,
    CHECKPOINT_SUFFIX,
    KEPT_MAX,
    Checkpoint,
    End,
    Kept,
    Mark,
    Producer,
    Rolled,
    Write,
    decode_checkpoint,
    encode_checkpoint,
)
from lakelog.formats.lanes.frame import FOOTER_BYTES, LEAD_BYTES
from lakelog.formats.lanes.rows import ID_BYTES, NO_ID, BatchRow, Event, EventKind, Slice

__all__ = [
    "BUNDLE_BYTES_MAX",
    "BUNDLE_SUFFIX",
    "CHECKPOINT_BYTES_MAX",
    "CHECKPOINT_SUFFIX",
    "DIRECTORY_BYTES_MAX",
    "FOOTER_BYTES",
    "ID_BYTES",
    "KEPT_MAX",
    "LEAD_BYTES",
    "NO_ID",
    "PAYLOAD_BYTES_MAX",
    "BatchRow",
    "Bundle",
    "Checkpoint",
    "End",
    "Event",
    "EventKind",
    "Kept",
    "Mark",
    "Producer",
    "Rolled",
    "Slice",
    "Write",
    "bundle_directory_start",
    "bundle_pieces",
    "decode_bundle",
    "decode_checkpoint",
    "decode_directory",
    "directory_bytes",
    "encode_bundle",
    "encode_checkpoint",
]
