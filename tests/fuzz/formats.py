"""Whole segments: every format's walk, and its lookups.

An input is a flag byte, then for each side file its length in two bytes (ff ff when there is
none), the side files, and the data file. All segments are said to begin at offset 1000.
"""

import struct
from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise

from lakelog.errors import CorruptError, UnsupportedError
from lakelog.formats import FORMATS, NOTHING, Format
from lakelog.model import Record
from tests.fuzz.reseal import reseal_kafs, reseal_run, reseal_strm
from tests.fuzz.targets import Target
from tests.segments import Store, Walked, open_files, walk_files

__all__ = ["ACTIVE", "BASE_OFFSET", "LIE", "RESEAL", "TARGETS", "pack", "unpack"]

BASE_OFFSET = 1000
ACTIVE, RESEAL, LIE = 1, 2, 4
_ABSENT = 0xFFFF
_RECORDS_MAX = 1 << 20

_RESEAL: dict[str, Callable[[bytes], bytes]] = {
    "kafs": reseal_kafs,
    "strm": reseal_strm,
    "kafkalog": reseal_run,
}
_BATCHED = ("kafs", "kafkalog")


def pack(fmt: Format, files: Mapping[str, bytes], flags: int = 0) -> bytes:
    """Return the input that stands for these files."""
    sides = [files.get(suffix) for suffix in fmt.side_suffixes]
    lengths = (_ABSENT if side is None else len(side) for side in sides)
    head = struct.pack(f">B{len(sides)}H", flags, *lengths)
    return b"".join((head, *(side or b"" for side in sides), files[fmt.suffix]))


def unpack(fmt: Format, data: bytes) -> tuple[Store, bool] | None:
    """Return the files that an input stands for, and whether a writer is at work on them."""
    head = struct.Struct(f">B{len(fmt.side_suffixes)}H")
    if len(data) < head.size:
        return None
    flags, *lengths = head.unpack_from(data)
    at, files = head.size, {}
    for suffix, length in zip(fmt.side_suffixes, lengths, strict=True):
        if length != _ABSENT:
            files[suffix] = data[at : at + length]
            at += length
    files[fmt.suffix] = data[at:]
    if flags & RESEAL and fmt.name in _RESEAL:
        files[fmt.suffix] = _RESEAL[fmt.name](files[fmt.suffix])
    sizes = {suffix: len(held) for suffix, held in files.items()}
    if flags & LIE:
        # As when a file was cut, or overwritten by a shorter one, after it was listed.
        sizes[fmt.suffix] += flags >> 3
    return Store(files, sizes), bool(flags & ACTIVE)


def _walk(fmt: Format, data: bytes) -> bool:
    unpacked = unpack(fmt, data)
    if unpacked is None:
        return False
    store, active = unpacked
    walked = walk_files(fmt, store, base_offset=BASE_OFFSET, active=active)
    size = store.sizes[fmt.suffix]
    assert all(a.position + a.size <= b.position for a, b in pairwise(walked.blocks))
    assert all(0 <= block.position <= size - block.size for block in walked.blocks)
    records = walked.records
    # Behind a batch out of order, a walk believes the batches that follow.
    rising = all(a.offset < b.offset for a, b in pairwise(records))
    assert rising or (walked.damages and fmt.name in _BATCHED)
    # Where the name and the header disagree, that is reported, and the header is believed.
    assert all(0 <= record.offset < 1 << 63 for record in records)
    assert walked.damages or all(record.offset >= BASE_OFFSET for record in records)
    assert all(0 <= damage.size <= size for damage in walked.damages)
    assert walked.where <= {fmt.suffix, *fmt.side_suffixes}
    if walked.damages:
        return False
    if store.is_honest:
        _agree(fmt, store, walked, active)
    return bool(records)


def _agree(fmt: Format, store: Store, walked: Walked, active: bool) -> None:
    """Where a walk finds nothing wrong, one without records and lookups find what it found."""
    records = walked.records
    bare = walk_files(fmt, store, base_offset=BASE_OFFSET, active=active, span=NOTHING)
    assert bare.damages == ()
    assert len(bare.blocks) == len(walked.blocks)
    for seen, block in zip(bare.blocks, walked.blocks, strict=True):
        told = block.next_offset if seen.next_offset else 0  # 0: only its records tell.
        assert seen == block._replace(records=(), next_offset=told)
    opened = open_files(fmt, store, base_offset=BASE_OFFSET, active=active)
    assert opened.read_from(0, _RECORDS_MAX) == records
    for number in {0, len(records) // 2, len(records) - 1} if records else ():
        assert opened.read_from(records[number].offset, 2) == records[number : number + 2]
        # The header of a batch claims its latest time, and nobody checks it.
        if fmt.name not in _BATCHED:
            time = records[number].timestamp
            assert opened.offset_at(time) == _first_not_older(records, time)


def _first_not_older(records: tuple[Record, ...], timestamp: int) -> int | None:
    return next((record.offset for record in records if record.timestamp >= timestamp), None)


def _lookup(fmt: Format, data: bytes) -> bool:
    unpacked = unpack(fmt, data[2:])
    if unpacked is None:
        return False
    store, active = unpacked
    offset, limit = BASE_OFFSET + data[0] - 8, data[1] % 16
    refused: CorruptError | UnsupportedError | None = None
    records: tuple[Record, ...] = ()
    try:
        opened = open_files(fmt, store, base_offset=BASE_OFFSET, active=active)
        assert opened.segment.base_offset == BASE_OFFSET
        records = opened.read_from(offset, limit)
        opened.offset_at(records[-1].timestamp + 1 if records else 0)
    except (CorruptError, UnsupportedError) as error:
        refused = error
    assert refused is None or refused.where in (fmt.suffix, *fmt.side_suffixes), refused
    assert len(records) <= limit
    assert all(offset <= record.offset for record in records)
    assert all(a.offset < b.offset for a, b in pairwise(records))
    return refused is None and bool(records)


TARGETS: dict[str, Target] = {
    f"{fmt.name}-{how}": partial(target, fmt)
    for fmt in FORMATS.values()
    for how, target in (("walk", _walk), ("lookup", _lookup))
}
