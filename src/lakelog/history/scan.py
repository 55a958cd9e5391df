"""``scan``: segments as a stream of Arrow batches, without Spark.

The same plan and the same reader as the Spark source has, in this process. DuckDB, Polars and what
else takes Arrow take what it returns.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby

import pyarrow as pa

from lakelog.history.layout import find_segments, layout_named
from lakelog.history.plan import SPLIT_BYTES, plan_splits
from lakelog.history.read import PLACED_COLUMNS, placed_schema, read_split
from lakelog.history.segments import SegmentRef, Split
from lakelog.history.select import LATEST, Place, Selection
from lakelog.history.times import resolve_offsets
from lakelog.store import Store, each_object, open_store, retrying, run

__all__ = ["ScanRequest", "plan_scan", "scan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRequest:
    """What is wanted of a store: a layout, partitions, and from where to where."""

    layout: str
    selection: Selection = field(default_factory=Selection)
    starting: Place = field(default_factory=Place)
    ending: Place = field(default_factory=lambda: Place(offset=LATEST))
    split_bytes: int = SPLIT_BYTES
    splits_min: int = 1
    """At least so many tasks, where there are bytes for them."""


def plan_scan(store: Store, request: ScanRequest) -> list[Split]:
    """List a store, and return the tasks that read what is wanted.

    Raises:
        InvalidInputError: an unknown layout, or places that cannot be resolved.
    """
    layout, selection = layout_named(request.layout), request.selection
    perform = retrying(store.perform)
    listed = ((info.key, info.size) for info in each_object(perform))
    segments = [
        segment
        for segment in find_segments(layout, listed)
        if selection.wants(segment.topic, segment.partition)
    ]
    segments.sort(key=_place_of)  # Stores do not agree on the order of folders.
    partitions: Mapping[tuple[str, int], list[SegmentRef]] = {
        place: list(group) for place, group in groupby(segments, key=_place_of)
    }
    offsets = run(resolve_offsets(partitions, request.starting, request.ending), perform)
    splits = list(plan_splits(segments, split_bytes=request.split_bytes, offsets=offsets))
    if len(splits) < request.splits_min:
        # Bytes decide here, too: smaller splits, until there are enough.
        smaller = max(1, sum(split.size for split in splits) // request.splits_min)
        splits = list(
            plan_splits(segments, split_bytes=min(request.split_bytes, smaller), offsets=offsets)
        )
    return splits


def _place_of(segment: SegmentRef) -> tuple[str, int]:
    return segment.topic, segment.partition


def scan(
    url: str,
    *,
    layout: str,
    columns: Iterable[str] = PLACED_COLUMNS,
    topics: Iterable[str] | None = None,
    starting: Place | None = None,
    ending: Place | None = None,
    options: Mapping[str, str] | None = None,
) -> pa.RecordBatchReader:
    """Return the records of segments below ``url`` as a stream of Arrow batches.

    ``url`` is a path, or ``s3://``, ``gs://``, ``az://``; ``options`` go to the store.

    Raises:
        InvalidInputError: the call is wrong. The stream raises CorruptError on damage.
    """
    chosen = tuple(columns)
    schema = placed_schema(chosen)
    store = open_store(url, options)
    request = ScanRequest(
        layout=layout,
        selection=Selection(topics=None if topics is None else frozenset(topics)),
        starting=starting or Place(),
        ending=ending or Place(offset=LATEST),
    )
    splits, perform = plan_scan(store, request), retrying(store.perform)
    batches = (batch for split in splits for batch in read_split(split, perform, chosen))
    return pa.RecordBatchReader.from_batches(schema, batches)
