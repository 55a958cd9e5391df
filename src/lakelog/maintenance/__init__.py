"""The verbs that keep a namespace: each a plan, and steps that anything may run.

backlog  the bundles of a lane from its floor on, read as one chain
groups   which partitions are sealed together
seal     bundles become segments
merge    small segments become large ones
trim     the floor rises over what is sealed; later, what lies below is deleted
retain   the log begins later
sweep    what no manifest names is removed
staged   bulk writes are finished, and what was staged goes
keeper   all of it, in one process
"""

from lakelog.maintenance.backlog import (
    Backlog,
    Catalog,
    catalog_of,
    read_backlog,
    where_of,
)
from lakelog.maintenance.groups import SealBatch, SealSettings, plan_seal
from lakelog.maintenance.keeper import (
    MaintenanceReport,
    bury,
    forget_topic,
    keep,
    keep_lane,
    keep_partition,
    keep_topic,
)
from lakelog.maintenance.merge import (
    MergeSettings,
    Rewritten,
    merge_run,
    plan_merge,
    read_segment,
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
    is_unpassed,
    make_group,
    seal_group,
)
from lakelog.maintenance.staged import BulkWriteReport, keep_writes
from lakelog.maintenance.sweep import sweep_partition, sweep_times
from lakelog.maintenance.trim import Trimmed, reap, trim

__all__ = [
    "Backlog",
    "BulkWriteReport",
    "Catalog",
    "MaintenanceReport",
    "MergeSettings",
    "Retention",
    "Rewritten",
    "SealBatch",
    "SealSettings",
    "Sealed",
    "Trimmed",
    "begin_seal",
    "bury",
    "catalog_of",
    "commit_seal",
    "forget_topic",
    "is_unpassed",
    "keep",
    "keep_lane",
    "keep_partition",
    "keep_topic",
    "keep_writes",
    "make_group",
    "merge_run",
    "plan_merge",
    "plan_retain",
    "plan_seal",
    "read_backlog",
    "read_segment",
    "reap",
    "retain_partition",
    "retention_of",
    "seal_group",
    "sweep_partition",
    "sweep_times",
    "trim",
    "where_of",
]
