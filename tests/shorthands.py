"""What the product does in steps, for many runs, done in one call for a single one."""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from lakelog.formats import Bytes
from lakelog.formats.kafs import wrap
from lakelog.records.cleaning import Cleaned, Cleaner
from lakelog.records.cleaning_rules import CleaningRules
from lakelog.records.columns import COLUMNS, BatchDecoder
from lakelog.records.encoder import BatchEncoder
from lakelog.records.offset_map import OffsetMap
from lakelog.records.repacking import Repacked, Repacker, Shape

__all__ = ["clean", "decode_columns", "encode_columns", "encode_kafs", "repack"]


def decode_columns(
    run: Bytes, columns: Iterable[str] = COLUMNS, **settings: Any
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a run of whole batches as Arrow; settings are those of BatchDecoder."""
    decoder = BatchDecoder(columns, **settings)
    yield from decoder.feed(run)
    yield from decoder.flush()


def encode_columns(
    columns: pa.RecordBatch, *, base_offset: int | None = None, **settings: Any
) -> pa.Buffer:
    """Return ``columns`` as a run of record batches; settings are those of BatchEncoder."""
    return BatchEncoder(**settings).encode(columns, base_offset=base_offset)


def clean(run: Bytes, newest: OffsetMap, rules: CleaningRules, *, where: str = "") -> Cleaned:
    """Return what is left of one run."""
    return Cleaner(newest, rules).clean(run, where=where)


def repack(run: Bytes, shape: Shape, *, where: str = "") -> Repacked:
    """Return one run repacked."""
    return Repacker(shape).repack(run, where=where)


def encode_kafs(batches: Bytes, *, created_ms: int, base_offset: int | None = None) -> bytes:
    """Return the segment that holds a run of batches, in one piece."""
    return b"".join(wrap([batches], created_ms=created_ms, base_offset=base_offset)[0])
