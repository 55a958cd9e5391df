"""Segment formats: how records stand in files and objects.

    kafs       sealed history of lakelog and Kafscale         .kfs + .index
    strm       compressed archive                             .seg
    rustlog    local log of RustLog                           .log + .index
    kafkalog   a Kafka broker's log directories               .log + .index + .timeindex + more
    batches    what kafs and kafkalog share: runs of record batches in a file
    lanes      bundles and checkpoints of the journal         .bundle, .checkpoint
    fields     what the cells of a namespace share
    limits     what is too large to be read is not written
    contract   what every format offers, and how its bytes are asked for
    columns    any of them as Arrow; imported only when asked for, because it brings LLVM
    writing    any of them from Arrow, likewise

FORMATS is the table: what is true of every format is tested, dumped and converted over its rows.
"""

from lakelog.formats import batches, kafkalog, kafs, rustlog, strm
from lakelog.formats.contract import (
    EVERYTHING,
    NOTHING,
    Block,
    Bytes,
    Carries,
    Damage,
    Files,
    Format,
    Range,
    Ranged,
    Segment,
    Span,
    Walk,
    Window,
    drive_items,
    fetch,
    run,
    walk_blocks,
)
from lakelog.formats.fields import check_fields, decode_fields, decoding, flag, number
from lakelog.formats.limits import fitting

__all__ = [
    "EVERYTHING",
    "FORMATS",
    "NOTHING",
    "Block",
    "Bytes",
    "Carries",
    "Damage",
    "Files",
    "Format",
    "Range",
    "Ranged",
    "Segment",
    "Span",
    "Walk",
    "Window",
    "batches",
    "check_fields",
    "decode_fields",
    "decoding",
    "drive_items",
    "fetch",
    "fitting",
    "flag",
    "kafkalog",
    "kafs",
    "number",
    "run",
    "rustlog",
    "strm",
    "walk_blocks",
]

FORMATS: dict[str, Format] = {
    row.name: row for row in (kafs.FORMAT, strm.FORMAT, rustlog.FORMAT, kafkalog.FORMAT)
}
"""Every format by name. Where a suffix has two (``.log``), ``sniff`` tells them apart."""
