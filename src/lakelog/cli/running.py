"""A broker with all that belongs to it, from a store to the end of a process.

    store -> probed -> its namespace opened, or made -> HTTP -> broker -> keeper <----.
                                                         |  until a signal, or until  | groups were
                                                         |  another process has taken | moved: all
                                                         |  its node id               | of it anew
                                          drained <- broker <- keeper killed ---------'

The HTTP server is there from the first moment to the last, so that whoever asks for health gets an
answer while the broker starts and while it drains. A second signal ends it without waiting.

A worker is run alike (``worker``), and answers its supervisor instead of HTTP. Both may be sent the
same signal, as by a terminal or by systemd: a worker heeds SIGTERM, once, and nothing but its
supervisor hurries it.
"""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple, Protocol

import uvloop
from structlog.typing import FilteringBoundLogger

from lakelog.broker import (
    Broker,
    BrokerSettings,
    BrokerStatus,
    HttpServer,
    ListenerTls,
    MaintenancePass,
    MaintenanceProcess,
    MaintenanceSettings,
    Metrics,
    Status,
    Supervisor,
    TokenFile,
    awaited,
    register_gauges,
    run_broker,
)
from lakelog.catalog import Namespace, make_namespace, open_namespace, place_store
from lakelog.cli.storage import admit_store
from lakelog.errors import ConflictError, NotFoundError, UnavailableError
from lakelog.host import new_id, tune_process
from lakelog.model import Rules
from lakelog.store import (
    DividedStore,
    ListPage,
    Page,
    Perform,
    Store,
    StoreSpec,
    retrying,
    run,
    working,
)

__all__ = ["Plan", "Running", "Watcher", "is_here", "open_log", "run_plan", "until_signal"]


AGAIN_S = 1.0
"""Before a broker is tried again that could not start anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be run."""

    spec: StoreSpec
    settings: BrokerSettings
    http: tuple[str, int] | None = None
    """Where health and metrics are; None: nowhere."""
    token: TokenFile | None = None
    """What metrics are asked for with."""
    tls: ListenerTls | None = None
    """That of health and metrics; None: they have none."""
    keep: MaintenanceSettings | None = field(default_factory=MaintenanceSettings)
    """None: somebody else keeps the namespace."""


class Running(NamedTuple):
    """What runs."""

    broker: Broker
    http: tuple[str, int] | None
    """Where health and metrics really are."""

    def address(self, plan: Plan) -> str:
        """Return what clients are told first."""
        listener = plan.settings.listeners[0]
        port = listener.advertised_port or next(iter(self.broker.ports.values()))
        return f"{listener.advertised_host or listener.host}:{port}"


Ready = Callable[[Running], Awaitable[None]]
"""Called when clients may come."""


class Watcher(Protocol):
    """A supervisor, as a worker sees it."""

    async def answer(self, status: Status) -> None:
        """Answer what it asks, for as long as it lives."""
        ...


def is_here(url: str) -> bool:
    """Say whether a store is of this machine: a folder, or memory."""
    return "://" not in url or url.startswith("file:")


def open_log(
    spec: StoreSpec, *, make: bool, rules: Rules | None = None
) -> tuple[Store, Namespace, bool]:
    """Probe a store, and open the namespace in it; say whether it was made.

    In an empty folder, or in memory, a namespace is made unasked. A bucket is shared, and a wrong
    address is easily typed: there it is made only if ``make`` says so. A new one has ``rules``.

    Raises:
        InvalidInputError: the store cannot carry a log.
        UnavailableError: it does not answer.
        NotFoundError: there is no namespace.
    """
    store = spec.open()
    perform = retrying(store.perform)
    try:
        namespace, made = run(open_namespace(), working(perform)), False
    except NotFoundError:
        if not make and not (is_here(spec.url) and _is_empty(perform)):
            raise NotFoundError(
                f"there is no namespace in {spec.url}: make one with lakelog init {spec.url}"
            ) from None
        namespace, made = Namespace(id=new_id(), rules=rules or Rules()), True
    if not made:
        place_store(store, namespace)  # It raises what is wrong with how it was called.
    admit_store(spec, store)
    if made:
        try:
            etcd_for = spec.url if isinstance(store, DividedStore) else ""
            making = make_namespace(namespace.id, namespace.rules, etcd_for=etcd_for)
            namespace = run(making, working(perform))
        except ConflictError:  # Brokers of a cluster are started together: another was first.
            namespace, made = run(open_namespace(), working(perform)), False
    return store, namespace, made


def _is_empty(perform: Perform) -> bool:
    try:
        page: Page = perform(ListPage("", limit=1))
    except NotFoundError:
        return True  # A folder that is not there yet.
    return not page.objects


def run_plan(
    plan: Plan,
    store: Store,
    log: FilteringBoundLogger,
    *,
    ready: Ready,
    link: Watcher | None = None,
) -> None:
    """Run a broker until a signal comes; ``ready`` is called when clients may come.

    A worker has a ``link`` to its supervisor.

    Raises:
        FencedError: another process has taken its node id.
        LakelogError: it cannot start.
    """
    tune_process()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_run(plan, store, log, ready, link))


