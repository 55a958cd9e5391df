"""A process that appends to lane 0, or keeps it, until it is killed.

    python -m tests.e2e.writers.child write|keep URL OPTIONS DIARY

Every line of the diary is one write, so that a kill never cuts one: ``sent PARTITION CRC`` before a
batch is handed over, ``acked PARTITION OFFSET CRC`` when it is acknowledged, ``unknown CRC``, and
``ways {...}`` with how often each way was taken.
"""

import asyncio
import json
import os
import secrets
import sys
import time

from lakelog.broker import LaneWriter
from lakelog.catalog import open_namespace, read_topic
from lakelog.errors import LakelogError
from lakelog.host import SystemClock, new_id
from lakelog.journal import FlushSettings, Lane, Outcome, Stored, Unknown, new_append
from lakelog.maintenance import SealSettings, maintain
from lakelog.store import Store, open_store, retrying, retrying_async, run, working
from lakelog.testing import make_batch

PARTITIONS = 8
CLIENTS = 6
"""Producers in one process, each with one batch under way."""


class Diary:
    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, *words: object) -> None:
        os.write(self._file, (" ".join(map(str, words)) + "\n").encode())


def open_lane(store: Store) -> Lane:
    namespace = run(open_namespace(), working(retrying(store.perform)))
    return Lane(number=0, rules=namespace.rules, clock=SystemClock(), ids=new_id, writer=new_id())


async def client(writer: LaneWriter, topic: bytes, diary: Diary, *, idempotent: bool) -> None:
    """Produce for ever: one batch at a time, the same one again while its outcome is unknown."""
    producer = secrets.randbits(62) if idempotent else -1
    sequences = [0] * PARTITIONS
    while True:
        partition = secrets.randbelow(PARTITIONS)
        count = 1 + secrets.randbelow(3)
        identity = (producer, 0, sequences[partition]) if idempotent else (-1, -1, -1)
        body = make_batch(secrets.randbits(63), count, identity, time.time_ns() // 1_000_000)
        request = new_append(topic, partition, body)
        crc = request.rows[0].crc
        diary.write("sent", partition, crc)
        outcome: Outcome = Unknown()
        while not isinstance(outcome, Stored):
            outcome = await writer.append(request)
            if not isinstance(outcome, Stored):
                diary.write("unknown", crc)
                if not idempotent:
                    break
        else:
            sequences[partition] += count
            diary.write("acked", partition, outcome.base_offset, crc)


async def write(store: Store, diary: Diary) -> None:
    topic = run(read_topic("t"), working(retrying(store.perform)))
    lane = open_lane(store)
    settings = FlushSettings(interval_ms=5)
    async with LaneWriter(lane, retrying_async(store.perform_async), settings) as writer:
        tasks = [
            asyncio.create_task(client(writer, topic.id, diary, idempotent=number % 3 > 0))
            for number in range(CLIENTS)
        ]
        while True:
            await asyncio.wait(tasks, timeout=0.5, return_when=asyncio.FIRST_EXCEPTION)
            for task in tasks:
                if task.done():
                    task.result()
            diary.write("ways", json.dumps(lane.counters))


def keep_on(store: Store, diary: Diary) -> None:
    perform = working(retrying(store.perform))
    lane = open_lane(store)
    while True:
        try:
            kept = run(maintain({0: lane}, SealSettings()), perform)
            diary.write("kept", kept.sealed.segments, kept.trimmed, kept.reaped, kept.swept)
            failures = list(kept.failures.values())
        except LakelogError as error:
            failures = [error]
        for failure in failures:
            if not failure.retryable:
                raise failure
            diary.write("failed", type(failure).__name__)
        time.sleep(1)  # noqa: TID251 (between two passes)


def main() -> None:
    what, url, options, path = sys.argv[1:]
    store, diary = open_store(url, json.loads(options)), Diary(path)
    if what == "keep":
        keep_on(store, diary)
    else:
        asyncio.run(write(store, diary))


if __name__ == "__main__":
    main()
