"""How much work a task of the pipeline has, so that none is too small and no slot idles."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["TASKS_PER_SLOT", "TASK_BYTES", "slots", "task_bytes_of"]

TASK_BYTES = 512 * 1024 * 1024
"""The most that a task reads, unless a unit has more. Spark spends a tenth of a second on each."""

TASKS_PER_SLOT = 4
"""How many tasks there are for each that can run at a time, where there is enough to do."""


def slots(spark: "SparkSession") -> int:
    """Return how many tasks can run at a time."""
    try:
        return int(spark.sparkContext.defaultParallelism)
    except Exception:  # noqa: BLE001 (Spark Connect has none, and says so in its own way)
        return 1


def task_bytes_of(spark: "SparkSession", units: Sequence[Any]) -> int:
    """Return how much a task of these units should read."""
    total: int = sum(unit.size for unit in units)
    return max(1, min(TASK_BYTES, total // (TASKS_PER_SLOT * slots(spark))))
