"""What a hostile client does, over plain sockets: functions that take a host and a port.

They know nothing of lakelog and wait for nothing but the kernel, so that the same attack can be run
on a broker in this process, in a thread, and on one of its own. What they open they return, and
whoever calls them closes it.

``source`` is the address that a client comes from. Every one of 127.0.0.0/8 is this machine, so an
attack can come from another address than the honest clients.
"""

import socket
import struct
import time
from collections.abc import Sequence
from contextlib import suppress

__all__ = [
    "TIMEOUT_S",
    "begin_requests",
    "connect",
    "fetch_frame",
    "frame",
    "hang_up",
    "is_ended",
    "produce_frame",
    "send_all",
    "silence",
    "take",
    "trickle",
    "unread_fetches",
    "uvarint",
    "waiting_fetches",
]

TIMEOUT_S = 10.0

PRODUCE, FETCH = 0, 1


def connect(host: str, port: int, *, source: str = "", receive_bytes: int = 0) -> socket.socket:
    """Return a connection; with a small receive buffer it takes little of what it does not read."""
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.settimeout(TIMEOUT_S)
    if receive_bytes:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    if source:
        made.bind((source, 0))
    made.connect((host, port))
    return made


def hang_up(connections: Sequence[socket.socket]) -> None:
    """Close them all."""
    for one in connections:
        one.close()


def is_ended(connection: socket.socket, within_s: float = TIMEOUT_S) -> bool:
    """Say whether the other side ends a connection within a time; what it says is thrown away."""
    until_s = time.monotonic() + within_s
    while (left_s := until_s - time.monotonic()) > 0:
        connection.settimeout(left_s)
        try:
            if not connection.recv(1 << 16):
                return True
        except TimeoutError:
            return False
        except OSError:
            return True
    return False


def send_all(connection: socket.socket, data: bytes, within_s: float = TIMEOUT_S) -> int:
    """Send as much as the other side takes within a time; return how much it was."""
    sent, until_s = 0, time.monotonic() + within_s
    view = memoryview(data)
    while sent < len(data) and (left_s := until_s - time.monotonic()) > 0:
        connection.settimeout(left_s)
        try:
            sent += connection.send(view[sent : sent + (1 << 18)])
        except OSError:
            break
    return sent


def take(connection: socket.socket, size: int, within_s: float = TIMEOUT_S) -> int:
    """Read so many bytes; return how many there were within a time."""
    taken, until_s = 0, time.monotonic() + within_s
    while taken < size and (left_s := until_s - time.monotonic()) > 0:
        connection.settimeout(left_s)
        try:
            some = connection.recv(size - taken)
        except OSError:
            break
        taken += len(some)
        if not some:
            break
    return taken


# ---------------------------------------------------------------------------- frames


def frame(key: int, version: int, body: bytes, *, number: int = 1, flexible: bool = True) -> bytes:
    """Return a request as it stands in a stream."""
    head = struct.pack(">hhih", key, version, number, -1) + b"\0" * flexible
    return struct.pack(">i", len(head) + len(body)) + head + body


def produce_frame(topic: str, records: bytes, *, acks: int = -1, partition: int = 0) -> bytes:
    """Return a request to produce, of version 9."""
    name = topic.encode()
    body = b"\0" + struct.pack(">hi", acks, 30_000) + b"\x02" + uvarint(len(name) + 1) + name
    body += b"\x02" + struct.pack(">i", partition) + uvarint(len(records) + 1) + records
    return frame(PRODUCE, 9, body + b"\0\0\0")


def fetch_frame(
    topic: str,
    *,
    partition: int = 0,
    wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 30,
    offset: int = 0,
    session_epoch: int = -1,
    rack: bytes = b"",
    tag: bytes = b"",
) -> bytes:
    """Return a request to fetch, of version 12: padded with a rack, or with a tag nobody knows."""
    name = topic.encode()
    body = struct.pack(">iiiibii", -1, wait_ms, min_bytes, max_bytes, 0, 0, session_epoch)
    body += b"\x02" + uvarint(len(name) + 1) + name
    body += b"\x02" + struct.pack(">iiqiqi", partition, -1, offset, -1, -1, max_bytes) + b"\0\0"
    body += b"\x01" + uvarint(len(rack) + 1) + rack
    body += b"\x01" + uvarint(9_999) + uvarint(len(tag)) + tag if tag else b"\0"
    return frame(FETCH, 12, body)


def uvarint(value: int) -> bytes:
    """Return an unsigned number as Kafka writes it: seven bits in a byte."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


# ---------------------------------------------------------------------------- attacks


def silence(host: str, port: int, count: int, *, source: str = "") -> list[socket.socket]:
    """Connect and say nothing: as many connections as the other side lets in."""
    made: list[socket.socket] = []
    for _ in range(count):
        try:
            made.append(connect(host, port, source=source))
        except OSError:
            break
    return made


def begin_requests(
    host: str, port: int, count: int, size: int, come: int, *, source: str = "", key: int = PRODUCE
) -> list[socket.socket]:
    """Announce requests of ``size`` bytes on as many connections, and send ``come`` of each."""
    start = struct.pack(">ihhih", size, key, 9, 1, -1)
    made = [connect(host, port, source=source) for _ in range(count)]
    for one in made:
        send_all(one, start + bytes(max(come - len(start), 0)))
    return made


def trickle(connections: Sequence[socket.socket]) -> None:
    """Send a byte on each, so that none of them is silent."""
    for one in connections:
        with suppress(OSError):
            one.send(b"\0")


def waiting_fetches(
    host: str,
    port: int,
    topic: str,
    *,
    connections: int,
    requests: int,
    rack: bytes = b"",
    tag: bytes = b"",
    source: str = "",
) -> list[socket.socket]:
    """Let fetches of the end of a topic wait for five minutes, padded with what nobody needs."""
    ask = fetch_frame(topic, wait_ms=300_000, offset=0, rack=rack, tag=tag)
    made = [connect(host, port, source=source) for _ in range(connections)]
    for one in made:
        for _ in range(requests):
            send_all(one, ask, within_s=1.0)
    return made


def unread_fetches(
    host: str,
    port: int,
    topic: str,
    *,
    connections: int,
    requests: int,
    max_bytes: int,
    source: str = "",
) -> list[socket.socket]:
    """Fetch a topic from its beginning again and again, and read none of the answers."""
    made: list[socket.socket] = []
    for _ in range(connections):
        one = connect(host, port, source=source, receive_bytes=4_096)
        made.append(one)
        send_all(one, fetch_frame(topic, max_bytes=max_bytes) * requests, within_s=1.0)
    return made
