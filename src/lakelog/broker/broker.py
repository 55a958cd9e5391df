"""A broker that runs: the connections that are open, whether clients should come, and its end.

opened, closed    a connection comes in, if it may, and goes
frame             a request of one of them
leave             while others take over what it leads and coordinates, it goes on
drain             what was accepted is stored and answered; nothing new is accepted
"""

import asyncio
import time
from dataclasses import dataclass, field
from itertools import islice

from kio.schema.errors import ErrorCode
from structlog.typing import FilteringBoundLogger

from lakelog.broker.budget import Budget, Buffers, address_of
from lakelog.broker.closing import close_lanes
from lakelog.broker.connection import Connection
from lakelog.broker.connection_limits import ConnectionLimiter
from lakelog.broker.dispatch import Dispatcher
from lakelog.broker.http import READY
from lakelog.broker.limits import Limits
from lakelog.broker.response_slots import ResponseSlot
from lakelog.broker.services import Services

__all__ = ["Broker"]

TICK_MS = 10
LEAVE_MS_MAX = 10_000
"""For others to lead what a broker led that stops."""

REDIRECT_S = 0.5
"""For so long a broker that leads nothing any more tells clients who does, before it ends: whoever
is cut off instead has to find out by asking."""

FAREWELL_MS = 2_000
"""For the last answers to be read."""


@dataclass(slots=True, kw_only=True)
class Broker:
    """A broker that runs: its parts, and the connections that are open."""

    services: Services
    dispatcher: Dispatcher
    limits: Limits
    budget: Budget
    buffers: Buffers
    answers: Budget
    connection_limiter: ConnectionLimiter
    log: FilteringBoundLogger
    ports: dict[str, int] = field(default_factory=dict)
    """By the name of the listener: where it really listens."""
    is_leaving: bool = False
    """Whether others take over what it does: it serves meanwhile."""
    is_draining: bool = False
    _connections: set[Connection] = field(default_factory=set)

    @property
    def connections(self) -> int:
        return len(self._connections)

    def opened(self, connection: Connection) -> str:
        """Take note of a connection; or say why it may not come in."""
        why = "the broker is stopping" if self.is_draining else ""
        if why and connection.is_admitted:
            self.connection_limiter.leave(connection.address)
        elif not why and not connection.is_admitted:
            why = self.connection_limiter.enter(connection.address, connection.used_s)
        if not why:
            self._connections.add(connection)
            why = self.services.quotas.opened(connection)
        return why

    def identified(self, connection: Connection, principal: str, why: str) -> None:
        """Take note of whom a certificate names; or why that is nobody."""
        result = ErrorCode.sasl_authentication_failed if why else ErrorCode.none
        how = f"a certificate: {why}" if why else "a certificate"
        self.services.audit.logged(connection, "", principal, result.name.upper(), how)

    def admit(self, host: str) -> str:
        """Count a client that begins a handshake; or say why it may not come in."""
        if self.is_draining:
            return "the broker is stopping"
        now_s = asyncio.get_running_loop().time()
        return self.connection_limiter.enter(address_of(host), now_s)

    def lost(self, host: str, why: str) -> None:
        """Take note that its handshake failed."""
        self.connection_limiter.fail(address_of(host), why)

    def closed(self, connection: Connection, why: str) -> None:
        """Take note that it has ended."""
        if connection not in self._connections:
            return  # It was refused: that is told for all of them together.
        self._connections.discard(connection)
        self.connection_limiter.leave(connection.address)
        if why and not connection.is_told:
            self.log.info("connection closed", host=connection.host, why=why[:256])

    def frame(self, connection: Connection, frame: memoryview, slot: ResponseSlot) -> None:
        """Answer a request."""
        self.services.metrics.bytes_in += len(frame)
        quotas = self.services.quotas
        if quotas.is_set:
            quotas.frame(self.dispatcher.frame, connection, frame, slot)
        else:
            self.dispatcher.frame(connection, frame, slot)

    def sent(self, size: int) -> None:
        """Take note of bytes that were sent."""
        self.services.metrics.bytes_out += size

    def is_ready(self) -> tuple[bool, str]:
        """Say whether clients should come here, and why not."""
        if self.is_leaving:
            return False, "draining"
        services = self.services
        troubles = [
            *(one.trouble() for at, one in services.lanes.items() if services.cluster.minds(at)),
            services.cluster.trouble(),
            services.coordinator.trouble(),
            services.catalog.trouble(),
            services.time.problem,
        ]
        for trouble in filter(None, troubles):
            return False, trouble
        # Clients of all other topics should come here none the less.
        damaged = services.catalog.damaged
        some = [f"topic {name} cannot be read: {error}" for name, error in damaged.items()]
        if services.authorizer is not None and (trouble := services.authorizer.trouble()):
            some.insert(0, trouble)
        return True, "; ".join((READY, *islice(some, 10), *services.tasks.troubles()))[:4096]

    async def sweep(self) -> None:
        """Answer late producers, end idle and slow connections."""
        boot_ms = self.services.clock.boot_ms()
        self.dispatcher.sweep(boot_ms)
        self.services.refusals.tell(boot_ms, self.log)
        for writer in self.services.lanes.values():
            writer.drop_late(boot_ms)
        now_s = asyncio.get_running_loop().time()
        self.connection_limiter.sweep(now_s)
        for connection in list(self._connections):
            connection.watch(now_s)

    async def watch_loop(self) -> None:
        """Count the times that the loop worked for longer than 50 ms without a break."""
        loop = asyncio.get_running_loop()
        while True:
            worked_s, due_s = time.thread_time(), loop.time() + TICK_MS / 1000
            await asyncio.sleep(TICK_MS / 1000)
            # A loop that was late did not work all the time: others have this processor, too. And
            # what it did before the tick was due was not without a break.
            late_s = time.thread_time() - worked_s, loop.time() - due_s
            self.services.metrics.stall(min(late_s))

    async def leave(self) -> None:
        """Go on until others lead and coordinate what this broker does, for a while."""
        self.is_leaving = True
        # Whoever has taken its lanes knows that it leaves, and looks for its groups. Released
        # before that they would have no coordinator until the others list the members again.
        await self.services.cluster.drain(min(self.limits.drain_ms, LEAVE_MS_MAX))
        redirecting = asyncio.sleep(REDIRECT_S if self.services.cluster.node.others() else 0)
        await asyncio.gather(self.services.coordinator.release(), redirecting)

    async def drain(self) -> None:
        """Accept nothing more, answer what was accepted, and close all connections."""
        self.is_draining = True
        await close_lanes(self.services.lanes.values(), self.limits.drain_ms, self.log)
        await self.services.coordinator.close(release=not self.services.watch.is_moved)
        for _ in range(FAREWELL_MS // 10):
            if not self.dispatcher.is_redirecting:
                break
            await asyncio.sleep(0.01)
        self.dispatcher.sweep(1 << 62)
        self.services.refusals.tell(1 << 62, self.log)
        for _ in range(FAREWELL_MS // 10):
            await asyncio.sleep(0.01)
            if not any(one.is_sending for one in self._connections):
                break
        for connection in list(self._connections):
            connection.close("the broker is stopping")
