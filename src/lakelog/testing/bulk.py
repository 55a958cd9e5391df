"""A streaming query that writes in bulk: drivers of which two may live at once, and a checkpoint.

Spark's checkpoint says which batch comes next. It is moved when a commit has ended well. So a
driver that died repeats its batch, with the same rows, under an attempt of its own; and one that
slept may try a batch that others have finished long ago. Every batch of rows has bytes that nobody
else has, so the truth notices when any is stored twice; and what a driver was told is in the log
must be there, all of it.

A batch is written by tasks, as Spark's are: each puts windows of rows by the product's own flow, is
tried again when a put fails, and sometimes again from attempt 0 although it had succeeded, as Spark
does when it tries a whole stage again.
"""

from dataclasses import dataclass, field

from lakelog.errors import ConflictError, LakelogError, NotFoundError, UnavailableError
from lakelog.journal import Append, Lane
from lakelog.log import Committed, Identity, Staged, StagedObject, TaskParts, commit_write
from lakelog.store import Wait, Work
from lakelog.testing.process import Process
from lakelog.testing.town import Town, expected
from lakelog.testing.truth import Anomaly

__all__ = ["Query", "driver"]

TASK_TRIES = 4
"""As ``spark.task.maxFailures``."""
STAGE_AGAIN = 0.05
"""How often a task that has succeeded is tried once more, from attempt 0."""


@dataclass(slots=True)
class Query:
    """What outlives its drivers."""

    id: bytes
    next: int = 0
    """The batch that the checkpoint says is next."""
    rows: dict[int, list[Append]] = field(default_factory=dict)
    """What each batch has to write, whoever does."""


def driver(town: Town, query: Query, process: Process) -> Work[None]:
    """Write batch after batch."""
    lanes = {0: town.lane(process)}
    while True:
        yield Wait(town.world.some(1_000, 12_000))
        number = query.next
        try:
            done = yield from _write(town, lanes, query, number)
        except (ConflictError, NotFoundError):
            town.count("bulk void")  # Others were first, or it slept, and was swept.
        except LakelogError as error:
            expected(error)
            town.count("bulk failed")
        else:
            _judge(town, query.rows[number], number)
            query.next = max(query.next, number + 1)
            town.count("bulk committed" if done.is_mine else "bulk committed before")
        town.count_ways(lanes[0])


def _write(town: Town, lanes: dict[int, Lane], query: Query, number: int) -> Work[Committed]:
    """Stage the rows of a batch by a task or two, and commit them."""
    if number not in query.rows:
        query.rows[number] = [
            town.batch(*town.some_partition()) for _ in range(town.world.some(1, 5))
        ]
    rows = query.rows[number]
    identity, write = Identity(query.id, number, is_stream=True), town.world.ids()
    cut = town.world.some(0, len(rows))
    staged: list[Staged] = []
    for task, some in enumerate((rows[:cut], rows[cut:])):
        if some:
            staged += yield from _task(town, identity, write, task, some)
    now_ms = town.world.store_ms()
    return (yield from commit_write(lanes, identity, write, staged, now_ms=now_ms))


def _task(
    town: Town, identity: Identity, write: bytes, task: int, rows: list[Append]
) -> Work[list[Staged]]:
    """Stage some rows, as Spark has it done: again after a failure, and now and then twice."""
    attempt = 0
    while True:
        try:
            staged = yield from _attempt(identity, write, task, attempt, rows)
        except UnavailableError:
            attempt += 1
            if attempt == TASK_TRIES:
                raise
            town.count("bulk task again")
            continue
        if town.random.random() >= STAGE_AGAIN:
            return staged
        town.count("bulk stage again")
        attempt = 0


def _attempt(
    identity: Identity, write: bytes, task: int, attempt: int, rows: list[Append]
) -> Work[list[Staged]]:
    """Stage rows, each in a window of its own: one object after the other."""
    parts = TaskParts(identity, write, task=task, attempt=attempt)
    yield from parts.announce()
    staged: list[Staged] = []
    for one in rows:
        staged_object = StagedObject()
        staged_object.add(
            one.topic_partition, one.body, one.offsets, (one.min_timestamp, one.max_timestamp)
        )
        for flow in parts.put({0: staged_object}):
            staged += yield from flow
    return staged


def _judge(town: Town, rows: list[Append], number: int) -> None:
    """What was committed is in the log, but for topics that are gone."""
    for one in rows:
        crc = one.rows[0].crc
        topic_partition, offset = town.truth.offsets.get(crc, (None, 0))
        if topic_partition == one.topic_partition:
            town.truth.told[crc] = one.topic_partition, offset
        elif one.topic not in town.truth.deleted:
            raise Anomaly(
                f"J3: batch {number} was committed, and {one.topic_partition} does not have it"
            )
