"""A steady load of mixed requests, from a process of its own: so many in a second, come what may.

    python -m tests.e2e.soak.load PORT RATE SECONDS

    tick, every 5 ms:  what is due by now -> connections, in turn: each has a line of what is due
    connection:        from its line -> frames, made beforehand; so many without an answer, no more
    answers:           counted, and compared with the number of the request that is owed

What is due does not depend on answers, and is counted from when it is due: whoever waits for them
asks less of a broker that is slow, and measures nothing. But no client sends a second fetch before
it has the answer to the first: what it asks for is decided when it is sent. Otherwise a machine
that stands still for a while leaves fetches of records that have long been old; these take longer,
and the line never becomes shorter.

Frames are made by kio once; the number of a request, and an offset, are written into them where
they stand. The last line that is printed is a JSON object, see ``Report``.

Every request is to be answered, and in the order of its connection. A connection that ends makes
everything that it was owed, or would have asked for, unanswered.
"""

import asyncio
import json
import struct
import sys
from array import array
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from itertools import cycle
from random import Random  # noqa: TID251 (seeded)
from typing import Any

import uvloop

from tests.hostile.attacks import fetch_frame, produce_frame
from tests.parts.process import LOOPBACK
from tests.unit.broker.site import Client, batch, request_frame

TOPIC, PARTITIONS, GROUPS = "soak", 8, 4
TICK_S = 0.005
PATIENCE_S = 60.0
"""For the last answers."""
FRESH_S = 10.0
"""How old the time of a record may become: frames to produce are made anew then."""
SESSION_MS = 600_000
BACK = 20_000
"""So many offsets before the end somebody looks who reads old records."""

MIX = {
    "produce": 35,
    "fetch": 38,
    "fetch and wait": 10,
    "fetch old": 1,
    "metadata": 3,
    "list offsets": 3,
    "commit offsets": 2,
    "fetch offsets": 3,
    "heartbeat": 5,
}
"""Of a hundred requests: what clients send while they work, and a little of what they begin with.
"""

CONNECTIONS = {
    "produce": 200,
    "fetch": 64,
    "fetch and wait": 20,
    "fetch old": 4,
    "list offsets": 40,
    "fetch offsets": 8,
    "commit offsets": 80,
}
"""Of each kind; all others share some. What waits keeps back what comes behind it: records wait for
the next flush, a fetch for records, the end of a partition for a look at the store, and a commit
for company on its way there."""
SHARED = 24

IN_FLIGHT = {"produce": 5}
"""What a client sends before it has an answer, as librdkafka has it; of all other kinds one."""

_NUMBER = struct.Struct(">i")
_NUMBER_AT = 8
_OFFSET = struct.Struct(">q")
_MARK = 0x1122_3344_5566_7788
"""An offset that is looked for in a frame, to know where to write another one."""
_BASE_AT = 5 + 1 + 1 + len(TOPIC) + 1
"""Where the only partition stands in an answer to Produce: index, error, base offset."""
_PRODUCED = struct.Struct(">ihq")


@dataclass
class Report:
    """What came of it."""

    sent: int = 0
    answered: int = 0
    unanswered: int = 0
    closed: int = 0
    """Connections that the broker has ended."""
    wrong: int = 0
    """Answers to another request than the one that was owed."""
    seconds: float = 0.0
    produce_errors: dict[int, int] = field(default_factory=dict)
    """By Kafka's number."""
    p99_ms: dict[str, int] = field(default_factory=dict)
    """From due to answered, by kind."""
    most_ms: dict[str, int] = field(default_factory=dict)


class Frame:
    """A request in which the number, and an offset if it has one, are written anew each time."""

    __slots__ = ("_data", "_offset_at")

    def __init__(self, data: bytes) -> None:
        self._data = bytearray(data)
        self._offset_at = data.find(_OFFSET.pack(_MARK))

    def with_(self, number: int, offset: int) -> bytes:
        _NUMBER.pack_into(self._data, _NUMBER_AT, number)
        if self._offset_at > 0:
            _OFFSET.pack_into(self._data, self._offset_at, offset)
        return bytes(self._data)


