"""The verbs that keep a namespace: each a plan, and steps that anything may run.

backlog  the bundles of a lane from its floor on, read as one chain
seal     bundles become segments
trim     the floor rises over what is sealed; later, what lies below is deleted
retain   the log begins later
sweep    what no manifest names is removed
keeper   all of it, in one process
"""

from lakelog.pipeline.keep.backlog import Backlog, catalog_of, read_backlog
from lakelog.pipeline.keep.keeper import Kept, keep, keep_lane, keep_topic
from lakelog.pipeline.keep.retain import Retention, plan_retain, retain_partition, retention_of
from lakelog.pipeline.keep.seal import Group, Sealed, SealSettings, plan_seal, seal_group
from lakelog.pipeline.keep.sweep import sweep_partition
from lakelog.pipeline.keep.trim import Trimmed, reap, trim

__all__ = [
    "Backlog",
    "Group",
    "Kept",
    "Retention",
    "SealSettings",
    "Sealed",
    "Trimmed",
    "catalog_of",
    "keep",
    "keep_lane",
    "keep_topic",
    "plan_retain",
    "plan_seal",
    "read_backlog",
    "reap",
    "retain_partition",
    "retention_of",
    "seal_group",
    "sweep_partition",
    "trim",
]
