"""``lakelog.scan``: records as a stream of Arrow batches, in this process and without Spark.

    a namespace   history and journal as one, as Spark's source reads it: all that was acknowledged
                  before the call, and nothing that comes later
    segments      files of any format below a folder: ``segments.scan``

Which of the two it is, is seen by the object that every namespace has, unless a layout says so.
DuckDB, Polars and what else takes Arrow take what it returns.
"""

import warnings
from collections.abc import Iterable, Mapping
from itertools import chain

import pyarrow as pa

from lakelog.catalog import has_namespace
from lakelog.errors import InvalidInputError
from lakelog.host import SystemClock, new_id
from lakelog.log.offset_options import Losses
from lakelog.log.reader import Driver, NamespaceReader
from lakelog.log.rows import read_task
from lakelog.segments import (
    HISTORY,
    LATEST,
    LAYOUTS,
    NAMESPACE,
    Mode,
    OffsetSpec,
    Selection,
    mode_named,
)
from lakelog.segments.placed import PLACED_COLUMNS, placed_schema
from lakelog.segments.scan import ScanRequest
from lakelog.segments.scan import scan as scan_segments
from lakelog.store import Perform, open_store, retrying, run

__all__ = ["scan"]


def scan(
    url: str,
    *,
    layout: str | None = None,
    columns: Iterable[str] = PLACED_COLUMNS,
    topics: Iterable[str] | None = None,
    starting: OffsetSpec | None = None,
    ending: OffsetSpec | None = None,
    mode: str = Mode.FAILFAST,
    store_options: Mapping[str, str] | None = None,
) -> pa.RecordBatchReader:
    """Return the records below ``url`` as a stream of Arrow batches.

    ``url`` is a path, or ``s3://``, ``gs://``, ``az://``; ``store_options`` go to the store.
    Without a ``layout`` there has to be a namespace. ``starting`` and ``ending`` are as Spark's
    source has them: offsets of partitions, or a time in milliseconds. With mode PERMISSIVE,
    which is for segments, there is a last column ``_corrupt``.

    Raises:
        InvalidInputError: the call is wrong. The stream raises CorruptError on damage.
        NotFoundError: there is no such topic, or the offsets have expired.
    """
    store = open_store(url, store_options)
    perform = retrying(store.perform)
    if layout is None or layout == HISTORY:
        is_namespace = run(has_namespace(), perform)
        if layout is None and not is_namespace:
            raise InvalidInputError(
                f"{url} is no namespace: say which segments are there, layout="
                f"{' or '.join(map(repr, LAYOUTS))}"
            )
        if layout == HISTORY and is_namespace:
            warnings.warn(
                f"{url} is a namespace, and layout={HISTORY!r} reads only what of it is sealed: "
                "leave layout out to read all records",
                stacklevel=3,
            )
    request = ScanRequest(
        layout=layout or NAMESPACE,
        selection=Selection(topics=None if topics is None else frozenset(topics)),
        starting=starting or OffsetSpec(),
        ending=ending or OffsetSpec(offset=LATEST),
        mode=mode_named(mode),
    )
    if request.layout != NAMESPACE:
        return scan_segments(store, request, columns)
    if request.mode is not Mode.FAILFAST:
        raise InvalidInputError("mode PERMISSIVE is for segments alone: use layout kafs")
    return _scan_log(perform, request, tuple(columns))


def _scan_log(
    perform: Perform, request: ScanRequest, columns: tuple[str, ...]
) -> pa.RecordBatchReader:
    schema = placed_schema(columns)
    log = NamespaceReader(perform, SystemClock(), new_id)
    extents = log.look_at(request.selection)
    ranges = log.ranges(extents, request.starting, request.ending, Losses(fail=True))
    located = chain.from_iterable(log.tasks(ranges, extents))
    batches = Driver(perform).batches(read_task(located, log.survey.lane, columns))
    return pa.RecordBatchReader.from_batches(schema, batches)
