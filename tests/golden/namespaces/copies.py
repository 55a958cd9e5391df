"""Golden namespaces as they are kept, copies of them to work in, and what a broker serves of one.

    {version}/objects/      every object of the namespace, a file each, under its key
    {version}/expected.json what that version served of it, by ``observe``

A copy is a store in memory whose clock begins when the namespace was left, so that nothing in it
has grown old since: retention, sessions and offsets are judged as they were then.
"""

import base64
import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from kio.schema.errors import ErrorCode

from lakelog.broker import Broker
from lakelog.catalog import open_namespace
from lakelog.host import SystemClock
from lakelog.journal import Lane
from lakelog.pipeline import Result, VerifyNamespace
from lakelog.records import decode_batches
from lakelog.store import PutIfAbsent, join_body, run, working
from tests.unit.broker.site import Client, Site, broker, connect
from tests.virtual_time import pass_time, passed_ms, run_virtually

__all__ = [
    "HERE",
    "Copy",
    "LifeClock",
    "all_topics",
    "digest",
    "expected",
    "groups",
    "objects_of",
    "observe",
    "observe_copy",
    "read_records",
    "run_story",
    "text_of",
    "versions",
]

HERE = Path(__file__).parent

T = TypeVar("T")
Json = dict[str, Any]


class LifeClock(SystemClock):
    """The time of a namespace: it begins where it is told to, and leaps when it is told to."""

    def __init__(self, began_ms: int) -> None:
        self._began_ms, self._leapt_ms = began_ms, 0

    def now_ms(self) -> int:
        return self._began_ms + self.boot_ms()

    def boot_ms(self) -> int:
        return self._leapt_ms + passed_ms()

    def leap(self, ms: int) -> None:
        """Let time pass in which nothing runs."""
        self._leapt_ms += ms


class Copy(Site):
    """A namespace in memory, with the clock and the ids of whoever works in it."""

    def __init__(self, began_ms: int, objects: Mapping[str, bytes]) -> None:
        self.clock = LifeClock(began_ms)
        super().__init__(clock=self.clock, made=False)
        self._ids = 0
        for key, body in objects.items():
            self.perform(PutIfAbsent(key, body))

    def id(self) -> bytes:
        self._ids += 1
        return hashlib.blake2b(b"%d" % self._ids, digest_size=16).digest()

    def lane(self, number: int) -> Lane:
        """A lane of which a new process knows nothing yet."""
        rules = self.do(open_namespace()).rules
        return Lane(number=number, rules=rules, clock=self.clock, ids=self.id, writer=self.id())

    def lanes(self) -> dict[int, Lane]:
        return {
            number: self.lane(number) for number in range(self.do(open_namespace()).rules.lanes)
        }

    def objects(self) -> dict[str, bytes]:
        """Every object, by its key."""
        return {key: join_body(body) for key, (_, body) in sorted(self._objects.items())}

    def work(self, job: VerifyNamespace) -> list[Result]:
        """Plan a job and do it, in this store."""
        perform = working(self.perform)
        plan = job.plan(lambda _: perform)
        steps = (run(job.step(unit), lambda wish: perform(wish.op)) for unit in plan.units)
        return [*plan.results, *steps]

    @asynccontextmanager
    async def broker(self) -> AsyncIterator[Broker]:
        """Run a broker on it, which has all groups: also those of one that was killed, and is known
        to have gone when it has given no sign of life for a while.
        """
        async with broker(self, clock=self.clock, ids=self.id) as running:
            coordinator = running.services.coordinator
            while len(coordinator.held()) < coordinator.shards:
                await pass_time(1)
            yield running


def versions() -> list[str]:
    """Return the versions that have left a namespace."""
    return sorted(path.parent.name for path in HERE.glob("*/expected.json"))


