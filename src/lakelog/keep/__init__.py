"""The verbs that keep a namespace: each a plan, and steps that anything may run.

backlog  the bundles of a lane from its floor on, read as one chain
seal     bundles become segments
trim     the floor rises over what is sealed; later, what lies below is deleted
retain   the log begins later
sweep    what no manifest names is removed
keeper   all of it, in one process
"""

from lakelog.keep.backlog import Backlog, catalog_of, read_backlog
from lakelog.keep.keeper import Kept, keep, keep_lane, keep_topic
from lakelog.keep.retain import Retention, plan_retain, retain_partition, retention_of
from lakelog.keep.seal import Group, Sealed, SealSettings, plan_seal, seal_group
from lakelog.keep.sweep import sweep_partition, sweep_times
from lakelog.keep.trim import Trimmed, reap, trim

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
    "sweep_times",
    "trim",
]
