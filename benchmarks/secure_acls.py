"""What it costs a broker to know who may do what.

A broker with an authorizer and a thousand ACLs over one without, on a plain listener and a store in
memory: requests of 1 KB and bytes of 100 KB batches produced, and fetches of 16 partitions in
sessions, each by the CPU time that the broker takes for it. Bar 0.95.

Both sides are loaded at the same time, round by round, so that whatever else the machine does
befalls both; what is compared is the CPU time of each. For small requests that depends on how many
of them a server finds at once, and so is the least steady. The value is the least of all ratios.
"""

import socket
import statistics
import struct
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benchmarks.broker import PARTITIONS, TOPIC, Server, create_topic, load, served
from benchmarks.load import batch_of, request
from benchmarks.measure import arguments, closing_line
from tests.unit.broker.site import request_frame

BAR = 0.95
READ_TOPIC = f"{TOPIC}-read"
FETCHERS = 8
_SIZE = struct.Struct(">i")


class Fetcher:
    """A connection with a fetch session: each fetch asks for all that it wants."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.sendall(_fetch(0, 0))
        answer = self.answer()
        # Behind the correlation id, tags, the throttle time and the error stands the session.
        (self._session,) = _SIZE.unpack_from(answer, 4 + 1 + 4 + 2)
        self._epoch = 0

    def ask(self) -> None:
        self._epoch += 1
        self._socket.sendall(_fetch(self._session, self._epoch))

    def answer(self) -> bytes:
        (size,) = _SIZE.unpack(self._read(4))
        return self._read(size)

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            data += self._socket.recv(size - len(data))
        return bytes(data)

    def close(self) -> None:
        self._socket.close()


def _fetch(session: int, epoch: int) -> bytes:
    wanted = [
        {"partition": one, "fetch_offset": 0, "partition_max_bytes": 1_000}
        for one in range(PARTITIONS)
    ]
    return request_frame(
        1, 12, replica_id=-1, max_wait=0, min_bytes=0, max_bytes=1 << 20, isolation_level=0,
        session_id=session, session_epoch=epoch, forgotten_topics_data=[], rack_id="",
        topics=[] if epoch else [{"topic": READ_TOPIC, "partitions": wanted}],
    )  # fmt: skip


def fetch_cpu_us(server: Server, count: int) -> float:
    """Return the CPU time that a server takes for a fetch."""
    fetchers = [Fetcher(server.port) for _ in range(FETCHERS)]
    before = server.cpu_s()
    for _ in range(count // FETCHERS):
        for one in fetchers:
            one.ask()
        for one in fetchers:
            one.answer()
    spent = server.cpu_s() - before
    for one in fetchers:
        one.close()
    return 1e6 * spent / (count // FETCHERS * FETCHERS)


def fill(server: Server) -> None:
    """Let each partition have a batch to be read."""
    batch = batch_of(500)
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        for partition in range(PARTITIONS):
            connection.sendall(request(READ_TOPIC, partition, batch))
            (size,) = _SIZE.unpack(connection.recv(4, socket.MSG_WAITALL))
            connection.recv(size, socket.MSG_WAITALL)


def side_by_side(
    rounds: int, plain: Server, other: Server, measure: Callable[[Server], float]
) -> dict[str, float]:
    """Return how much of a plain server's speed another one has, by the median of pairs."""
    pairs = []
    with ThreadPoolExecutor(2) as threads:
        for turn in range(rounds):
            sides = [plain, other] if turn % 2 else [other, plain]
            found = dict(zip(map(id, sides), threads.map(measure, sides), strict=True))
            pairs.append((found[id(plain)], found[id(other)]))
    return {
        "ratio": round(statistics.median(off / on for off, on in pairs), 3),
        "plain_cpu_us": round(statistics.median(off for off, _ in pairs), 1),
        "cpu_us": round(statistics.median(on for _, on in pairs), 1),
    }


def figures(*, quick: bool) -> dict[str, Any]:
    """Return what is left of each speed, and what it is made of."""
    rounds, seconds, fetches = (3, 1.5, 3_000) if quick else (15, 4.0, 20_000)
    # What is sent stays in memory: longer, and two fast servers take all that a machine has.
    bytes_seconds = 1.0
    with served("broker", "memory:") as plain, served("judging", "memory:") as judging:
        for side in (plain, judging):
            create_topic(side.bootstrap, TOPIC, PARTITIONS)
            create_topic(side.bootstrap, READ_TOPIC, PARTITIONS)
            fill(side)
            load(side, 1_000, 0.5)
        return {
            "fetches": side_by_side(
                rounds, plain, judging, lambda side: fetch_cpu_us(side, fetches)
            ),
            "requests": side_by_side(
                rounds, plain, judging, lambda side: load(side, 1_000, seconds)["cpu_us"]
            ),
            "bytes": side_by_side(
                rounds, plain, judging, lambda side: load(side, 100_000, bytes_seconds)["cpu_us"]
            ),
        }


def main() -> None:
    found = figures(quick=arguments(__doc__).quick)
    value = min(one["ratio"] for one in found.values())
    closing_line(name="secure_acls", value=value, bar=BAR, **found)


if __name__ == "__main__":
    main()
