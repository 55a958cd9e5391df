"""The broker: asyncio lives here.

server       parts put together; broker: what runs then; draining; listeners: its sockets
listener_security
             what each listener asks of clients; tls, tls_settings: certificates; accepting: over
             TLS; secure_connection: of a client that is somebody; dialing: calling other brokers
logins       how a client proves who it is; login_settings, login_configs; user_directory; tokens
connection   frames in, answers out in order; budget: how much memory requests may take
dispatch     from a frame to a handler; api: one module for each of Kafka's APIs; codes
catalog      the topics that are known; topic_entry: one of them; partitions: reading one;
             partition_finder: where
lanes        the driver of a lane: requests in, flushes out, waiting fetches are woken; all_lanes
recent_batches
             what was just written, in memory; cache: what was read from the store
coordinator  the driver of groups; held_shards: those that are here, by claims; shards: the groups
             of one shard; ledger: storing them; waiting_commits: for shards that are to come
sessions     what consumers of many partitions need not say again
cluster      which broker leads a lane; led_lanes: what leading does to lanes;
             peers: telling the others
services     all of this, for handlers
metrics      what is counted and measured; http: health and metrics, for probes and Prometheus
supervision  the owner of a broker's tasks
maintenance  sealing and retention in a process of its own
request_items
             what a request names, one after another
patterns     topics by expression, for members that subscribe so
offsets_topic, offset_records
             what groups commit, as a topic that tools read
settings     what a broker can be told; config_table, translating, listener_configs: the same by
             Kafka's names;
             workers: for several on one machine; spending: where requests cost something
limits       how much of a broker its clients may use; fixed_limits; enforced by connection_limits,
             growth_limits, group_memory, fair_scheduler, unread_answers
"""

from lakelog.broker.http import READY, BrokerStatus, HttpServer, Status, TokenFile
from lakelog.broker.lanes import LaneWriter
from lakelog.broker.limits import Limits
from lakelog.broker.maintenance import (
    MaintenancePass,
    MaintenanceProcess,
    MaintenanceSettings,
    maintain_led,
)
from lakelog.broker.metrics.counters import Metrics
from lakelog.broker.metrics.gauges import certificate_gauge, register_gauges
from lakelog.broker.metrics.merging import merge_pages
from lakelog.broker.metrics.prometheus import encode_workers
from lakelog.broker.namespace_watch import NAMESPACE_LOOK_S
from lakelog.broker.server import Broker, run_broker
from lakelog.broker.settings import HEARTBEAT_MS, BrokerSettings, CoordinatorSettings, Listener
from lakelog.broker.spending import maintain_by_prices, spend_by_prices
from lakelog.broker.supervision import Supervisor, awaited
from lakelog.broker.timekeeper import COMPARE_MS
from lakelog.broker.tls import ListenerTls
from lakelog.broker.tls_settings import TlsSettings
from lakelog.broker.translating import TranslatedLine, Translation, Verdict, translate_kafka_config
from lakelog.broker.workers import divide_maintenance, divide_settings

__all__ = [
    "COMPARE_MS",
    "HEARTBEAT_MS",
    "NAMESPACE_LOOK_S",
    "READY",
    "Broker",
    "BrokerSettings",
    "BrokerStatus",
    "CoordinatorSettings",
    "HttpServer",
    "LaneWriter",
    "Limits",
    "Listener",
    "ListenerTls",
    "MaintenancePass",
    "MaintenanceProcess",
    "MaintenanceSettings",
    "Metrics",
    "Status",
    "Supervisor",
    "TlsSettings",
    "TokenFile",
    "TranslatedLine",
    "Translation",
    "Verdict",
    "awaited",
    "certificate_gauge",
    "divide_maintenance",
    "divide_settings",
    "encode_workers",
    "maintain_by_prices",
    "maintain_led",
    "merge_pages",
    "register_gauges",
    "run_broker",
    "spend_by_prices",
    "translate_kafka_config",
]
