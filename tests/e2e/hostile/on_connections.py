"""Attacks by connections: many of them, slow ones, silent ones, and bytes that are no requests."""

import contextlib
import socket
import ssl
import time
from random import Random  # noqa: TID251 (seeded)
from typing import Any

from tests.e2e.hostile.target import Target, storm
from tests.hostile import attacks
from tests.unit.broker.site import request_frame

__all__ = [
    "begun_frames",
    "connects",
    "garbage",
    "half_requests",
    "http_flood",
    "long_client_ids",
    "never_read",
    "silent_connections",
    "silent_http",
    "trickled_heads",
    "wrong_versions",
]


def _rest(until_s: float) -> None:
    time.sleep(max(until_s - time.monotonic(), 0))  # noqa: TID251 (to be there is the attack)


def silent_connections(target: Target, until_s: float) -> None:
    with target.connected(1_500):
        _rest(until_s)


def connects(target: Target, until_s: float) -> None:
    """Connect and close, a few hundred times in a second."""
    while time.monotonic() < until_s:
        try:
            target.connect().close()
        except OSError:
            time.sleep(0.01)  # noqa: TID251 (the queue of the kernel is full)
        time.sleep(0.001)  # noqa: TID251 (all of the processor is not what this is about)


def half_requests(target: Target, until_s: float) -> None:
    """Announce requests of 30 MB, send nearly all of each, and then a byte now and then."""
    size = 30_000_000
    begun = attacks.begin_requests(
        target.host, target.port, 4, size, size * 99 // 100, source=target.source
    )
    while time.monotonic() < until_s:
        attacks.trickle(begun)
        time.sleep(0.2)  # noqa: TID251 (now and then)
    attacks.hang_up(begun)


def begun_frames(target: Target, until_s: float) -> None:
    """Send 60 kB of a request on each of many connections."""
    begun = attacks.begin_requests(
        target.host, target.port, 400, 64_000, 60_000, source=target.source
    )
    _rest(until_s)
    attacks.hang_up(begun)


def trickled_heads(target: Target, until_s: float) -> None:
    """Send the first bytes of requests one by one, on many connections."""
    head = request_frame(18, 3, client_software_name="x", client_software_version="1")
    with target.connected(300) as links:
        at = 0
        while time.monotonic() < until_s:
            for link in links:
                try:
                    link.send(head[at % len(head) :][:1])
                except OSError:
                    continue
            at += 1
            time.sleep(0.1)  # noqa: TID251 (slowly)


def garbage(target: Target, until_s: float) -> None:
    """Send what is no request: TLS, HTTP, noise, lengths that cannot be."""
    chance = Random(1)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    hello = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        hello.do_handshake()
    kinds = [
        outgoing.read(),
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 10,
        b"\xff\xff\xff\xff" * 8,
        b"\x7f\xff\xff\xff\x00\x00\x00\x0c",
        attacks.frame(17, 1, b"\x00\x05PLAIN", flexible=False),
        attacks.frame(36, 1, chance.randbytes(200), flexible=False),
    ]
    kinds += [attacks.frame(key, 0, chance.randbytes(300)) for key in range(0, 80, 3)]
    storm(target, until_s, kinds, connections=8, burst=1, rate=300)


def wrong_versions(target: Target, until_s: float) -> None:
    """Ask for versions that are not: ApiVersions is answered, everything else is closed."""
    frames = [attacks.frame(18, version, b"") for version in (5, 99, 32_767)]
    frames += [attacks.frame(key, 999, b"") for key in (0, 1, 3)]
    storm(target, until_s, frames, burst=3)


def never_read(target: Target, until_s: float) -> None:
    """Pipeline requests with large answers, and read nothing."""
    ask = request_frame(3, 12, topics=None, **_ASKED)
    with target.connected(20, receive_bytes=4_096) as links:
        for link in links:
            attacks.send_all(link, ask * 2_000, within_s=0.1)
        while time.monotonic() < until_s:
            for link in links:
                attacks.send_all(link, ask * 10, within_s=0.01)
            time.sleep(0.05)  # noqa: TID251 (its sockets are not read meanwhile)


_ASKED: dict[str, Any] = {
    "allow_auto_topic_creation": False,
    "include_topic_authorized_operations": False,
}


def long_client_ids(target: Target, until_s: float) -> None:
    """Give oneself names of 32 kB, another one each time."""
    frames = (
        request_frame(
            18,
            3,
            client_id=f"{number:08}" + "x" * 32_000,
            client_software_name=f"n{number}",
            client_software_version="y" * 200,
        )
        for number in range(1 << 30)
    )
    storm(target, until_s, frames, rate=300)


def silent_http(target: Target, until_s: float) -> None:
    """Take all connections for health and metrics, and say nothing, or half of it."""
    links: list[socket.socket] = []
    for number in range(100):
        try:
            link = attacks.connect(target.host, target.http_port, source=target.source)
            if number % 2:
                link.send(b"GET /metrics HT")
            links.append(link)
        except OSError:
            break
    _rest(until_s)
    attacks.hang_up(links)


def http_flood(target: Target, until_s: float) -> None:
    """Ask for metrics again and again, on a new connection each time."""
    while time.monotonic() < until_s:
        try:
            with attacks.connect(target.host, target.http_port, source=target.source) as link:
                link.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                link.settimeout(1.0)
                while link.recv(1 << 18):
                    pass
        except OSError:
            time.sleep(0.01)  # noqa: TID251 (it was refused)
