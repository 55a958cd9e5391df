"""The end of an STRM segment, where reading begins: footer and index, by ranges.

One request for the last 8 KiB brings both for a segment of up to 500 blocks; only a longer index
costs a second one.
"""

from lakelog.errors import CorruptError
from lakelog.formats.contract import Ranged, fetch
from lakelog.formats.strm.layout import (
    COUNT,
    FOOTER,
    HEADER,
    INDEX_BYTES_MAX,
    SUFFIX,
    Footer,
    IndexEntry,
    decode_index,
)

__all__ = ["find_index", "read_index", "read_tail"]

TAIL_BYTES = 8 * 1024


def read_tail(size: int) -> Ranged[bytes]:
    """Return the last bytes of a file of ``size`` bytes: the footer, and most likely the index."""
    return (yield from fetch(SUFFIX, max(0, size - TAIL_BYTES), size))


def read_index(footer: Footer, tail: bytes, size: int) -> Ranged[tuple[IndexEntry, ...]]:
    """Return the index that ``footer`` points to.

    Raises:
        CorruptError: there is no such index.
    """
    start, end = footer.index_position, footer.index_position + footer.index_size
    tail_start = size - len(tail)
    if start >= tail_start:
        data = tail[start - tail_start : end - tail_start]
    else:
        data = yield from fetch(SUFFIX, start, end)
    return decode_index(data, at=start)


def find_index(tail: bytes, size: int) -> Ranged[tuple[int, tuple[IndexEntry, ...]] | None]:
    """Return position and entries of the index of a file whose footer is bad, if it can be found.

    The footer says twice where the index is: its position and its size. Either will do, if what
    stands there reads as an index that ends at the footer.
    """
    if len(tail) < FOOTER.size:
        return None
    position, index_size, *_ = FOOTER.unpack(tail[-FOOTER.size :])
    end = size - FOOTER.size
    for start in (position, end - index_size):
        footer = Footer(index_position=start, index_size=end - start, crc=0)
        if start < HEADER.size or not COUNT.size <= footer.index_size <= INDEX_BYTES_MAX:
            continue
        try:
            return start, (yield from read_index(footer, tail, size))
        except CorruptError:
            continue
    return None