def objects_of(version: str) -> dict[str, bytes]:
    """Return every object of a golden namespace, by its key."""
    folder = HERE / version / "objects"
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def expected(version: str) -> Json:
    """Return what a version served of its namespace."""
    found: Json = json.loads((HERE / version / "expected.json").read_text())
    return found


def run_story(story: Callable[[], Awaitable[T]]) -> T:
    """Run a story in which time passes, and takes none."""

    async def told() -> T:
        return await story()

    return run_virtually(told())


# ---------------------------------------------------------------------------- what is served


async def observe(client: Client) -> Json:
    """Return all that a broker serves: topics, partitions, groups."""
    topics = await all_topics(client)
    partitions = {
        f"{name}-{number}": await _partition(client, name, number)
        for name, topic in topics.items()
        for number in range(topic["partitions"])
    }
    return {"topics": topics, "partitions": partitions, "groups": await groups(client)}


async def observe_copy(site: Copy) -> Json:
    """Return all that a new broker serves of a copy."""
    async with site.broker() as running:
        client = await connect(running)
        try:
            return await observe(client)
        finally:
            await client.close()


async def all_topics(client: Client) -> Json:
    found = await client.ask(
        3, 12, topics=None, allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False, include_topic_authorized_operations=False,
    )  # fmt: skip
    return {
        topic.name: {
            "id": topic.topic_id.hex,
            "partitions": len(topic.partitions),
            "configs": await _configs(client, topic.name),
        }
        for topic in sorted(found.topics, key=lambda one: one.name)
        if not topic.is_internal
    }


async def _configs(client: Client, name: str) -> dict[str, str]:
    """The configs that a topic was given."""
    resource = {"resource_type": 2, "resource_name": name, "configuration_keys": None}
    found = await client.ask(
        32, 4, resources=[resource], include_synonyms=False, include_documentation=False
    )
    rows = found.results[0].configs
    return {row.name: row.value for row in rows if row.config_source == 1}


async def _partition(client: Client, name: str, number: int) -> Json:
    start, end = [(await client.list_offset(name, number, at)).offset for at in (-2, -1)]
    rows = await read_records(client, name, number, start, end)
    return {"start": start, "end": end, "records": len(rows), "sha256": digest(rows)}


async def read_records(
    client: Client, name: str, number: int, start: int, end: int
) -> list[list[object]]:
    """Return the records of a partition as a consumer gets them, one after the other."""
    rows: list[list[object]] = []
    at = start
    while at < end:
        answer = await client.fetch_one(name, number, at)
        assert answer.error_code is ErrorCode.none, (name, number, at, answer.error_code)
        batches = list(decode_batches(answer.records or b""))
        assert batches, f"{name}-{number} has nothing from {at} on, and ends at {end}"
        rows += [
            [record.offset, record.timestamp, text_of(record.key), text_of(record.value),
             [[header.key, text_of(header.value)] for header in record.headers]]
            for one in batches
            for record in one.records
            if record.offset >= at
        ]  # fmt: skip
        at = batches[-1].header.next_offset
    return rows


def digest(rows: list[list[object]]) -> str:
    """Return what tells these records from any others."""
    return hashlib.sha256("\n".join(map(json.dumps, rows)).encode()).hexdigest()


def text_of(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


async def groups(client: Client) -> Json:
    """Return every group, what kind it is of and what it has committed."""
    listed = await client.ask(16, 5, states_filter=[], types_filter=[])
    found: Json = {}
    for row in sorted(listed.groups, key=lambda one: one.group_id):
        one = {"group_id": row.group_id, "member_id": None, "member_epoch": -1, "topics": None}
        answer = await client.ask(9, 9, groups=[one], require_stable=False)
        found[row.group_id] = {
            "kind": row.group_type.lower(),
            "state": row.group_state,
            "offsets": {
                f"{topic.name}-{part.partition_index}": [part.committed_offset, part.metadata]
                for topic in answer.groups[0].topics
                for part in topic.partitions
            },
        }
    return found
