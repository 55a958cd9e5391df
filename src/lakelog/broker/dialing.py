"""Calling another broker: over TLS if its listener has that, with this broker's certificate."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable

from lakelog.broker.tls import ListenerTls

__all__ = ["Dial", "Streams", "dialer"]

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Dial = Callable[[str, int], Awaitable[Streams]]
"""Connects to a host and a port; OSError: nobody answers, or not as it should."""

ANSWER_BYTES_MAX = 1 << 10


def dialer(tls: ListenerTls | None = None) -> Dial:
    """Return what calls brokers on a listener."""

    async def dial(host: str, port: int) -> Streams:
        context: ssl.SSLContext | None = None if tls is None else tls.peer_context
        return await asyncio.open_connection(host, port, limit=ANSWER_BYTES_MAX, ssl=context)

    return dial
