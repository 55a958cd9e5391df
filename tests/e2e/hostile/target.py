"""What an attacker aims at, and how it keeps on asking."""

import contextlib
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle

from tests.hostile.attacks import connect
from tests.parts.process import LOOPBACK

__all__ = ["ELSEWHERE", "Target", "storm"]

ELSEWHERE = "127.0.0.2"

BREATH_S = 0.02
"""After a connection was closed: attacks that are about requests are not about connections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A broker, as a stranger sees it."""

    port: int
    http_port: int
    host: str = LOOPBACK
    source: str = ELSEWHERE

    def connect(self, *, receive_bytes: int = 0) -> socket.socket:
        return connect(self.host, self.port, source=self.source, receive_bytes=receive_bytes)

    @contextlib.contextmanager
    def connected(self, count: int, *, receive_bytes: int = 0) -> Iterator[list[socket.socket]]:
        """As many connections as it lets in; closed afterwards."""
        made: list[socket.socket] = []
        with contextlib.ExitStack() as stack:
            for _ in range(count):
                try:
                    made.append(stack.enter_context(self.connect(receive_bytes=receive_bytes)))
                except OSError:
                    break
            yield made


def storm(
    target: Target,
    until_s: float,
    frames: Sequence[bytes] | Iterator[bytes],
    *,
    connections: int = 4,
    burst: int = 4,
    rate: float = 500.0,
) -> int:
    """Send frames on some connections, ``rate`` in a second at most, and read the answers.

    A connection that the broker closes is made again. Returns how many were answered.
    """
    todo = frames if isinstance(frames, Iterator) else cycle(frames)
    links: list[socket.socket | None] = [None] * connections
    answered, begun_s, sent = 0, time.monotonic(), 0
    while time.monotonic() < until_s:
        for number, link in enumerate(links):
            links[number] = _sent(target, link, b"".join(next(todo) for _ in range(burst)))
        sent += burst * connections
        for number, link in enumerate(links):
            got = 0 if link is None else _answers(link, burst, until_s)
            answered += got
            if link is not None and got < burst:
                link.close()
                links[number] = None
                time.sleep(BREATH_S)  # noqa: TID251 (see there)
        early_s = begun_s + sent / rate - time.monotonic()
        if early_s > 0:
            time.sleep(min(early_s, max(until_s - time.monotonic(), 0)))  # noqa: TID251 (the rate)
    for link in links:
        if link is not None:
            link.close()
    return answered


def _sent(target: Target, link: socket.socket | None, data: bytes) -> socket.socket | None:
    """Send, on a new connection if need be; None: it was closed."""
    try:
        link = link or target.connect()
        link.settimeout(5.0)
        link.sendall(data)
    except OSError:
        if link is not None:
            link.close()
        return None
    return link


def _answers(link: socket.socket, count: int, until_s: float) -> int:
    """Read so many answers; return how many came before the end or a close."""
    link.settimeout(0.5)
    data, got, at = bytearray(), 0, 0
    while got < count and time.monotonic() < until_s:
        while len(data) - at >= 4 and len(data) - at - 4 >= _size(data, at):
            at += 4 + _size(data, at)
            got += 1
        if got >= count:
            break
        if at:
            del data[:at]
            at = 0
        try:
            some = link.recv(1 << 18)
        except TimeoutError:
            continue
        except OSError:
            break
        if not some:
            break
        data += some
    return got


def _size(data: bytearray, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "big")
