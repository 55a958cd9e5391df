"""The pipeline: work whose size is the size of the log, as plans and steps.

frame      plan, step, result: what every verb is made of
run        a job from its plan to its report, on whatever runs the steps
results    results as Arrow, and the report they add up to
listing    which segments and topics there are, and what was asked for and is not there; sides:
           everything that records come from
verify     every byte, checked; compare: two sides, record by record
reindex    indexes, made again
fsck/      a namespace, every object held against every other that speaks of it
convert    from layout to layout; losses: what may be lost
importing  the directories of Kafka brokers, as topics; kafka_source: what of them is wanted
copying    a topic, as another one
adopting   how both become a topic: segments that are made, and which of them count
targets    what convert writes; parquet: files by day; output: how objects are made once
kafka_reader
           a running Kafka
compacting of each key the newest record; shuffled_compaction: where there are too many
           keys for one task
sealing    bundles of all lanes, as segments; upkeep: merge and retain, partition by partition
jobs       verbs out of addresses, names and numbers

Nothing here knows Spark, and nothing reads a clock: ``lakelog.spark`` runs these on a cluster, and
whoever makes a job hands in the clocks and ids of a ``Host``.
"""

from lakelog.pipeline.adopting import SEGMENT_BYTES
from lakelog.pipeline.compacting import Compact, CompactSettings, CompactUnit, compact_partition
from lakelog.pipeline.compare import Compare
from lakelog.pipeline.convert import Convert
from lakelog.pipeline.copying import Copy
from lakelog.pipeline.frame import Committing, Finding, Job, Plan, Result, Task, pack
from lakelog.pipeline.fsck import ReindexNamespace, VerifyNamespace
from lakelog.pipeline.importing import Import
from lakelog.pipeline.losses import LOSSES, parse_losses
from lakelog.pipeline.reindex import Reindex
from lakelog.pipeline.results import RESULT_SCHEMA, Report, Verdict, results_to_arrow
from lakelog.pipeline.run import (
    Connections,
    LocalRunner,
    Runner,
    plan_job,
    results_to_table,
    run_here,
    run_planned,
    run_task,
)
from lakelog.pipeline.sealing import Seal
from lakelog.pipeline.shuffled_compaction import (
    CompactedSegment,
    ShuffledCompaction,
    compact_shuffled,
)
from lakelog.pipeline.sides import SIDES
from lakelog.pipeline.upkeep import Merge, Retain
from lakelog.pipeline.verify import Verify

__all__ = [
    "LOSSES",
    "RESULT_SCHEMA",
    "SEGMENT_BYTES",
    "SIDES",
    "Committing",
    "Compact",
    "CompactSettings",
    "CompactUnit",
    "CompactedSegment",
    "Compare",
    "Connections",
    "Convert",
    "Copy",
    "Finding",
    "Import",
    "Job",
    "LocalRunner",
    "Merge",
    "Plan",
    "Reindex",
    "ReindexNamespace",
    "Report",
    "Result",
    "Retain",
    "Runner",
    "Seal",
    "ShuffledCompaction",
    "Task",
    "Verdict",
    "Verify",
    "VerifyNamespace",
    "compact_partition",
    "compact_shuffled",
    "pack",
    "parse_losses",
    "plan_job",
    "results_to_arrow",
    "results_to_table",
    "run_here",
    "run_planned",
    "run_task",
]
