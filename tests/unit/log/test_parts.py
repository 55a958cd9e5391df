"""What a task of a bulk write stages has names that are its own, in the order of its windows."""

from typing import Any

import pytest

from lakelog.errors import ConflictError, InvalidInputError, UnavailableError
from lakelog.log import Identity, Staged, StagedObject, TaskParts
from lakelog.log.staging import ATTEMPTS, create_part, part_number
from lakelog.names import staged_key
from lakelog.store import Get, MemoryStore, Op, PutIfAbsent, run, working

WRITE = b"w" * 16
IDENTITY = Identity(b"q" * 16, 0, is_stream=True)
TOPIC = b"t" * 16


def parcel(*bodies: bytes) -> StagedObject:
    made = StagedObject()
    for partition, body in enumerate(bodies):
        made.add((TOPIC, partition), body, offsets=1, times=(5, 6))
    return made


def put(store: MemoryStore, parts: TaskParts, *windows: StagedObject) -> list[Staged]:
    """Put windows of one lane, and return where their runs lie."""
    perform = working(store.perform)
    run(parts.announce(), perform)
    return [one for some in windows for flow in parts.put({3: some}) for one in run(flow, perform)]


def test_an_object_has_a_number_or_there_are_too_many() -> None:
    assert part_number(65_535, 15, 2047) == (1 << 31) - 1
    assert part_number(1, 0, 0) > part_number(0, 15, 2047)
    with pytest.raises(InvalidInputError, match="coalesce the frame"):
        part_number(65_536, 0, 0)
    with pytest.raises(InvalidInputError, match="repartition the frame"):
        part_number(0, 0, 2048)


def test_runs_lie_in_their_object_one_behind_the_other() -> None:
    store = MemoryStore()
    staged = put(store, TaskParts(IDENTITY, WRITE, task=0, attempt=0), parcel(b"one", b"three"))
    assert staged == [Staged(3, TOPIC, 0, 0, 0, 3, 1, 5, 6), Staged(3, TOPIC, 1, 0, 3, 5, 1, 5, 6)]
    assert store.perform(Get(staged_key(WRITE, 3, 0))).body == b"onethree"


def test_an_attempt_that_meets_another_goes_on_under_the_next_number() -> None:
    store = MemoryStore()
    put(store, TaskParts(IDENTITY, WRITE, task=1, attempt=0), parcel(b"a"))
    windows = parcel(b"b"), parcel(b"c")
    staged = put(store, TaskParts(IDENTITY, WRITE, task=1, attempt=0), *windows)
    assert [one.part for one in staged] == [part_number(1, 1, 0), part_number(1, 1, 1)]
    bodies = [store.perform(Get(staged_key(WRITE, 3, one.part))).body for one in staged]
    assert bodies == [b"b", b"c"]


def test_a_task_is_tried_so_often_and_then_the_write_is_begun_anew() -> None:
    store = MemoryStore()
    for _ in range(ATTEMPTS):
        run(create_part(WRITE, 0, (0, 0, 0), b"x"), working(store.perform))
    with pytest.raises(ConflictError, match="write the frame again"):
        run(create_part(WRITE, 0, (0, 0, 0), b"x"), working(store.perform))


def test_a_put_without_an_answer_is_asked_for_again_and_what_is_there_then_is_not_adopted() -> None:
    store = MemoryStore()
    faults = ["request", "answer"]

    def perform(op: Op) -> Any:
        fault = faults.pop(0) if faults and isinstance(op, PutIfAbsent) else ""
        answer = None if fault == "request" else store.perform(op)
        if fault:
            raise UnavailableError(f"the {fault} was lost")
        return answer

    work = working(perform, sleep=lambda _: None)
    made = run(create_part(WRITE, 0, (3, 0, 0), b"x"), work)
    assert made == (part_number(3, 1, 0), 1)
    assert store.perform(Get(staged_key(WRITE, 0, made[0]))).body == b"x"


def test_a_task_on_a_dead_store_fails_and_does_not_wait_for_ever() -> None:
    puts: list[Op] = []

    def perform(op: Op) -> Any:
        puts.append(op)
        assert len(puts) < 100, "it goes on for ever"
        raise UnavailableError("503")

    parts = TaskParts(IDENTITY, WRITE, task=0, attempt=0)
    for flow in (parts.announce(), *parts.put({3: parcel(b"one")})):
        with pytest.raises(UnavailableError, match="503"):
            run(flow, working(perform, sleep=lambda _: None))
