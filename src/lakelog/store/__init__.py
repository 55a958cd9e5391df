"""The object store, which does not know what a log is.

operations  what can be asked for, as values; asking: flows of one operation each
keys        which keys there are
drive       what performs the operations of a flow: one by one, on a loop, or by threads
together    flows as one flow
memory, local, remote, etcd
            stores; local stands on folders, drafts and the system calls of system, remote on
            obstore, whose errors faults sorts, and etcd on etcd_calls: it keeps small cells only
divided     a store of which etcd keeps the cells of members and groups
opening     from an address to a store; environment: what variables say of it
retry, meter
            functions around ``perform``; prices: what requests cost
pieces      which bytes a read is about
puts        objects that are put under a name of one's own, again and not for ever
cells       objects that are changed by compare-and-swap
promises    what a log needs a store to keep, tried on a key
probe       whether a store keeps it; lifecycle: whether its bucket deletes by itself; mounts:
            whether other machines may use its folder
"""

from lakelog.flows import run, run_async
from lakelog.store.asking import (
    ask,
    ask_all,
    ask_many,
    delete,
    delete_many,
    fetch_many,
    get,
    get_range,
    head,
    is_there,
    list_objects,
    put_if_absent,
    put_if_match,
    put_together,
)
from lakelog.store.cells import CELL_BYTES_MAX, change_cell, read_cell
from lakelog.store.divided import DividedStore, metered_store
from lakelog.store.drive import (
    Perform,
    PerformAsync,
    each_object,
    run_beside,
    run_by_threads,
    working,
    working_async,
    working_by_threads,
)
from lakelog.store.etcd import ETCD_BYTES_MAX, ETCD_CHANGES_MAX, EtcdStore
from lakelog.store.folders import Folders
from lakelog.store.keys import KEY_BYTES_MAX, SEGMENT_BYTES_MAX, check_key, check_prefix
from lakelog.store.lifecycle import Expiry, ExpiryRule, find_expiry
from lakelog.store.local import LocalStore
from lakelog.store.memory import MemoryStore
from lakelog.store.meter import (
    OPERATION_KINDS,
    Meter,
    OperationObserver,
    Usage,
    metered,
    metered_async,
)
from lakelog.store.mounts import file_system_of
from lakelog.store.opening import METADATA, Store, StoreSpec, divide_options, open_store
from lakelog.store.operations import (
    AT_ONCE,
    GET_BYTES_MAX,
    LIST_LIMIT_MAX,
    WORK,
    Body,
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
    Many,
    ObjectInfo,
    Op,
    Operation,
    Page,
    PutIfAbsent,
    PutIfMatch,
    PutTogether,
    Read,
    Replaced,
    Wait,
    Work,
    Write,
    join_body,
)
from lakelog.store.prices import FREE, PRICES, S3_PRICES, Prices, parse_prices, prices_of
from lakelog.store.probe import (
    Finding,
    admit,
    expiry_finding,
    machine_finding,
    probe_store,
)
from lakelog.store.promises import PROBE_AT_START, PROBE_THOROUGH, ProbeSize, Verdict
from lakelog.store.puts import SOON, Put, Unanswered, put_advisory, put_answered, put_named
from lakelog.store.remote import RemoteStore
from lakelog.store.retry import RetryPolicy, retrying, retrying_async
from lakelog.store.system import LINUX, System
from lakelog.store.together import isolated, together, tried

__all__ = [
    "AT_ONCE",
    "CELL_BYTES_MAX",
    "ETCD_BYTES_MAX",
    "ETCD_CHANGES_MAX",
    "FREE",
    "GET_BYTES_MAX",
    "KEY_BYTES_MAX",
    "LINUX",
    "LIST_LIMIT_MAX",
    "METADATA",
    "OPERATION_KINDS",
    "PRICES",
    "PROBE_AT_START",
    "PROBE_THOROUGH",
    "S3_PRICES",
    "SEGMENT_BYTES_MAX",
    "SOON",
    "WORK",
    "Body",
    "Changed",
    "Created",
    "Delete",
    "DividedStore",
    "EtcdStore",
    "Exists",
    "Expiry",
    "ExpiryRule",
    "Fetched",
    "Finding",
    "Flow",
    "Folders",
    "Get",
    "GetRange",
    "GetSuffix",
    "Head",
    "ListPage",
    "LocalStore",
    "Many",
    "MemoryStore",
    "Meter",
    "ObjectInfo",
    "Op",
    "Operation",
    "OperationObserver",
    "Page",
    "Perform",
    "PerformAsync",
    "Prices",
    "ProbeSize",
    "Put",
    "PutIfAbsent",
    "PutIfMatch",
    "PutTogether",
    "Read",
    "RemoteStore",
    "Replaced",
    "RetryPolicy",
    "Store",
    "StoreSpec",
    "System",
    "Unanswered",
    "Usage",
    "Verdict",
    "Wait",
    "Work",
    "Write",
    "admit",
    "ask",
    "ask_all",
    "ask_many",
    "change_cell",
    "check_key",
    "check_prefix",
    "delete",
    "delete_many",
    "divide_options",
    "each_object",
    "expiry_finding",
    "fetch_many",
    "file_system_of",
    "find_expiry",
    "get",
    "get_range",
    "head",
    "is_there",
    "isolated",
    "join_body",
    "list_objects",
    "machine_finding",
    "metered",
    "metered_async",
    "metered_store",
    "open_store",
    "parse_prices",
    "prices_of",
    "probe_store",
    "put_advisory",
    "put_answered",
    "put_if_absent",
    "put_if_match",
    "put_named",
    "put_together",
    "read_cell",
    "retrying",
    "retrying_async",
    "run",
    "run_async",
    "run_beside",
    "run_by_threads",
    "together",
    "tried",
    "working",
    "working_async",
    "working_by_threads",
]
