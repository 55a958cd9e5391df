"""Accepting over TLS: who may come is asked before anything is computed for him.

    kernel --> accept --> may this address come? --> handshake, with a deadline --> Connection
                  |           no: closed, counted        failed: closed, counted
                  '-- so many handshakes at once, of one address a part; beyond it one that
                      stalls is closed, or the next one waits until one does

A handshake costs a signature, and a client needs to say next to nothing to have one begun. A server
of asyncio begins all that come, and nobody is told of those that fail; so sockets are accepted here
and handed to the loop one by one, which does the rest as it does for a server.
"""

import asyncio
import math
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from lakelog.broker.budget import address_of
from lakelog.broker.limits import Limits
from lakelog.broker.metrics.counters import Metrics
from lakelog.broker.supervision import Supervisor
from lakelog.broker.tls import ListenerTls

__all__ = ["Gate", "Handshake", "Handshakes", "TlsServer"]

PAUSE_S = 0.1
"""Before the next accept when the system has no more files."""

SHUTDOWN_S = 2.0
"""For a client to say farewell."""

STALLED_S = 1.0
"""A handshake that has taken so long makes room for another one if there is none. Few round trips
are in it: a client at the other end of the world needs less.
"""


class Gate(Protocol):
    """Who says whether a client may come in."""

    def admit(self, host: str) -> str:
        """Count a client of an address; or say why it may not come in."""
        ...

    def lost(self, host: str, why: str) -> None:
        """A client that was counted did not come through its handshake."""
        ...


class Handshake:
    """One that has begun, or waits for that."""

    def __init__(self, client: socket.socket, address: str) -> None:
        self.client, self.address = client, address
        self.begun_s = math.inf
        self.made_room = False
        """It was ended for another one."""

    def make_room(self) -> None:
        """End it; its task hears of that from the socket, and leaves."""
        self.made_room = True
        with suppress(OSError):  # The client has hung up meanwhile.
            self.client.shutdown(socket.SHUT_RDWR)


class Handshakes:
    """Those of all listeners that have begun, and not ended."""

    def __init__(self, limits: Limits, tasks: Supervisor, metrics: Metrics) -> None:
        self.limits, self.tasks, self.metrics = limits, tasks, metrics
        self._room = asyncio.Semaphore(limits.handshakes)
        self._share = max(limits.handshakes * limits.address_percent // 100, 1)
        self._begun: dict[str, list[Handshake]] = {}
        """By address, the oldest first, and last those that wait until they may begin."""

    def is_share_spent(self, address: str) -> bool:
        """Say whether the clients of an address have as many as they may."""
        return len(self._begun.get(address, ())) >= self._share

    async def enter(self, client: socket.socket, address: str) -> Handshake:
        """Wait until one more may begin."""
        begun = Handshake(client, address)
        self._begun.setdefault(address, []).append(begun)
        while True:
            if self._room.locked():
                self._end_stalled()
            with suppress(TimeoutError):
                async with asyncio.timeout(STALLED_S / 4):
                    await self._room.acquire()
                    break
        begun.begun_s = asyncio.get_running_loop().time()
        return begun

    def leave(self, ended: Handshake) -> None:
        """Let another one begin."""
        self._room.release()
        left = self._begun[ended.address]
        left.remove(ended)
        if not left:
            del self._begun[ended.address]

    def _end_stalled(self) -> None:
        """End the oldest that stalls, of the address that has most of them."""
        latest_s = asyncio.get_running_loop().time() - STALLED_S
        stalled = [
            [one for one in begun if one.begun_s <= latest_s and not one.made_room]
            for begun in self._begun.values()
        ]
        most = max(stalled, key=len, default=[])
        if most:
            most[0].make_room()


class TlsServer:
    """A socket that listens, and whose clients speak TLS."""

    def __init__(
        self,
        listening: socket.socket,
        tls: ListenerTls,
        connect: Callable[[], asyncio.BaseProtocol],
        gate: Gate,
        handshakes: Handshakes,
    ) -> None:
        listening.setblocking(False)
        self.sockets = (listening,)
        self._tls, self._connect, self._gate = tls, connect, gate
        self._handshakes = handshakes
        self._accepting: asyncio.Task[None] | None = None

    async def start_serving(self) -> None:
        """Accept from now on."""
        self._accepting = self._handshakes.tasks.keep("accept", self._accept)

    def close(self) -> None:
        """Accept nothing more. Connections go on."""
        if self._accepting is not None:
            self._accepting.cancel()
        self.sockets[0].close()

    async def _accept(self) -> None:
        loop, handshakes = asyncio.get_running_loop(), self._handshakes
        while True:
            try:
                client, (host, *_) = await loop.sock_accept(self.sockets[0])
            except OSError:  # No more files, most likely: those that are open end some time.
                await asyncio.sleep(PAUSE_S)
                continue
            address = address_of(host)
            why = self._gate.admit(host)
            if not why and handshakes.is_share_spent(address):
                why = "the address has begun too many TLS handshakes"
                self._gate.lost(host, why)
            if why:
                client.close()
                continue
            try:
                begun = await handshakes.enter(client, address)
            except asyncio.CancelledError:
                client.close()
                raise
            handshakes.tasks.once("handshake", self._shake(begun, host))

    async def _shake(self, begun: Handshake, host: str) -> None:
        metrics = self._handshakes.metrics.security
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(
                self._connect,
                begun.client,
                ssl=self._tls.context,
                ssl_handshake_timeout=self._handshakes.limits.handshake_ms / 1000,
                ssl_shutdown_timeout=SHUTDOWN_S,
            )
            metrics.handshake_seconds.observe(loop.time() - begun.begun_s)
        except OSError as error:
            why = "stalled" if begun.made_room else _why(error)
            metrics.handshakes_failed[why] += 1
            self._gate.lost(host, f"the TLS handshake failed: {why}")
        finally:
            self._handshakes.leave(begun)


def _why(error: OSError) -> str:
    """Return one of few words: what a client sends is not in them."""
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.lower()
    if "handshake" in str(error) and "longer" in str(error):
        return "timeout"
    return "connection_lost"
