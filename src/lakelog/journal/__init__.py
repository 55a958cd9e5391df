"""The journal: lanes of bundles, to which any process may append.

requests     what can be asked of a lane, and how it ends
fold         what a chain of bundles amounts to
layers       the mappings of which a fold consists
draft        the next bundle, judged against the fold
head         the cell that holds a lane's floor
lane         what a process knows of a lane, and the head-check rule
walk         reading bundles; learning where a lane ends
locate       where an offset is
append       W2 to W4: the one place where the journal grows
flush        which requests go into the next bundle, and an answer for each
pace         when that is: what a put takes, and what it costs
missing      batches that were let go, and what stands behind them
timekeeping  what time it is, by the store's clock
checkpoints  written off the path of acknowledgements
"""

from lakelog.journal.append import append
from lakelog.journal.checkpoints import store_checkpoint, write_checkpoint
from lakelog.journal.flush import Flushed, Queue, flush
from lakelog.journal.fold import Fold, ProducerState, TopicIdPartition, judge
from lakelog.journal.head import HEAD_BYTES_MAX, Head, decode_head, encode_head
from lakelog.journal.lane import (
    Due,
    KnownBundle,
    Lane,
    Look,
    Snapshot,
    floor_holds,
    look,
    new_lane,
    new_lanes,
)
from lakelog.journal.locate import LocatedSlice, batches_of, locate_run, slices_of
from lakelog.journal.missing import MISSING_MAX, Missing
from lakelog.journal.pace import FlushPolicy, FlushSettings, PutTimes
from lakelog.journal.requests import (
    Append,
    Begin,
    CommitWrite,
    DeleteTopic,
    Outcome,
    Refusal,
    Refused,
    Request,
    Stored,
    Touch,
    Unknown,
    new_append,
    new_run,
)
from lakelog.journal.timekeeping import (
    SKEW_MS_MAX,
    SKEW_MS_MIN,
    StampedClock,
    StoreTime,
    compare,
    stamp,
    store_now,
)
from lakelog.journal.walk import (
    DIRECTORIES_AT_ONCE,
    TAIL_BYTES_MAX,
    checkpoint_in,
    follow,
    learn,
    probe,
    read_bundle,
    read_bundles,
    read_checkpoint,
)

__all__ = [
    "DIRECTORIES_AT_ONCE",
    "HEAD_BYTES_MAX",
    "MISSING_MAX",
    "SKEW_MS_MAX",
    "SKEW_MS_MIN",
    "TAIL_BYTES_MAX",
    "Append",
    "Begin",
    "CommitWrite",
    "DeleteTopic",
    "Due",
    "FlushPolicy",
    "FlushSettings",
    "Flushed",
    "Fold",
    "Head",
    "KnownBundle",
    "Lane",
    "LocatedSlice",
    "Look",
    "Missing",
    "Outcome",
    "ProducerState",
    "PutTimes",
    "Queue",
    "Refusal",
    "Refused",
    "Request",
    "Snapshot",
    "StampedClock",
    "StoreTime",
    "Stored",
    "TopicIdPartition",
    "Touch",
    "Unknown",
    "append",
    "batches_of",
    "checkpoint_in",
    "compare",
    "decode_head",
    "encode_head",
    "floor_holds",
    "flush",
    "follow",
    "judge",
    "learn",
    "locate_run",
    "look",
    "new_append",
    "new_lane",
    "new_lanes",
    "new_run",
    "probe",
    "read_bundle",
    "read_bundles",
    "read_checkpoint",
    "slices_of",
    "stamp",
    "store_checkpoint",
    "store_now",
    "write_checkpoint",
]
