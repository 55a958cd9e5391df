"""Telling other brokers that there is something to see: a connection for each, made when needed.

    this one has stored what it announces --> BrokerHeartbeat --> the other one lists the members

They would see it with their next list anyway, and nothing else is said. So nothing here is needed,
nothing is believed and nothing is tried again but a connection that has been idle for too long. A
broker that cannot be reached costs a second, in which others are told as well.
"""

import asyncio
from collections.abc import Iterable
from contextlib import suppress

from lakelog.broker.dialing import Dial, Streams, dialer, read_answer
from lakelog.broker.metrics.counters import Metrics
from lakelog.broker.supervision import Supervisor
from lakelog.errors import LakelogError
from lakelog.wire import MetadataBroker, encode_broker_heartbeat

__all__ = ["Peers"]

TELL_S = 1.0
"""To connect, to ask and to be answered."""

_ERROR_AT = 9
"""Behind the correlation id, tags and the throttle time."""


class _Peer:
    """One of the others."""

    def __init__(self, address: tuple[str, int], dial: Dial) -> None:
        self.address, self._dial = address, dial
        self.is_due = False
        """Whether there is something that it has not been told."""
        self.telling: asyncio.Task[None] | None = None
        self._streams: Streams | None = None

    async def ask(self, frame: bytes) -> None:
        """Send a request, and wait for its answer.

        Raises:
            OSError, EOFError: it cannot be reached, or does not answer.
        """
        if self._streams is not None:
            with suppress(OSError, EOFError):  # It may have been idle for too long.
                return await _asked(*self._streams, frame)
            self.close()
        self._streams = await self._dial(*self.address)
        return await _asked(*self._streams, frame)

    def close(self) -> None:
        """End the connection, if there is one."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


async def _asked(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, frame: bytes) -> None:
    writer.write(frame)
    answer = await read_answer(reader)
    if any(answer[_ERROR_AT : _ERROR_AT + 2]):
        raise EOFError("it does not take this from us: allow ClusterAction on the cluster")


class Peers:
    """The other brokers, as far as they were told something."""

    def __init__(self, tasks: Supervisor, metrics: Metrics, dial: Dial | None = None) -> None:
        self._tasks, self._metrics = tasks, metrics
        self._dial = dial or dialer()
        self._peers: dict[int, _Peer] = {}

    def tell(self, node: int, others: Iterable[MetadataBroker]) -> None:
        """Let the others know that this broker has changed; all at once, and none is waited for.

        Whoever is being told something just now is told once more.
        """
        found = {one.node_id: (one.host, one.port) for one in others}
        for gone in self._peers.keys() - found.keys():
            self._peers.pop(gone).close()
        for number, address in found.items():
            peer = self._peers.get(number)
            if peer is None or peer.address != address:
                if peer is not None:
                    peer.close()
                peer = self._peers[number] = _Peer(address, self._dial)
            peer.is_due = True
            if peer.telling is None or peer.telling.done():
                peer.telling = self._tasks.once("peers", self._tell(peer, node))

    async def _tell(self, peer: _Peer, node: int) -> None:
        frame = encode_broker_heartbeat(node)
        while peer.is_due:
            peer.is_due = False
            try:
                async with asyncio.timeout(TELL_S):
                    await peer.ask(frame)
                self._metrics.peers_told += 1
            except (OSError, EOFError, TimeoutError, LakelogError):
                self._metrics.peers_missed += 1
                peer.close()

    async def close(self) -> None:
        """Wait until those who are being told have been, and end all connections."""
        telling = [one.telling for one in self._peers.values() if one.telling is not None]
        if telling:
            await asyncio.wait(telling, timeout=TELL_S)
        for peer in self._peers.values():
            peer.close()
