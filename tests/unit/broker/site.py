"""Brokers in this process, on a store in memory, and a client that knows nothing of lakelog.

site      a namespace, and a store that can be frozen, counted, and written by somebody else
machine   what one of several brokers runs on: it can be killed, sleep, and be cut off
client    one socket: requests written by kio, answers read by kio, pipelined at will
"""

import asyncio
import struct
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

import structlog
import uvloop
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from lakelog.broker import Broker, BrokerSettings, CoordinatorSettings, Limits, Listener, run_broker
from lakelog.catalog import (
    create_topic,
    delete_topic,
    make_namespace,
    open_namespace,
    read_topic,
)
from lakelog.errors import UnavailableError
from lakelog.groups import GroupRules
from lakelog.host import new_id
from lakelog.journal import FlushSettings, Lane, append, new_run, probe
from lakelog.model import Record, Rules
from lakelog.names import BROKERS_PREFIX, CLUSTER_KEY
from lakelog.ports import Clock, Ids
from lakelog.records import Codec, NewBatch, decode_batches, encode_batch
from lakelog.store import CELL_BYTES_MAX, Get, MemoryStore, Op, Work, run, working
from tests.patience import HANGS_S
from tests.virtual_time import VirtualClock, run_virtually

__all__ = [
    "NOON",
    "Client",
    "Machine",
    "Site",
    "batch",
    "broker",
    "connect",
    "is_membership",
    "records",
    "request_frame",
    "story",
    "virtual_story",
]

NOON = 1_700_000_000_000

_SIZE = struct.Struct(">i")

STORY_S = 5 * HANGS_S
"""A story that has not ended by then hangs."""


def is_membership(op: Op) -> bool:
    """Whether an operation is about who the brokers are."""
    where = getattr(op, "key", "") or getattr(op, "prefix", "")
    return str(where).startswith(BROKERS_PREFIX)


class Site(MemoryStore):
    """A store with a namespace in it."""

    def __init__(
        self, lanes: int = 1, *, clock: Clock | None = None, made: bool = True, **rules: int
    ) -> None:
        super().__init__(now_ms=(clock or VirtualClock()).now_ms)
        self.ops: list[Op] = []
        """What brokers have asked for, but for what they say of themselves."""
        self.member_ops: list[Op] = []
        """Beats, members, lists of them, looks at the namespace: they come by themselves."""
        self.log: list[dict[str, Any]] = []
        self.open = asyncio.Event()
        """Cleared: nothing that matters is answered."""
        self.open.set()
        self.freezes: Callable[[Op], bool] = lambda _: True
        self.fails: Callable[[Op], bool] = lambda _: False
        if made:
            run(make_namespace(new_id(), Rules(lanes=lanes, **rules)), working(self.perform))
        self._lanes: dict[int, Lane] = {}

    async def perform_async(self, op: Op) -> Any:
        """Perform one operation when the store is not frozen."""
        comes_by_itself = is_membership(op) or op == Get(CLUSTER_KEY, CELL_BYTES_MAX)
        (self.member_ops if comes_by_itself else self.ops).append(op)
        while not self.open.is_set() and self.freezes(op):
            await self.open.wait()
        if self.fails(op):
            raise UnavailableError("the store is out: retry")
        return self.perform(op)

    def do(self, flow: Work[Any]) -> Any:
        """Run a flow as another process would: at once, uncounted and unfrozen."""
        return run(flow, working(self.perform))

    def count(self, kind: type[Op], ending: str = "") -> int:
        """Return how many operations of a kind there were on such keys."""
        return sum(
            isinstance(op, kind) and getattr(op, "key", "").endswith(ending) for op in self.ops
        )

    # ------------------------------------------------------------------------ another process

    def lane(self, number: int) -> Lane:
        """Return a lane of another process, which knows it to its end."""
        if number not in self._lanes:
            rules = self.do(open_namespace()).rules
            self._lanes[number] = Lane(
                number=number, rules=rules, clock=VirtualClock(), ids=new_id, writer=new_id()
            )
        return self._lanes[number]

    def append(self, name: str, partition: int, body: bytes) -> Any:
        """Append by another process."""
        topic = self.do(read_topic(name))
        lane = self.lane(topic.lane(partition))
        return self.do(append(lane, [new_run(topic.id, partition, body)]))[0]

    def create(self, name: str, partitions: int = 1, **configs: str) -> bytes:
        """Make a topic by another process."""
        lanes = self.do(open_namespace()).rules.lanes
        plain = {key.replace("_", "."): value for key, value in configs.items()}
        topic = self.do(
            create_topic(
                name,
                topic_id=new_id(),
                partitions=partitions,
                lanes=lanes,
                now_ms=NOON,
                configs=plain,
            )
        )
        return bytes(topic.id)

    def delete(self, name: str) -> None:
        """Delete a topic by another process; its lanes are not told yet."""
        topic = self.do(read_topic(name))
        self.do(delete_topic(name, topic.id, new_id(), now_ms=NOON))

    def stored(self, name: str) -> list[bytes]:
        """Return the values of all records, in the order of partitions and offsets."""
        from lakelog.log import bounds, read

        topic = self.do(read_topic(name))
        values: list[bytes] = []
        for partition in range(topic.partitions):
            lane, where = self.lane(topic.lane(partition)), topic.path_of(partition)
            self.do(probe(lane))
            offset = self.do(bounds(lane, where)).log_start
            while (chunk := self.do(read(lane, where, offset, 1 << 20))).body:
                for found in decode_batches(chunk.body):
                    values += [record.value or b"" for record in found.records]
                offset = chunk.next_offset
        return values


