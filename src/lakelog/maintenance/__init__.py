"""What maintains a namespace: each verb a plan, and steps that anything may run.

backlog      the bundles of a lane from its floor on, read as one chain; what is sealed together
seal         bundles become segments
merge        small segments become large ones
trim         the floor rises over what is sealed; later, what lies below is deleted
retain       the log begins later
sweep        what no manifest names is removed
bulk_writes  bulk writes are finished, and what was staged goes
passes       all of it: in which order, and what a failure stops
"""

from lakelog.maintenance.backlog import (
    BUNDLES_MAX,
    Backlog,
    Catalog,
    SealBatch,
    SealSettings,
    catalog_of,
    plan_seal,
    read_backlog,
    try_histories,
)
from lakelog.maintenance.bulk_writes import BulkWriteReport, finish_writes
from lakelog.maintenance.merge import (
    MergeSettings,
    Rewritten,
    merge_run,
    plan_merge,
    read_segment,
)
from lakelog.maintenance.passes import (
    MaintenanceReport,
    end_maintenance,
    forget_topics,
    incarnations_of,
    maintain,
    maintain_lane,
    maintain_partition,
    maintain_topics,
)
from lakelog.maintenance.retain import (
    Retention,
    plan_retain,
    retain_partition,
    retention_of,
)
from lakelog.maintenance.seal import (
    Sealed,
    begin_seal,
    commit_seal,
    floor_unchanged,
    make_seal_batch,
    seal_batch,
)
from lakelog.maintenance.sweep import HistoryObject, history_object, sweep_partition
from lakelog.maintenance.trim import (
    Trimmed,
    append_topic_tombstones,
    end_lane,
    reap,
    trim,
)

__all__ = [
    "BUNDLES_MAX",
    "Backlog",
    "BulkWriteReport",
    "Catalog",
    "HistoryObject",
    "MaintenanceReport",
    "MergeSettings",
    "Retention",
    "Rewritten",
    "SealBatch",
    "SealSettings",
    "Sealed",
    "Trimmed",
    "append_topic_tombstones",
    "begin_seal",
    "catalog_of",
    "commit_seal",
    "end_lane",
    "end_maintenance",
    "finish_writes",
    "floor_unchanged",
    "forget_topics",
    "history_object",
    "incarnations_of",
    "maintain",
    "maintain_lane",
    "maintain_partition",
    "maintain_topics",
    "make_seal_batch",
    "merge_run",
    "plan_merge",
    "plan_retain",
    "plan_seal",
    "read_backlog",
    "read_segment",
    "reap",
    "retain_partition",
    "retention_of",
    "seal_batch",
    "sweep_partition",
    "trim",
    "try_histories",
]
