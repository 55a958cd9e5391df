"""``scan``: segments as a stream of Arrow batches, without Spark.

The same plan and the same reader as the Spark source has, in this process. DuckDB, Polars and what
else takes Arrow take what it returns.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain

import pyarrow as pa

from lakelog.segments.logs import find_logs
from lakelog.segments.placed import CORRUPT, PLACED_COLUMNS, placed_schema
from lakelog.segments.plan import SPLIT_BYTES, plan_tasks
from lakelog.segments.segments import ReadTask
from lakelog.segments.select import (
    LATEST,
    Mode,
    OffsetSpec,
    Selection,
)
from lakelog.segments.times import resolve_offsets
from lakelog.store import Store, retrying, run, working_by_threads

__all__ = ["ScanRequest", "plan_scan", "scan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRequest:
    """What is wanted of a store: a layout, partitions, and from where to where."""

    layout: str
    selection: Selection = field(default_factory=Selection)
    starting: OffsetSpec = field(default_factory=OffsetSpec)
    ending: OffsetSpec = field(default_factory=lambda: OffsetSpec(offset=LATEST))
    split_bytes: int = SPLIT_BYTES
    splits_min: int = 1
    """At least so many tasks, where there are bytes for them."""

    mode: Mode = Mode.FAILFAST


def plan_scan(store: Store, request: ScanRequest) -> list[ReadTask]:
    """List a store, and return the tasks that read what is wanted.

    Raises:
        InvalidInputError: an unknown layout, segments of which nothing says which one counts, or
            offsets that cannot be resolved.
        CorruptError, UnsupportedError: a manifest beside segments cannot be read.
    """
    perform = working_by_threads(retrying(store.perform))
    partitions = find_logs(perform, request.layout, request.selection)
    wanted = resolve_offsets(partitions, request.starting, request.ending, request.mode)
    offsets = run(wanted, perform)
    segments = list(chain.from_iterable(partitions.values()))
    return plan_tasks(
        segments,
        splits_min=request.splits_min,
        split_bytes=request.split_bytes,
        offsets=offsets,
    )


def scan(
    store: Store, request: ScanRequest, columns: Iterable[str] = PLACED_COLUMNS
) -> pa.RecordBatchReader:
    """Return the records of segments in a store as a stream of Arrow batches.

    With mode PERMISSIVE there is a last column ``_corrupt``: see ``mend``.

    Raises:
        InvalidInputError: the call is wrong. The stream raises CorruptError on damage.
    """
    # Compiled, and whoever only plans needs none of it.
    from lakelog.segments.mend import read_split

    mode, chosen = request.mode, tuple(columns)
    if mode is Mode.PERMISSIVE and CORRUPT not in chosen:
        chosen += (CORRUPT,)
    schema = placed_schema(chosen, mode)
    splits, perform = plan_scan(store, request), retrying(store.perform)
    batches = (batch for split in splits for batch in read_split(split, perform, chosen, mode=mode))
    return pa.RecordBatchReader.from_batches(schema, batches)