class Machine:
    """What one broker runs on. It is the broker's way to the store."""

    def __init__(self, site: Site) -> None:
        self.site, self.url = site, site.url
        self.fails: Callable[[Op], bool] = lambda _: False
        self._running: Broker | None = None
        self._waits: Callable[[Op], bool] = lambda _: False
        self._awake = asyncio.Event()

    def perform(self, op: Op) -> Any:
        """Perform one operation in a thread."""
        return self.site.perform(op)

    async def perform_async(self, op: Op) -> Any:
        """Perform one operation, when the machine is awake, and answer when it is."""
        await self._wait_for(op)
        if self.fails(op):
            raise UnavailableError("the network is out: retry")
        answer = await self.site.perform_async(op)
        await self._wait_for(op)
        return answer

    async def _wait_for(self, op: Op) -> None:
        while self._waits(op):
            await self._awake.wait()

    def runs(self, running: Broker) -> None:
        """Take note of the broker that runs here."""
        self._running = running

    def sleep(self, waits: Callable[[Op], bool] = lambda _: True) -> None:
        """Send nothing, or nothing of a kind, and take in no answers to it until it is woken up."""
        self._awake = asyncio.Event()
        self._waits = waits

    def wake(self) -> None:
        """Go on with what was to be sent, and with what has been answered."""
        self._waits = lambda _: False
        self._awake.set()

    def kill(self) -> None:
        """End it as power does: nothing that it sends arrives any more, and clients are cut off."""
        self.sleep()
        assert self._running is not None
        for connection in list(self._running._connections):
            connection.drop("the machine was killed")


def batch(
    *values: bytes,
    codec: Codec = Codec.NONE,
    producer: tuple[int, int, int] = (-1, -1, -1),
    times: Sequence[int] = (),
    key: bytes | None = b"k",
    keys: Sequence[bytes | None] = (),
) -> bytes:
    """Return a batch as a producer sends it: offsets from 0."""
    keys = keys or [key] * len(values)
    now_ms = VirtualClock().now_ms()
    found = [
        Record(offset=at, timestamp=times[at] if times else now_ms, key=keys[at], value=value)
        for at, value in enumerate(values)
    ]
    return encode_batch(
        NewBatch(
            records=tuple(found),
            codec=codec,
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=producer[2],
        )
    )


def records(data: bytes | None) -> list[tuple[int, bytes | None]]:
    """Return offsets and values of what was fetched; batches are checked."""
    return [
        (record.offset, record.value)
        for one in decode_batches(data or b"")
        for record in one.records
    ]


# ---------------------------------------------------------------------------- the client


def request_frame(
    key: int, version: int, /, *, number: int = 1, client_id: str = "site", **fields: Any
) -> bytes:
    """Return a request as it stands in a stream, written by kio out of plain fields."""
    kind: Any = load_request_schema(key, version)
    header = kind.__header_schema__(
        request_api_key=key,
        request_api_version=version,
        correlation_id=number,
        client_id=client_id,
    )
    body = _written(header) + _written(_built(kind, fields))
    return _SIZE.pack(len(body)) + body


