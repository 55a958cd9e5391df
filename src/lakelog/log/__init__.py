"""The log: journal and history as one, and what the namespace says of it.

namespace  made once, opened by everybody
topics     cells: ids, incarnations, partitions, lanes, configs
read       offsets -> batches, from a segment or from a bundle
times      times -> offsets
plan       the history of whole topics at once
moment     what time it is, by the store's clock
"""

from lakelog.log.moment import store_now
from lakelog.log.namespace import Namespace, make_namespace, open_namespace
from lakelog.log.plan import Planned, plan_history
from lakelog.log.read import (
    Bounds,
    Chunk,
    Known,
    OutOfRange,
    bounds,
    place_batches,
    read,
    read_slice,
    refresh,
)
from lakelog.log.times import offset_at
from lakelog.log.topics import (
    Topic,
    create_topic,
    delete_topic,
    forget_retired,
    list_topics,
    read_topic,
)

__all__ = [
    "Bounds",
    "Chunk",
    "Known",
    "Namespace",
    "OutOfRange",
    "Planned",
    "Topic",
    "bounds",
    "create_topic",
    "delete_topic",
    "forget_retired",
    "list_topics",
    "make_namespace",
    "offset_at",
    "open_namespace",
    "place_batches",
    "plan_history",
    "read",
    "read_slice",
    "read_topic",
    "refresh",
    "store_now",
]
