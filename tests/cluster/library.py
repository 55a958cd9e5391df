"""A worker without a broker: lakelog as a library appends to the lanes that brokers lead.

    python -m tests.cluster.library PLAN DIARY

It writes a diary as the others do, and sends one batch at a time to each partition: the same one
again, with the same sequence, while its outcome is unknown. So its records are in the log once,
however often brokers win the place that it wanted.
"""

import asyncio
import contextlib
import json
import secrets
import sys
import time
from pathlib import Path

from lakelog.broker import LaneWriter
from lakelog.catalog import open_namespace, read_topic
from lakelog.host import SystemClock, leave_process, new_id
from lakelog.journal import FlushSettings, Lane, Stored, StoreTime, new_append
from lakelog.model import Record
from lakelog.records import NewBatch, encode_batch
from lakelog.store import open_store, retrying, retrying_async, run, working
from tests.cluster.history import Diary, value_of
from tests.cluster.workers import Plan

AGAIN_S = 0.2


class Sending:
    """Sends numbers to some partitions of a topic, until it is told to be quiet."""

    def __init__(self, plan: Plan, diary: Diary) -> None:
        self._plan, self._diary = plan, diary
        self._quiet = asyncio.Event()
        self._sent = 0
        self._producer = secrets.randbits(62)

    async def run(self) -> None:
        plan = self._plan
        store = open_store(plan.storage, plan.options)
        perform = working(retrying(store.perform))
        rules = run(open_namespace(), perform).rules
        topic = run(read_topic(plan.topic), perform)
        time_, clock, writer = StoreTime(), SystemClock(), new_id()
        async with contextlib.AsyncExitStack() as stack:
            lanes = {
                number: await stack.enter_async_context(
                    LaneWriter(
                        Lane(
                            number=number,
                            rules=rules,
                            clock=clock,
                            ids=new_id,
                            writer=writer,
                            time=time_,
                        ),
                        retrying_async(store.perform_async),
                        FlushSettings(interval_ms=100),
                    )
                )
                for number in topic.lanes_used()
            }
            asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self._told)
            tasks = [
                self._send(lanes[topic.lane(number)], topic.id, number)
                for number in range(plan.partitions)
            ]
            await asyncio.gather(*tasks)
            self._diary.write("quiet", self._diary.now(), plan.name)
            await asyncio.Event().wait()

    def _told(self) -> None:
        line = sys.stdin.readline().strip()
        self._quiet.set()
        if line != "quiet":
            leave_process(0)  # Threads of the store may abort a process that ends otherwise.

    async def _send(self, writer: LaneWriter, topic: bytes, partition: int) -> None:
        plan, diary, sequence = self._plan, self._diary, 0
        while not self._quiet.is_set():
            number, self._sent = self._sent, self._sent + 1
            now_ms = time.time_ns() // 1_000_000
            record = Record(
                offset=0, timestamp=now_ms, key=None, value=value_of(plan.name, number).encode()
            )
            body = encode_batch(
                NewBatch(
                    records=[record],
                    producer_id=self._producer,
                    producer_epoch=0,
                    base_sequence=sequence,
                )
            )
            request = new_append(topic, partition, body)
            diary.write("sent", diary.now(), plan.name, number, partition)
            while not isinstance(outcome := await writer.append(request), Stored):
                diary.write("error", diary.now(), plan.name, f"append: {type(outcome).__name__}")
                await asyncio.sleep(AGAIN_S)
            diary.write("acked", diary.now(), plan.name, number, partition, outcome.base_offset)
            sequence += 1
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._quiet.wait(), plan.partitions / plan.rate)


def main() -> None:
    plan = Plan(**json.loads(sys.argv[1]))
    asyncio.run(Sending(plan, Diary(Path(sys.argv[2]))).run())


if __name__ == "__main__":
    main()