@dataclass(slots=True)
class Client:
    """One connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    ids: dict[str, UUID] = field(default_factory=dict)
    _next: int = 0
    _owed: dict[int, tuple[int, int]] = field(default_factory=dict)

    def send(self, key: int, version: int, /, **fields: Any) -> int:
        """Write a request; return its number."""
        self._next += 1
        self.writer.write(request_frame(key, version, number=self._next, **fields))
        self._owed[self._next] = key, version
        return self._next

    async def answer(self) -> tuple[int, Any]:
        """Return the next answer, and the number of its request."""
        (size,) = _SIZE.unpack(await self.reader.readexactly(4))
        data = await self.reader.readexactly(size)
        (number,) = _SIZE.unpack_from(data)
        kind: Any = load_response_schema(*self._owed.pop(number))
        _, at = entity_reader(kind.__header_schema__)(data, 0)
        found, size = entity_reader(kind)(data, at)
        assert at + size == len(data)
        return number, found

    async def ask(self, key: int, version: int, /, **fields: Any) -> Any:
        """Send a request and return its answer, which must be the next one."""
        number = self.send(key, version, **fields)
        answered, found = await asyncio.wait_for(self.answer(), HANGS_S)
        assert answered == number
        return found

    async def is_closed(self) -> bool:
        """Say whether the broker has ended the connection; waits for it."""
        try:
            return await asyncio.wait_for(self.reader.read(1), HANGS_S) == b""
        except ConnectionError:
            return True

    async def close(self) -> None:
        """End it."""
        self.writer.close()

    # ------------------------------------------------------------------------ what is asked often

    def send_produce(
        self,
        parts: dict[tuple[str, int], bytes],
        *,
        acks: int = -1,
        timeout_ms: int = 10_000,
        version: int = 12,
        transactional_id: str | None = None,
    ) -> int:
        """Write a request to produce."""
        names = list(dict.fromkeys(name for name, _ in parts))
        topics = [
            {
                ("topic_id" if version >= 13 else "name"): self.ids[name]
                if version >= 13
                else name,
                "partition_data": [
                    {"index": index, "records": body}
                    for (one, index), body in parts.items()
                    if one == name
                ],
            }
            for name in names
        ]
        return self.send(
            0,
            version,
            transactional_id=transactional_id,
            acks=acks,
            timeout=timeout_ms,
            topic_data=topics,
        )

    async def produce(self, name: str, partition: int, body: bytes, **options: Any) -> Any:
        """Produce to one partition, and return its row of the answer."""
        number = self.send_produce({(name, partition): body}, **options)
        answered, found = await asyncio.wait_for(self.answer(), HANGS_S)
        assert answered == number
        return found.responses[0].partition_responses[0]

    def send_fetch(
        self,
        wanted: dict[tuple[str, int], int],
        *,
        wait_ms: int = 0,
        min_bytes: int = 1,
        max_bytes: int = 1 << 20,
        part_bytes: int = 1 << 20,
        session: tuple[int, int] = (0, -1),
        forgotten: dict[str, list[int]] | None = None,
        version: int = 12,
        replica: int = -1,
        rack: str = "",
    ) -> int:
        """Write a request to fetch."""
        names = list(dict.fromkeys(name for name, _ in wanted))

        def named(name: str) -> dict[str, Any]:
            return {"topic_id": self.ids[name]} if version >= 13 else {"topic": name}

        topics = [
            {
                **named(name),
                "partitions": [
                    {"partition": index, "fetch_offset": offset, "partition_max_bytes": part_bytes}
                    for (one, index), offset in wanted.items()
                    if one == name
                ],
            }
            for name in names
        ]
        gone = [{**named(name), "partitions": few} for name, few in (forgotten or {}).items()]
        who: dict[str, Any] = {"replica_id": replica} if version < 15 else {}
        return self.send(
            1,
            version,
            **who,
            max_wait=wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            isolation_level=0,
            session_id=session[0],
            session_epoch=session[1],
            topics=topics,
            forgotten_topics_data=gone,
            rack_id=rack,
        )

    async def fetch(self, wanted: dict[tuple[str, int], int], **options: Any) -> Any:
        """Fetch, and return the answer."""
        number = self.send_fetch(wanted, **options)
        answered, found = await asyncio.wait_for(self.answer(), HANGS_S)
        assert answered == number
        return found

    async def fetch_one(self, name: str, partition: int, offset: int, **options: Any) -> Any:
        """Fetch one partition, and return its row of the answer."""
        found = await self.fetch({(name, partition): offset}, **options)
        return found.responses[0].partitions[0]

    async def list_offset(self, name: str, partition: int, timestamp: int) -> Any:
        """Ask for one offset, and return its row."""
        part = {"partition_index": partition, "timestamp": timestamp, "current_leader_epoch": -1}
        found = await self.ask(
            2,
            7,
            replica_id=-1,
            isolation_level=0,
            topics=[{"name": name, "partitions": [part]}],
        )
        return found.topics[0].partitions[0]

    async def metadata(self, *names: str, create: bool = False, version: int = 12) -> Any:
        """Ask for topics by name, and return their rows."""
        found = await self.ask(
            3,
            version,
            topics=[{"topic_id": None, "name": name} for name in names],
            allow_auto_topic_creation=create,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
        for topic in found.topics:
            id_ = getattr(topic, "topic_id", None)
            if topic.name is not None and id_ is not None:
                self.ids[topic.name] = id_
        return found.topics


class _Written(bytearray):
    write = bytearray.extend


def _written(message: Any) -> bytes:
    out = _Written()
    entity_writer(type(message))(out, message)  # type: ignore[arg-type]
    return bytes(out)


def _built(kind: Any, given: dict[str, Any]) -> Any:
    """A message of kio's out of plain fields."""
    from dataclasses import fields
    from typing import get_args, get_type_hints

    hints = get_type_hints(kind)
    made: dict[str, Any] = {}
    for one in fields(kind):
        if one.name not in given:
            continue
        value = given[one.name]
        if isinstance(value, list):
            inner = get_args(hints[one.name])
            element = inner[0] if inner[1:] == (...,) else get_args(inner[0])[0]
            value = tuple(_built(element, row) if isinstance(row, dict) else row for row in value)
        elif isinstance(value, dict):
            value = _built((get_args(hints[one.name]) or (hints[one.name],))[0], value)
        elif one.metadata.get("kafka_type", "").startswith("timedelta"):
            value = timedelta(milliseconds=value)
        made[one.name] = value
    return kind(**made)


