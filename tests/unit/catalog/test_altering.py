"""Configs that are changed one by one."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.catalog import (
    TOPIC_CONFIGS,
    Change,
    Operation,
    alter_configs,
    check_configs,
)
from lakelog.errors import InvalidInputError
from tests.patience import in_time

SET, DELETE, APPEND, SUBTRACT = Operation
POLICY = "cleanup.policy"


def test_what_is_not_spoken_of_stays() -> None:
    stored = {"retention.ms": "1", "retention.bytes": "2", "of.a.later.version": "3"}
    after = alter_configs(
        stored, [Change("retention.ms", SET, " 5 "), Change("retention.bytes", DELETE)]
    )
    assert after == {"retention.ms": "5", "of.a.later.version": "3"}


@pytest.mark.parametrize(
    ("stored", "operation", "value", "after"),
    [
        (None, APPEND, "compact", "delete,compact"),
        ("compact", APPEND, "delete,compact", "compact,delete"),
        ("compact,delete", SUBTRACT, "compact", "delete"),
        ("delete", SUBTRACT, "compact", "delete"),
    ],
)
def test_lists_grow_and_shrink(
    stored: str | None, operation: Operation, value: str, after: str
) -> None:
    now = {} if stored is None else {POLICY: stored}
    assert alter_configs(now, [Change(POLICY, operation, value)]) == {POLICY: after}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (Change("no.such", SET, "1"), "Unknown topic config name: no.such"),
        (Change("no.such", APPEND, "1"), "Unknown topic config name: no.such"),
        (Change("retention.ms", SET, "soon"), "Invalid value 'soon'"),
        (Change("retention.ms", SET, None), "Null value not supported"),
        (Change("retention.ms", APPEND, "1"), "append is not allowed"),
        (Change("retention.ms", SUBTRACT, "1"), "subtract is not allowed"),
        (Change(POLICY, SUBTRACT, "delete"), "Invalid value ''"),
        (Change("min.compaction.lag.ms", SET, "6"), "is above max.compaction.lag.ms"),
    ],
)
def test_what_cannot_be_is_refused(change: Change, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        alter_configs({"max.compaction.lag.ms": "5"}, [change])


THROTTLED = "leader.replication.throttled.replicas"


@pytest.mark.parametrize("operation", [APPEND, SUBTRACT])
def test_a_list_that_is_too_long_is_refused_before_it_is_compared(operation: Operation) -> None:
    words = f"{THROTTLED} has 200000 characters: use at most 16384"
    with pytest.raises(InvalidInputError, match=words):
        alter_configs({}, [Change(THROTTLED, operation, "1:1," * 50_000)])


def test_what_is_appended_again_is_there_once() -> None:
    after = alter_configs({THROTTLED: "1:1"}, [Change(THROTTLED, APPEND, "1:1,7:8,7:8")])
    assert after == {THROTTLED: "1:1,7:8"}


def test_four_times_the_list_takes_four_times_as_long_and_not_sixteen_times() -> None:
    took: dict[int, float] = {}
    for count in (600, 2_400):
        few = ",".join(f"{at}:1" for at in range(count))
        runs: list[float] = []
        for _ in range(5):
            began = time.perf_counter()
            kept = alter_configs({THROTTLED: few}, [Change(THROTTLED, APPEND, few)])
            gone = alter_configs({THROTTLED: few}, [Change(THROTTLED, SUBTRACT, few)])
            runs.append(time.perf_counter() - began)
            assert (kept[THROTTLED], gone[THROTTLED]) == (few, "")
        took[count] = min(runs)
    in_time(took[2_400] < 9 * took[600], took)


@given(st.sampled_from(sorted(TOPIC_CONFIGS)), st.sampled_from(sorted(TOPIC_CONFIGS)))
def test_setting_a_default_and_deleting_it_leaves_nothing(name: str, other: str) -> None:
    stored = check_configs({other: TOPIC_CONFIGS[other].default})
    given_ = alter_configs(stored, [Change(name, SET, TOPIC_CONFIGS[name].default)])
    left = alter_configs(given_, [Change(name, DELETE), Change(other, DELETE)])
    assert set(given_) == {name, other}
    assert left == {}
