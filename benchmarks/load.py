"""A load of raw requests, from a process of its own: frames made beforehand, sent by plain sockets.

    python -m benchmarks.load PORTS TOPIC PARTITIONS BATCH_BYTES CONNECTIONS IN_FLIGHT SECONDS
                              [EVERY_S]

Each connection sends so many requests at once, waits for all their answers, and sends again: at
once, or EVERY_S seconds after the last ones. PORTS is one port, or one for each partition. The last
line tells requests and bytes in a second. The client does as little as it can: answers are counted
by their frames and looked at only for errors.
"""

import json
import os
import selectors
import socket
import struct
import sys
import time
from itertools import cycle

from lakelog.model import Record
from lakelog.records import NewBatch, encode_batch

_SIZE = struct.Struct(">i")
VERSION = 9
ERROR_AT = 4 + 1 + 1  # Behind the correlation id, its tags, and the number of topics.


def request(topic: str, partition: int, batch: bytes) -> bytes:
    """Return one frame of Produce, version 9, acks=all."""
    name = topic.encode()
    body = struct.pack(">hhih", 0, VERSION, 7, 4) + b"load" + b"\0"
    body += b"\0" + struct.pack(">hi", -1, 30_000)
    body += bytes((2, len(name) + 1)) + name + b"\x02" + struct.pack(">i", partition)
    body += _varint(len(batch) + 1) + batch + b"\0\0\0"
    return _SIZE.pack(len(body)) + body


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def batch_of(size: int) -> bytes:
    """Return a batch of about so many bytes, of one record that does not compress."""
    value = os.urandom(max(size - 75, 1))
    return encode_batch(
        NewBatch(records=[Record(offset=0, timestamp=now_ms(), key=None, value=value)])
    )


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Client:
    """One connection."""

    def __init__(
        self, port: int, load: bytes, count: int, every_s: float = 0.0, wait_s: float = 0.0
    ) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self._load, self._count = memoryview(load), count
        self._unsent = self._load[:0]
        self._owed = 0
        self._every_s, self._due_s = every_s, time.perf_counter() + wait_s
        self._buffer = b""
        self.answered = 0
        self.errors = 0

    @property
    def is_sending(self) -> bool:
        return bool(self._unsent) or self._again()

    def step(self) -> None:
        """Send and receive what is possible now."""
        while True:
            if self._unsent:
                try:
                    sent = self.socket.send(self._unsent)
                except BlockingIOError:
                    pass
                else:
                    self._unsent = self._unsent[sent:]
                    if not self._unsent:
                        self._owed = self._count
            try:
                data = self.socket.recv(1 << 16)
            except BlockingIOError:
                return
            if not data:
                raise ConnectionError("the server closed a connection")
            self._take(data)
            if self._again():
                continue
            if not self._unsent:
                return

    def _again(self) -> bool:
        """Begin to send again, if everything was answered and it is time."""
        if self._owed or self._unsent or self._due_s > (now := time.perf_counter()):
            return False
        self._unsent = self._load
        # One that was late does not send more often for it.
        self._due_s = max(self._due_s, now - self._every_s) + self._every_s
        return True

    def _take(self, data: bytes) -> None:
        data = self._buffer + data
        at = 0
        while len(data) - at >= 4:
            (size,) = _SIZE.unpack_from(data, at)
            if len(data) - at - 4 < size:
                break
            self.answered += 1
            self._owed -= 1
            if size > 40:
                name = data[at + 4 + ERROR_AT] - 1
                error = at + 4 + ERROR_AT + 1 + name + 1 + 4
                self.errors += data[error : error + 2] != b"\0\0"
            at += 4 + size
        self._buffer = data[at:]


def main() -> None:
    ports, topic, partitions, size, connections, in_flight, seconds, *every_s = sys.argv[1:]
    batch = batch_of(int(size))
    selector = selectors.DefaultSelector()
    clients = []
    led: dict[int, list[int]] = {}
    every_port = cycle(map(int, ports.split(",")))
    for partition, port in zip(range(int(partitions)), every_port, strict=False):
        led.setdefault(port, []).append(partition)
    homes = {partition: port for port, some in led.items() for partition in some}
    for number in range(int(connections)):
        first = number % int(partitions)
        port = homes[first]
        some = led[port]
        turns = (some.index(first) + one for one in range(int(in_flight)))
        frames = [request(topic, some[turn % len(some)], batch) for turn in turns]
        pace_s = float(every_s[0]) if every_s else 0.0
        wait_s = pace_s * number / int(connections)  # They do not all send at once.
        client = Client(port, b"".join(frames), len(frames), pace_s, wait_s)
        selector.register(client.socket, selectors.EVENT_READ, client)
        clients.append(client)
    for client in clients:
        if client.is_sending:
            client.step()
    began = time.perf_counter()
    base = sum(client.answered for client in clients)
    warm = began + 0.3
    counted_from = None
    while (now := time.perf_counter()) < began + float(seconds):
        if counted_from is None and now > warm:
            counted_from, base = now, sum(client.answered for client in clients)
        for key, _ in selector.select(0.05 if not every_s else 0.005):
            key.data.step()
        for client in clients:
            if client.is_sending:
                client.step()
    took = time.perf_counter() - (counted_from or began)
    answered = sum(client.answered for client in clients) - base
    print(
        json.dumps(
            {
                "requests_s": answered / took,
                "mb_s": answered * len(batch) / took / 1e6,
                "bytes": answered * len(batch),
                "errors": sum(client.errors for client in clients),
                "cpu_s": time.process_time(),
            }
        )
    )


if __name__ == "__main__":
    main()