# ---------------------------------------------------------------------------- the broker


@asynccontextmanager
async def broker(
    site: Site,
    *,
    machine: Machine | None = None,
    limits: Limits | None = None,
    flush: FlushSettings | None = None,
    clock: Clock | None = None,
    groups: CoordinatorSettings | None = None,
    listeners: tuple[Listener, ...] = (Listener(port=0),),
    ids: Ids = new_id,
    **settings: Any,
) -> AsyncIterator[Broker]:
    """Run a broker on a site."""
    groups = groups or CoordinatorSettings(
        commit_interval_ms=0, rules=GroupRules(initial_rebalance_delay_ms=0)
    )
    told = BrokerSettings(
        listeners=listeners,
        flush=flush or FlushSettings(interval_ms=0),
        limits=limits or Limits(drain_ms=3_000),
        groups=groups,
        **settings,
    )

    def note(_: Any, __: str, event: Any) -> Any:
        site.log.append(dict(event))
        raise structlog.DropEvent

    log = structlog.wrap_logger(
        structlog.PrintLogger(),
        processors=[note],
        wrapper_class=structlog.make_filtering_bound_logger(0),
    )
    store, clock = machine or site, clock or VirtualClock()
    async with run_broker(store, told, log, clock=clock, ids=ids) as running:
        if machine is not None:
            machine.runs(running)
        yield running
    assert not [event for event in site.log if event["event"] == "a bug"], site.log


async def connect(
    running: Broker,
    name: str = "PLAINTEXT",
    limit: int = 1 << 27,
    source: str = "127.0.0.1",
) -> Client:
    """Return a client of a broker, at one of this machine's own addresses."""
    where = running.ports[name]
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", where, limit=limit, local_addr=(source, 0)
    )
    return Client(reader, writer)


def story(run_: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Make a test of a coroutine, on the loop of real brokers.

    Tests with parameters use asyncio's own, so that both are tried.
    """
    return _test(run_, lambda: uvloop.run(asyncio.wait_for(run_(), STORY_S)))


def virtual_story(run_: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Make a test of a coroutine in which time passes; that takes none."""
    return _test(run_, lambda: run_virtually(run_()))


def _test(told: Callable[[], object], test: Callable[[], None]) -> Callable[[], None]:
    test.__name__, test.__doc__, test.__module__ = told.__name__, told.__doc__, told.__module__
    return test