async def _run(
    plan: Plan, store: Store, log: FilteringBoundLogger, ready: Ready, link: Watcher | None
) -> None:
    stop = until_signal(log) if link is None else _until_told(log)
    again = await _run_once(plan, store, log, ready, link, stop)
    while again is not None and not stop.is_set():
        log.info("members and groups of this namespace were moved: the broker starts anew")
        plan = again
        try:
            again = await _run_once(plan, plan.spec.open(), log, ready, link, stop)
        except UnavailableError as error:
            log.warning("the broker did not start, and is tried again", error=str(error)[:512])
            with suppress(TimeoutError):
                async with asyncio.timeout(AGAIN_S):
                    await stop.wait()


async def _run_once(
    plan: Plan,
    store: Store,
    log: FilteringBoundLogger,
    ready: Ready,
    link: Watcher | None,
    stop: asyncio.Event,
) -> Plan | None:
    """Run a broker; return what to run next, if it ended because groups were moved."""
    metrics = Metrics(prices=plan.spec.prices)
    tasks = Supervisor(log, metrics)
    running: list[Broker] = []
    maintaining: list[MaintenanceProcess] = []
    status = BrokerStatus(metrics, lambda: _health(running, maintaining))
    address: tuple[str, int] | None = None
    async with AsyncExitStack() as stack:
        if link is not None:
            tasks.keep("supervisor", partial(link.answer, status))
        if plan.http is not None:
            host, port = plan.http
            server = HttpServer(
                status,
                host=host,
                port=port,
                tasks=tasks,
                token=plan.token,
                tls=plan.tls,
                metrics=metrics,
                log=log,
            )
            await stack.enter_async_context(server)
            address = server.address
            log.info("health and metrics", address="{}:{}".format(*address))
        broker = await stack.enter_async_context(
            run_broker(store, plan.settings, log, metrics=metrics)
        )
        register_gauges(metrics, broker.services, plan.tls)
        running.append(broker)
        if plan.keep is not None:
            keeper = MaintenanceProcess(
                plan.spec,
                plan.keep,
                metrics,
                led=broker.services.cluster.led,
                on_report=lambda report: _tell(log, report),
                on_error=log.warning,
                tasks=tasks,
            )
            await stack.enter_async_context(keeper)
            maintaining.append(keeper)
        lost = awaited(broker.services.cluster.lost())
        moved = awaited(broker.services.watch.moved())
        ends = {awaited(stop.wait()), lost, moved}
        greeting = awaited(_greet(ready, Running(broker, address)))
        await asyncio.wait({greeting, *ends}, return_when=asyncio.FIRST_COMPLETED)
        if greeting.done():
            greeting.result()
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        greeting.cancel()
        # Whoever takes the node id of a broker that was asked to stop is its successor.
        fenced = lost.result() if lost.done() else None
        log.info("draining", connections=broker.connections)
        again = _same_again(plan, Running(broker, address)) if moved.done() else None
    log.info("stopped")
    if fenced is not None:
        raise fenced
    return again


def _same_again(plan: Plan, running: Running) -> Plan:
    """Return a plan of the same broker: with the node id and the ports that it has now."""
    ports = running.broker.ports
    listeners = tuple(
        replace(one, port=ports.get(one.name, one.port)) for one in plan.settings.listeners
    )
    node_id = running.broker.services.cluster.node_id
    settings = replace(plan.settings, node_id=node_id, listeners=listeners)
    return replace(plan, settings=settings, http=running.http)


async def _greet(ready: Ready, running: Running) -> None:
    await ready(running)


def _health(running: list[Broker], maintaining: list[MaintenanceProcess]) -> tuple[bool, str]:
    if not running:
        return False, "starting"
    is_ready, why = running[0].is_ready()
    trouble = next(filter(None, (keeper.trouble() for keeper in maintaining)), "")
    # Clients lose nothing by it for a while, and so they may come.
    return is_ready, f"{why}; {trouble}" if trouble else why


def _tell(log: FilteringBoundLogger, report: MaintenancePass) -> None:
    for what, why in report.failures.items():
        log.warning("maintenance failed", what=what, why=why)
    if report.segments or report.trimmed or report.deleted:
        log.info(
            "maintained",
            segments=report.segments,
            records=report.records,
            bytes=report.size_bytes,
            trimmed=report.trimmed,
            deleted=report.deleted,
            seconds=round(report.seconds, 3),
        )


def until_signal(log: FilteringBoundLogger) -> asyncio.Event:
    """Return what the first signal sets; the second one ends the process."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()

    def first(which: signal.Signals) -> None:
        log.info("asked to stop", signal=which.name)
        stop.set()
        for one in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(one)
            signal.signal(one, signal.SIG_DFL)

    for one in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(one, first, one)
    return stop


def _until_told(log: FilteringBoundLogger) -> asyncio.Event:
    """Return what SIGTERM sets, however often it comes; Ctrl-C is the supervisor's."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()

    def told() -> None:
        if not stop.is_set():
            log.info("asked to stop", signal=signal.SIGTERM.name)
        stop.set()

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    loop.add_signal_handler(signal.SIGTERM, told)
    return stop
