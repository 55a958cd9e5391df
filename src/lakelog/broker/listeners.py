"""Listeners: sockets that are bound before anything is taken from another broker."""

import asyncio
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from lakelog.broker.accepting import Gate, Handshakes, TlsServer
from lakelog.broker.settings import Listener
from lakelog.broker.tls import ListenerTls
from lakelog.errors import UnavailableError

__all__ = ["Server", "bind_listeners"]

BACKLOG = 128
"""Connections that the kernel keeps until they are looked at. All of them are opened at once, also
those that are refused then, and each is a file."""

Server = asyncio.Server | TlsServer


async def bind_listeners(
    listeners: Sequence[Listener],
    connect: Callable[[str], asyncio.BaseProtocol],
    ports: dict[str, int],
    advertised: dict[str, tuple[str, int]],
    *,
    secured: Mapping[str, ListenerTls],
    gate: Gate,
    handshakes: Handshakes,
) -> list[Server]:
    """Bind every listener, and note its port and what clients are told; nobody is served yet.

    The sockets listen from here on. A port that another process has is found out now, and clients
    that come early wait a moment longer. Those that are ``secured`` have TLS.
    """
    servers: list[Server] = []
    loop = asyncio.get_running_loop()
    listener, *_ = listeners
    try:
        for listener in listeners:
            name = listener.name
            found = await loop.getaddrinfo(
                listener.host or None,
                listener.port,
                type=socket.SOCK_STREAM,
                flags=socket.AI_PASSIVE,
            )
            for family, _, _, _, address in dict.fromkeys(found):
                bound = socket.create_server(address[:2], family=family, backlog=BACKLOG)
                ports.setdefault(name, bound.getsockname()[1])
                begin, tls = partial(connect, name), secured.get(name)
                if tls is not None:
                    servers.append(TlsServer(bound, tls, begin, gate, handshakes))
                    continue
                servers.append(
                    await loop.create_server(
                        begin, sock=bound, backlog=BACKLOG, start_serving=False
                    )
                )
            host, port = listener.advertised_host or listener.host, ports[name]
            advertised[name] = host, listener.advertised_port or port
    except OSError as error:
        for server in servers:
            server.close()
        # A name that cannot be resolved has a number of its own kind, below 0.
        code = error.errno or 0
        why = os.strerror(code) if code > 0 else error.strerror
        raise UnavailableError(
            f"cannot listen on {listener.host}:{listener.port}: {why}: end what listens there, or "
            "choose another address with --listen"
        ) from error
    return servers
