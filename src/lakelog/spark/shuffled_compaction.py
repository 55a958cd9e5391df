"""compact on Spark, for partitions whose keys fit into no task: ``pipeline.shuffled_compaction``.

    segments --note-->    bucket, segment, slots
             --shuffle--> bucket
             --match-->   segment, slots
             --shuffle--> segment
             --clean-->   segment, what was made

Only hashes and offsets are shuffled, and only to tasks: the driver sees a row for each segment.
Every segment sends one empty block along, or nobody would clean one that nothing outdates.

A task takes one segment, or one bucket, after the other. **Shuffles say how many tasks there are.**
Spark would otherwise join those of few bytes, and what is few bytes here is a segment to read.
"""

import pickle
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakelog.pipeline import CompactedSegment, ShuffledCompaction
from lakelog.records.scattering import outdating
from lakelog.spark.tasks import TASK_BYTES, TASKS_PER_SLOT, slots
from lakelog.spark.worker import disable_collector

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["clean_all"]

_NOTED = "bucket int, segment int, slots binary"
_MATCHED = "segment int, slots binary"
_CLEANED = "segment int, made binary"


def clean_all(spark: "SparkSession", compaction: ShuffledCompaction) -> list[CompactedSegment]:
    """Return what has become of each segment, in their order."""
    tasks = min(len(compaction), max(TASKS_PER_SLOT * slots(spark), compaction.size // TASK_BYTES))
    segments = spark.range(0, len(compaction), 1, tasks).selectExpr("cast(id as int) as segment")
    noted = segments.mapInArrow(partial(_note, compaction), _NOTED)
    by_bucket = _shuffled(noted, min(tasks, compaction.buckets), "bucket")
    by_segment = _shuffled(by_bucket.mapInArrow(_match, _MATCHED), tasks, "segment")
    cleaned = by_segment.mapInArrow(partial(_clean, compaction), _CLEANED).toArrow()
    made = cleaned.sort_by("segment")["made"].to_pylist()
    return [pickle.loads(one) for one in made]  # noqa: S301 (this job's own tasks made it)


def _shuffled(frame: "DataFrame", tasks: int, by: str) -> "DataFrame":
    """Bring rows together that say the same, one behind the other."""
    return frame.repartition(tasks, by).sortWithinPartitions(by)


# ---------------------------------------------------------------------------- in workers

_Batches = Iterable[pa.RecordBatch]


def _note(compaction: ShuffledCompaction, batches: _Batches) -> Iterator[pa.RecordBatch]:
    disable_collector()
    for (segment,) in _rows(batches):
        blocks = [(segment % compaction.buckets, b""), *compaction.note(segment)]
        yield pa.record_batch(
            {
                "bucket": pa.array([bucket for bucket, _ in blocks], pa.int32()),
                "segment": pa.array([segment] * len(blocks), pa.int32()),
                "slots": pa.array([slots for _, slots in blocks], pa.binary()),
            }
        )


def _match(batches: _Batches) -> Iterator[pa.RecordBatch]:
    for _, rows in groupby(_rows(batches), _first):
        blocks = [(segment, slots) for _, segment, slots in rows]
        told = [(segment, slots) for segment, slots in blocks if not slots]
        told += outdating(blocks)
        yield pa.record_batch(
            {
                "segment": pa.array([segment for segment, _ in told], pa.int32()),
                "slots": pa.array([slots for _, slots in told], pa.binary()),
            }
        )


def _clean(compaction: ShuffledCompaction, batches: _Batches) -> Iterator[pa.RecordBatch]:
    disable_collector()
    for segment, rows in groupby(_rows(batches), _first):
        made = compaction.clean(segment, [slots for _, slots in rows])
        yield pa.record_batch(
            {
                "segment": pa.array([segment], pa.int32()),
                "made": pa.array([pickle.dumps(made)], pa.binary()),
            }
        )


_first = itemgetter(0)


def _rows(batches: _Batches) -> Iterator[tuple[Any, ...]]:
    for batch in batches:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)
