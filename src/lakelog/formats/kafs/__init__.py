"""KAFS segments: sealed history, one object and a sparse index beside it.

segment   the object: header, batches, footer
index     offsets to positions
"""

from lakelog.formats.kafs.index import (
    INDEX_BYTES_MAX,
    INDEX_INTERVAL,
    decode_index,
    encode_index,
)
from lakelog.formats.kafs.segment import (
    FOOTER_BYTES,
    FORMAT,
    HEADER_BYTES,
    SEGMENT_BYTES_MAX,
    Footer,
    Head,
    decode_footer,
    decode_head,
    encode_ends,
    encode_footer,
    encode_head,
    wrap,
)

__all__ = [
    "FOOTER_BYTES",
    "FORMAT",
    "HEADER_BYTES",
    "INDEX_BYTES_MAX",
    "INDEX_INTERVAL",
    "SEGMENT_BYTES_MAX",
    "Footer",
    "Head",
    "decode_footer",
    "decode_head",
    "decode_index",
    "encode_ends",
    "encode_footer",
    "encode_head",
    "encode_index",
    "wrap",
]
