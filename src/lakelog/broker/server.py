"""A broker: its parts put together, its listeners opened, and closed again without losing data.

    open     the store has been probed; the namespace is there; listeners are bound; then the broker
             joins the others, takes the lanes that it should lead, and loads groups. Only then are
             connections served.
    run      connections, the flusher of each lane, a sweeper, watches over topics and members
    leave    while others take over what it leads and coordinates, it goes on
    drain    listeners are closed; what was accepted is stored and answered; nothing new is accepted

A broker that cannot reach its store does not start: there is no mode in which it keeps data in
memory instead.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from hashlib import sha256

from structlog.typing import FilteringBoundLogger

from lakelog.broker.accepting import Handshakes
from lakelog.broker.all_lanes import AllLanes
from lakelog.broker.broker import Broker
from lakelog.broker.budget import Budget, Buffers
from lakelog.broker.cache import ColdCache
from lakelog.broker.catalog import Catalog
from lakelog.broker.claims import Claims
from lakelog.broker.client_quotas import QUOTAS_LOOK_S, ClientQuotas
from lakelog.broker.cluster import Cluster
from lakelog.broker.connection_limits import ConnectionLimiter
from lakelog.broker.coordinator import Coordinator
from lakelog.broker.dispatch import Dispatcher
from lakelog.broker.lanes import LaneWriter
from lakelog.broker.listener_security import CERTIFICATES_S, ListenerSecurity
from lakelog.broker.listeners import bind_listeners
from lakelog.broker.logins import Logins
from lakelog.broker.metrics.counters import Metrics
from lakelog.broker.metrics.from_threads import CountsFromThreads
from lakelog.broker.metrics.lags import Lags
from lakelog.broker.mirror import MIRROR_S
from lakelog.broker.namespace_watch import NamespaceWatch
from lakelog.broker.offsets_topic import OFFSETS_TOPIC, OffsetsTopic
from lakelog.broker.peers import Peers
from lakelog.broker.recent_batches import RecentBatches
from lakelog.broker.refusals import Refusals
from lakelog.broker.security.audit_log import AuditLog
from lakelog.broker.security.audit_trail import AuditTrail
from lakelog.broker.security.authorizer import LOOK_S, Authorizer
from lakelog.broker.services import Services
from lakelog.broker.sessions import Sessions
from lakelog.broker.settings import BrokerSettings
from lakelog.broker.supervision import Supervisor
from lakelog.broker.timekeeper import LOOK_MS, Timekeeper
from lakelog.broker.user_directory import USERS_S, UserDirectory
from lakelog.catalog import ETCD, check_metadata, open_namespace, place_store
from lakelog.coordination import groups_in
from lakelog.errors import LakelogError
from lakelog.host import SystemClock, new_id, open_files_max
from lakelog.journal import StampedClock, StoreTime, new_lane
from lakelog.ports import Clock, Ids
from lakelog.store import (
    DividedStore,
    Store,
    Work,
    metered,
    metered_store,
    retrying,
    retrying_async,
    run,
    run_async,
    working,
    working_async,
)

__all__ = ["Broker", "run_broker"]

EVERY_S = 1.0
"""How often lags, and commits for the topic of offsets, are looked at."""

SWEEP_MS = 100


@asynccontextmanager
async def run_broker(
    store: Store,
    settings: BrokerSettings,
    log: FilteringBoundLogger,
    *,
    metrics: Metrics | None = None,
    clock: Clock | None = None,
    ids: Ids = new_id,
) -> AsyncIterator[Broker]:
    """Run a broker on a namespace; at the end of the context it has drained.

    Raises:
        LakelogError: there is no namespace, the store does not answer, or this machine's clock is
            far from the store's.
    """
    clock = clock or SystemClock()
    metrics = metrics or Metrics()
    tasks = Supervisor(log, metrics)
    loop, limits = asyncio.get_running_loop(), settings.limits
    before = loop.get_exception_handler()
    loop.set_exception_handler(tasks.unhandled)
    opening = working_async(retrying_async(metered_store(store, metrics, metrics.etcd)))
    namespace = await run_async(open_namespace(), opening)
    knows_etcd, store = isinstance(store, DividedStore), place_store(store, namespace)
    perform = retrying_async(metered_store(store, metrics, metrics.etcd))
    await run_async(check_metadata(namespace), working_async(perform))
    settings = settings.placed(in_etcd=namespace.metadata == ETCD)
    assert settings.heartbeat_ms is not None
    time_ = StoreTime(settings.clock_skew_ms_max)
    timekeeper = Timekeeper(time_, clock, ids, perform, log)
    await timekeeper.start()
    stamped = StampedClock(time_, clock)

    def on_error(error: LakelogError) -> None:
        log.warning("an operation failed", error=str(error)[:512])

    recent = RecentBatches(limits.cache_bytes // 2)
    cold = ColdCache(perform, limits.cache_bytes // 2, metrics)
    refusals = Refusals(metrics)
    writer_id = ids()

    counted = metered(store.perform, CountsFromThreads(metrics, loop))

    async def run_in_thread(flow: Work[None]) -> None:
        await asyncio.to_thread(run, flow, working(retrying(counted)))

    bundle_build_lock = asyncio.Lock()

    def open_lane(number: int) -> LaneWriter:
        return LaneWriter(
            new_lane(number, namespace.rules, clock, ids, time=time_, writer=writer_id),
            perform,
            settings.flush,
            probe_ms=settings.probe_ms,
            probe_ms_max=settings.probe_ms_max,
            on_error=on_error,
            stored=recent.add,
            flushed=metrics.flush,
            run_in_thread=run_in_thread,
            bundle_build_lock=bundle_build_lock,
            tasks=tasks,
        )

    lanes = AllLanes(namespace.rules.lanes, open_lane, tasks)
    advertised: dict[str, tuple[str, int]] = {}
    security = ListenerSecurity(settings.listeners, limits)
    cluster = Cluster(
        namespace=namespace.id,
        run=writer_id,
        lanes=lanes,
        perform=metered_store(store, metrics, metrics.etcd),
        heartbeat_ms=settings.heartbeat_ms,
        rack=settings.rack,
        knows_etcd=knows_etcd,
        clock=stamped,
        ids=ids,
        tasks=tasks,
        metrics=metrics,
        on_error=on_error,
        peers=Peers(tasks, metrics, security.dialer(settings.inter_broker_listener)),
        peer_listener=settings.inter_broker_listener,
    )
    catalog = Catalog(
        perform=perform,
        lanes=lanes,
        cluster=cluster,
        recent=recent,
        cold=cold,
        clock=stamped,
        ids=ids,
        metrics=metrics,
        tasks=tasks,
        refresh_ms=settings.topics_refresh_ms,
        on_error=on_error,
    )
    path, counts = settings.audit_log, metrics.security
    audit = AuditTrail(counts, None if path is None else AuditLog(path, clock, log, counts))
    users = UserDirectory(perform, ids, on_change=cluster.hint, on_error=on_error)
    groups = groups_in(namespace.metadata, writer_id, move=namespace.moves)
    coordinator = Coordinator(
        groups,
        perform,
        claims=Claims(groups, perform, cluster=cluster, clock=stamped, on_error=on_error),
        clock=stamped,
        ids=ids,
        settings=settings.groups,
        limits=limits,
        on_error=on_error,
        refused=refusals.no_room,
        tasks=tasks,
    )
    budget = Budget(limits.memory_bytes, limits.address_percent)
    answers = Budget(limits.answer_bytes, limits.address_percent)
    services = Services(
        settings=settings,
        clock=stamped,
        ids=ids,
        cluster=cluster,
        catalog=catalog,
        lanes=lanes,
        coordinator=coordinator,
        sessions=Sessions(limits.fetch_sessions, limits.fetch_session_partitions, ids),
        budget=budget,
        answers=answers,
        metrics=metrics,
        time=time_,
        tasks=tasks,
        refusals=refusals,
        watch=NamespaceWatch(namespace, perform, lanes),
        users=users,
        audit=audit,
        quotas=ClientQuotas(perform, metrics.quotas, loop.time),
        secured=security.secured,
    )
    if settings.authorizer.is_on:
        services.authorizer = Authorizer(
            settings.authorizer,
            perform,
            clock=stamped,
            ids=ids,
            on_error=on_error,
            on_change=cluster.hint,
        )
        await services.authorizer.load()
    services.lags = Lags(services)
    offsets_id = sha256(namespace.id + OFFSETS_TOPIC.encode()).digest()[:16]
    offsets = OffsetsTopic(catalog, coordinator, stamped, offsets_id, tasks)
    catalog.offer(offsets)
    broker = Broker(
        services=services,
        dispatcher=Dispatcher(
            services,
            Logins(
                users,
                security.token_checks(clock),
                limits=limits,
                clock=clock,
                ids=ids,
                metrics=metrics,
                audit=audit,
                tasks=tasks,
                log=log,
            ),
            log,
        ),
        limits=limits,
        budget=budget,
        buffers=Buffers(limits.memory_bytes),
        answers=answers,
        connection_limiter=ConnectionLimiter(limits, open_files_max(), metrics, log, loop.time()),
        log=log,
    )

    async def hinted() -> None:
        await catalog.watch()
        if security.has_logins:
            await users.look()
        if services.authorizer is not None:
            await services.authorizer.watch()

    cluster.on_hint = lambda: tasks.once("hint", hinted())
    # Nothing is taken from another broker until nothing can keep this one from serving.
    servers = await bind_listeners(
        settings.listeners,
        partial(security.connect, broker),
        broker.ports,
        advertised,
        secured=security.secured,
        gate=broker,
        handshakes=Handshakes(limits, tasks, metrics),
    )
    lanes.start()
    try:
        await cluster.join(settings.node_id, advertised)
        broker.services.settings = replace(settings, node_id=cluster.node_id)
        ends = await asyncio.gather(catalog.refresh(), cluster.prepare(), return_exceptions=True)
        for error in filter(None, ends):
            raise error
        await cluster.begin()
        timekeeper.mind(writer.lane for writer in lanes.values())
        await coordinator.load()
        if security.has_logins:
            await users.load()
            security.tell(users.current, log)
            tasks.every("users", USERS_S, users.look)
        await services.quotas.start(on_error)
        for server in servers:
            await server.start_serving()
        tasks.every("sweep", SWEEP_MS / 1000, broker.sweep)
        tasks.keep("loop watch", broker.watch_loop)
        tasks.every("clock watch", LOOK_MS / 1000, timekeeper.look)
        tasks.every("topics watch", settings.topics_refresh_ms / 1000, catalog.watch)
        tasks.keep("namespace watch", services.watch.watch)
        if services.authorizer is not None:
            tasks.every("ACLs watch", LOOK_S, services.authorizer.watch)
        tasks.every("quotas watch", QUOTAS_LOOK_S, services.quotas.look)
        if namespace.metadata == ETCD:
            services.mirror = coordinator.mirror(namespace.moves)
            tasks.every("mirror", MIRROR_S, services.mirror.look)
        tasks.every("lag watch", EVERY_S, services.lags.look)
        tasks.every("offsets topic", EVERY_S, offsets.watch)
        tasks.keep("audit log", audit.run)
        tasks.every("certificates", CERTIFICATES_S, partial(security.look, log))
        yield broker
    finally:
        if not services.watch.is_moved:  # Nobody takes over where nobody looks any more.
            await broker.leave()
        for server in servers:
            server.close()
        await broker.drain()
        await cluster.leave()
        await tasks.close()
        await audit.flush()
        loop.set_exception_handler(before)