class Link(asyncio.Protocol):
    """One connection: what is due on it, what it is owed, and what has come."""

    def __init__(self, load: "Load") -> None:
        self._load = load
        self._transport: Any = None
        self._rest = b""
        self._next = 0
        self._due: deque[tuple[str, int, float]] = deque()
        """Kind, which frame, and since when."""
        self._asked: deque[tuple[int, str, int, float]] = deque()
        """The same behind its number: the answer is owed."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 (asyncio's)
        self._load.lost(self)

    @property
    def owed(self) -> int:
        """How many answers are to come, also to what is due and not sent yet."""
        return len(self._due) + len(self._asked)

    def ask(self, kind: str, which: int, now: float) -> None:
        """Send it as soon as a client would."""
        self._due.append((kind, which, now))
        self._go_on()

    def _go_on(self) -> None:
        while self._due and len(self._asked) < IN_FLIGHT.get(self._due[0][0], 1):
            kind, which, since = self._due.popleft()
            self._next += 1
            self._asked.append((self._next, kind, which, since))
            self._transport.write(self._load.frame(kind, which, self._next))

    def forget(self) -> int:
        """Wait for nothing more; return for how much it was waited."""
        left = self.owed
        self._due.clear()
        self._asked.clear()
        return left

    def data_received(self, data: bytes) -> None:
        data = self._rest + data if self._rest else data
        at, end = 0, len(data)
        while end - at >= 8:
            size, number = struct.unpack_from(">ii", data, at)
            if end - at - 4 < size:
                break
            owed = self._asked.popleft() if self._asked else None
            self._load.took(owed, number, data, at + 4)
            at += 4 + size
        self._rest = data[at:]
        self._go_on()

    def close(self) -> None:
        self._transport.abort()


class Load:
    """All connections, and what is sent on which."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._chance = Random(1)
        self._ends = array("q", [0]) * PARTITIONS
        self._frames: dict[str, list[Frame]] = {}
        self._links: dict[str, list[Link]] = {}
        self._late: dict[str, Counter[int]] = {kind: Counter() for kind in MIX}
        self._produce_errors: Counter[int] = Counter()
        self._is_over = False
        self.report = Report()

    # ------------------------------------------------------------------------ before

    async def open(self) -> None:
        """Join the groups, make the frames, connect."""
        self._frames = {
            "fetch": _per_partition(lambda one: fetching(one, wait_ms=0)),
            "fetch and wait": _per_partition(lambda one: fetching(one, wait_ms=500)),
            "fetch old": _per_partition(lambda one: fetching(one, wait_ms=0)),
            "metadata": [Frame(request_frame(3, 12, topics=[_named(TOPIC)], **_ASKED))],
            "list offsets": _per_partition(_listing),
        }
        self._renew()
        members = [await self._join(f"group-{one}") for one in range(GROUPS)]
        for kind, made in (
            ("commit offsets", _committing),
            ("fetch offsets", _fetching_offsets),
            ("heartbeat", _beating),
        ):
            self._frames[kind] = [Frame(made(*one)) for one in members]
        shared = [await self._link() for _ in range(SHARED)]
        for kind in MIX:
            own = [await self._link() for _ in range(CONNECTIONS.get(kind, 0))]
            self._links[kind] = own or shared

    async def _link(self) -> Link:
        _, link = await asyncio.get_running_loop().create_connection(
            lambda: Link(self), LOOPBACK, self._port
        )
        return link

    async def _join(self, group: str) -> tuple[str, str, int]:
        client = Client(*await asyncio.open_connection(LOOPBACK, self._port))
        fields = {
            "group_id": group,
            "session_timeout": SESSION_MS,
            "rebalance_timeout": SESSION_MS,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}],
        }
        first = await client.ask(11, 9, member_id="", **fields)
        joined = await client.ask(11, 9, member_id=first.member_id, **fields)
        who: dict[str, Any] = {"group_id": group, "generation_id": joined.generation_id}
        who |= {"member_id": joined.member_id}
        shares = [{"member_id": joined.member_id, "assignment": b"all"}]
        await client.ask(14, 5, **who, assignments=shares)
        await client.close()
        return group, joined.member_id, joined.generation_id

    def _renew(self) -> None:
        """Make the frames to produce, with the time of now."""
        some = batch(b"a" * 100, b"b" * 100, b"c" * 100)
        self._frames["produce"] = _per_partition(
            lambda one: produce_frame(TOPIC, some, partition=one)
        )

    # ------------------------------------------------------------------------ while

    async def run(self, rate: float, seconds: float) -> None:
        """Send; then wait for what is still owed."""
        loop = asyncio.get_running_loop()
        kinds = [kind for kind, share in MIX.items() for _ in range(share)]
        self._chance.shuffle(kinds)
        order = cycle(kinds)
        turns: Counter[str] = Counter()
        begun = fresh = loop.time()
        while (now := loop.time()) < begun + seconds:
            if now > fresh + FRESH_S:
                fresh = now
                self._renew()
            for _ in range(int((now - begun) * rate) - self.report.sent):
                kind = next(order)
                turn = turns[kind] = turns[kind] + 1
                self._send(kind, turn, now)
            await asyncio.sleep(TICK_S)
        self.report.seconds = loop.time() - begun
        while self._owed() and loop.time() < begun + seconds + PATIENCE_S:
            await asyncio.sleep(TICK_S)
        self._end()

    def _send(self, kind: str, turn: int, now: float) -> None:
        links, frames = self._links[kind], len(self._frames[kind])
        self.report.sent += 1
        # A round later each link has the next frame: each has to do with each partition or group.
        links[turn % len(links)].ask(kind, (turn + turn // len(links)) % frames, now)

    def frame(self, kind: str, which: int, number: int) -> bytes:
        """Return what is sent now: records that are fetched are those that are new now."""
        offset = self._ends[which]
        if kind == "fetch old":
            offset = max(offset - self._chance.randrange(BACK), 0)
        return self._frames[kind][which].with_(number, offset)

    def took(
        self, owed: tuple[int, str, int, float] | None, number: int, data: bytes, at: int
    ) -> None:
        """Take note of an answer."""
        if owed is None or owed[0] != number:
            self.report.wrong += 1
            return
        _, kind, which, due = owed
        self.report.answered += 1
        self._late[kind][int((asyncio.get_running_loop().time() - due) * 1000)] += 1
        if kind == "produce":
            _, error, base = _PRODUCED.unpack_from(data, at + _BASE_AT)
            if error:
                self._produce_errors[error] += 1
            else:
                self._ends[which] = max(self._ends[which], base)

    def lost(self, link: Link) -> None:
        """Take note of a connection that has ended."""
        if not self._is_over:
            self.report.closed += 1
            self.report.unanswered += link.forget()

    # ------------------------------------------------------------------------ after

    def _owed(self) -> int:
        return sum(link.owed for link in self._all())

    def _all(self) -> set[Link]:
        return {link for links in self._links.values() for link in links}

    def _end(self) -> None:
        self._is_over = True
        self.report.unanswered += self._owed()
        self.report.produce_errors = dict(self._produce_errors)
        for kind, late in self._late.items():
            self.report.p99_ms[kind] = _quantile(late, 0.99)
            self.report.most_ms[kind] = max(late, default=0)
        for link in self._all():
            link.close()


# ---------------------------------------------------------------------------- frames

_ASKED: dict[str, Any] = {
    "allow_auto_topic_creation": False,
    "include_topic_authorized_operations": False,
}


def _named(topic: str) -> dict[str, Any]:
    return {"name": topic, "topic_id": None}


def _per_partition(made: Callable[[int], bytes]) -> list[Frame]:
    return [Frame(made(one)) for one in range(PARTITIONS)]


def fetching(partition: int, *, wait_ms: int) -> bytes:
    """Return a fetch of the offset that is written into it."""
    return fetch_frame(TOPIC, partition=partition, wait_ms=wait_ms, max_bytes=4096, offset=_MARK)


def _listing(partition: int) -> bytes:
    part = {"partition_index": partition, "timestamp": -1, "current_leader_epoch": -1}
    rows = [{"name": TOPIC, "partitions": [part]}]
    return request_frame(2, 7, replica_id=-1, isolation_level=0, topics=rows)


def _committing(group: str, member: str, generation: int) -> bytes:
    part = {"partition_index": 0, "committed_offset": _MARK, "committed_metadata": ""}
    return request_frame(
        8,
        8,
        group_id=group,
        member_id=member,
        generation_id_or_member_epoch=generation,
        topics=[{"name": TOPIC, "partitions": [part]}],
    )


def _fetching_offsets(group: str, _: str, __: int) -> bytes:
    rows = [{"name": TOPIC, "partition_indexes": list(range(PARTITIONS))}]
    return request_frame(9, 8, groups=[{"group_id": group, "topics": rows}], require_stable=False)


def _beating(group: str, member: str, generation: int) -> bytes:
    return request_frame(12, 4, group_id=group, member_id=member, generation_id=generation)


def _quantile(counts: Counter[int], part: float) -> int:
    left = part * counts.total()
    for value in sorted(counts):
        left -= counts[value]
        if left <= 0:
            return value
    return 0


async def main() -> None:
    port, rate, seconds = sys.argv[1:]
    load = Load(int(port))
    await load.open()
    await load.run(float(rate), float(seconds))
    print(json.dumps(asdict(load.report)))  # noqa: T201 (its answer)


if __name__ == "__main__":
    uvloop.run(main())
