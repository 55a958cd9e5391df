"""The object store, which does not know what a log is.

operations  what can be asked for, as values; flows of one operation each
keys        which keys there are
drive       run a flow by something that performs operations
memory, local, remote
            stores; local stands on folders, remote on obstore, whose errors faults sorts
opening     from an address to a store
retry, meter
            functions around ``perform``
pieces      which bytes a read is about
"""

from lakelog.store.drive import (
    Perform,
    PerformAsync,
    each_object,
    each_object_async,
    run,
    run_async,
)
from lakelog.store.keys import KEY_BYTES_MAX, SEGMENT_BYTES_MAX, check_key, check_prefix
from lakelog.store.local import LocalStore
from lakelog.store.memory import MemoryStore
from lakelog.store.meter import Meter, Usage, metered, metered_async
from lakelog.store.opening import Store, StoreSpec, open_store
from lakelog.store.operations import (
    GET_BYTES_MAX,
    LIST_LIMIT_MAX,
    Changed,
    Created,
    Delete,
    Exists,
    Fetched,
    Flow,
    Get,
    GetRange,
    GetSuffix,
    Head,
    ListPage,
    ObjectInfo,
    Op,
    Page,
    PutIfAbsent,
    PutIfMatch,
    Read,
    Replaced,
    Write,
    delete,
    fetch,
    get,
    get_range,
    get_suffix,
    head,
    list_page,
    put_if_absent,
    put_if_match,
)
from lakelog.store.remote import RemoteStore
from lakelog.store.retry import RetryPolicy, retrying, retrying_async

__all__ = [
    "GET_BYTES_MAX",
    "KEY_BYTES_MAX",
    "LIST_LIMIT_MAX",
    "SEGMENT_BYTES_MAX",
    "Changed",
    "Created",
    "Delete",
    "Exists",
    "Fetched",
    "Flow",
    "Get",
    "GetRange",
    "GetSuffix",
    "Head",
    "ListPage",
    "LocalStore",
    "MemoryStore",
    "Meter",
    "ObjectInfo",
    "Op",
    "Page",
    "Perform",
    "PerformAsync",
    "PutIfAbsent",
    "PutIfMatch",
    "Read",
    "RemoteStore",
    "Replaced",
    "RetryPolicy",
    "Store",
    "StoreSpec",
    "Usage",
    "Write",
    "check_key",
    "check_prefix",
    "delete",
    "each_object",
    "each_object_async",
    "fetch",
    "get",
    "get_range",
    "get_suffix",
    "head",
    "list_page",
    "metered",
    "metered_async",
    "open_store",
    "put_if_absent",
    "put_if_match",
    "retrying",
    "retrying_async",
    "run",
    "run_async",
]
