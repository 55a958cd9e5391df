"""STRM: one object per segment, blocks of compressed records, an index and a footer behind them.

    segment => header block+ index footer                                         ``.seg``
      header   64 bytes   what is inside: codec, offsets, times                   see ``layout``
      block    about 1 MiB of records, compressed as one piece, with a CRC        see ``blocks``
      index    first offset and position of each block
      footer   32 bytes   where the index is, CRC-32 of the whole file, "MRTS"

Made to be put once and read by ranges: two small requests open a segment, one more reads any
block. A block does not say at which offset it begins, only the index does; so a reader needs the
index, and a file whose index is lost is readable only as far as its offsets have no gaps.

layout   header, block header, index and footer: bytes <-> values
blocks   the records of one block
writer   Arrow columns -> a segment; imported only when asked for
tail     footer and index, by ranges from the end
walk     every byte of a segment, in order, on behind damage
lookup   a few records of a segment, by ranges
row      the row of FORMATS

Specification: docs/reference/formats/strm.md
"""

from lakelog.formats.strm.blocks import RawBlock, decode_records, open_block
from lakelog.formats.strm.layout import (
    BLOCK_BYTES_MAX,
    BLOCK_TARGET_BYTES,
    INDEX_ENTRIES_MAX,
    BlockHeader,
    Footer,
    IndexEntry,
    SegmentHeader,
    decode_block_header,
    decode_footer,
    decode_header,
    decode_index,
    topic_hash,
)
from lakelog.formats.strm.lookup import StrmSegment, open_segment
from lakelog.formats.strm.row import FORMAT
from lakelog.formats.strm.walk import walk

__all__ = [
    "BLOCK_BYTES_MAX",
    "BLOCK_TARGET_BYTES",
    "FORMAT",
    "INDEX_ENTRIES_MAX",
    "BlockHeader",
    "Footer",
    "IndexEntry",
    "RawBlock",
    "SegmentHeader",
    "StrmSegment",
    "decode_block_header",
    "decode_footer",
    "decode_header",
    "decode_index",
    "decode_records",
    "open_block",
    "open_segment",
    "topic_hash",
    "walk",
]
