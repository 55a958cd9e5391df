"""The pipeline: work whose size is the size of the log, as plans and steps.

frame      plan, step, result: what every verb is made of
run        what a Spark task and a single process do alike
results    results as Arrow, and the report they add up to
listing    which segments there are; sides: everything else that records come from
verify     every byte, checked; compare: two sides, record by record
reindex    indexes, made again
convert    from layout to layout; losses: what may be lost
targets    what convert writes; parquet: files by day; output: how objects are made once
live       a running Kafka

Nothing here knows Spark: ``lakelog.spark`` runs these on a cluster.
"""

from lakelog.pipeline.compare import Compare
from lakelog.pipeline.convert import Convert
from lakelog.pipeline.frame import Finding, Job, Plan, Result, Task, pack
from lakelog.pipeline.losses import LOSSES, parse_losses
from lakelog.pipeline.reindex import Reindex
from lakelog.pipeline.results import RESULT_SCHEMA, Report, results_to_arrow
from lakelog.pipeline.run import Connections, plan_job, run_here, run_task
from lakelog.pipeline.sides import SIDES
from lakelog.pipeline.verify import Verify

__all__ = [
    "LOSSES",
    "RESULT_SCHEMA",
    "SIDES",
    "Compare",
    "Connections",
    "Convert",
    "Finding",
    "Job",
    "Plan",
    "Reindex",
    "Report",
    "Result",
    "Task",
    "Verify",
    "pack",
    "parse_losses",
    "plan_job",
    "results_to_arrow",
    "run_here",
    "run_task",
]
