"""The log: reading and writing across journal and history.

read       offsets -> batches, from a segment or from a bundle
times      times -> offsets
plan       the history of whole topics at once; how many bytes a partition takes
survey     where every partition of some topics begins and ends; what of it is not sealed
located    offsets -> where they lie -> tasks
reader     all of that for a reader of many partitions, run by threads; offset_options: options ->
           offsets
rows       tasks -> Arrow           \\
tables     tables about it -> Arrow  | imported only when asked for
scan       a namespace -> Arrow     /
packing    rows -> runs of batches to be staged; imported only when asked for
staging    what an attempt of a bulk write, and a task of it, puts beside the log
writes     bulk writes: decided for once, appended to every lane
"""

from lakelog.journal import store_now
from lakelog.log.located import (
    LocatedRange,
    TaskRanges,
    plan_read_tasks,
    sealed_ranges,
    unsealed_ranges,
)
from lakelog.log.offset_options import (
    Key,
    Losses,
    Offsets,
    decode_offsets,
    encode_offsets,
    limit_offsets,
    readable,
)
from lakelog.log.placing import place_batches
from lakelog.log.plan import Planned, history_bytes, journal_bytes, plan_partitions
from lakelog.log.read import (
    Bounds,
    CatchUp,
    Chunk,
    Known,
    OutOfRange,
    bounds,
    read,
    read_slice,
    refresh,
)
from lakelog.log.reader import Driver, NamespaceReader
from lakelog.log.staging import (
    Identity,
    Staged,
    StagedObject,
    TaskParts,
    announce_write,
    read_identity,
)
from lakelog.log.survey import Extent, PartitionRef, Survey, look_at, open_survey, tell_unsealed
from lakelog.log.times import Found, Look, newest, offset_at
from lakelog.log.writes import (
    Committed,
    Decision,
    abandon_write,
    commit_write,
    finish_write,
    read_decision,
)

__all__ = [
    "Bounds",
    "CatchUp",
    "Chunk",
    "Committed",
    "Decision",
    "Driver",
    "Extent",
    "Found",
    "Identity",
    "Key",
    "Known",
    "LocatedRange",
    "Look",
    "Losses",
    "NamespaceReader",
    "Offsets",
    "OutOfRange",
    "PartitionRef",
    "Planned",
    "Staged",
    "StagedObject",
    "Survey",
    "TaskParts",
    "TaskRanges",
    "abandon_write",
    "announce_write",
    "bounds",
    "commit_write",
    "decode_offsets",
    "encode_offsets",
    "finish_write",
    "history_bytes",
    "journal_bytes",
    "limit_offsets",
    "look_at",
    "newest",
    "offset_at",
    "open_survey",
    "place_batches",
    "plan_partitions",
    "plan_read_tasks",
    "read",
    "read_decision",
    "read_identity",
    "read_slice",
    "readable",
    "refresh",
    "sealed_ranges",
    "store_now",
    "tell_unsealed",
    "unsealed_ranges",
]
