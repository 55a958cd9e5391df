"""A load of raw requests, from a process of its own: frames made beforehand, sent by plain sockets.

    python -m benchmarks.load PORT TOPIC PARTITIONS BATCH_BYTES CONNECTIONS IN_FLIGHT SECONDS

Each connection sends so many requests at once, waits for all their answers, and sends again. The
last line tells requests and bytes in a second. The client does as little as it can: answers are
counted by their frames and looked at only for errors.
"""

import json
import os
import selectors
import socket
import struct
import sys
import time

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

    def __init__(self, port: int, load: bytes, count: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self._load, self._count = memoryview(load), count
        self._unsent = self._load
        self._owed = 0
        self._buffer = b""
        self.answered = 0
        self.errors = 0

    @property
    def is_sending(self) -> bool:
        return bool(self._unsent)

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
            if not self._owed and not self._unsent:
                self._unsent = self._load
                continue
            if not self._unsent:
                return

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
    port, topic, partitions, size, connections, in_flight, seconds = sys.argv[1:]
    batch = batch_of(int(size))
    selector = selectors.DefaultSelector()
    clients = []
    for number in range(int(connections)):
        frames = [
            request(topic, (number * int(in_flight) + one) % int(partitions), batch)
            for one in range(int(in_flight))
        ]
        client = Client(int(port), b"".join(frames), len(frames))
        selector.register(client.socket, selectors.EVENT_READ, client)
        clients.append(client)
    for client in clients:
        client.step()
    began = time.perf_counter()
    base = sum(client.answered for client in clients)
    warm = began + 0.3
    counted_from = None
    while (now := time.perf_counter()) < began + float(seconds):
        if counted_from is None and now > warm:
            counted_from, base = now, sum(client.answered for client in clients)
        for key, _ in selector.select(0.05):
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
                "errors": sum(client.errors for client in clients),
                "cpu_s": time.process_time(),
            }
        )
    )


if __name__ == "__main__":
    main()
