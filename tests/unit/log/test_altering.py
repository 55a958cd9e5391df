"""Configs that are changed one by one."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.errors import InvalidInputError
from lakelog.log import TOPIC_CONFIGS, Change, Operation, alter_configs, check_configs
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


def test_a_long_list_is_refused_before_it_is_compared_and_one_that_may_be_is_compared_soon() -> (
    None
):
    name = "leader.replication.throttled.replicas"
    for operation in (APPEND, SUBTRACT):
        with pytest.raises(InvalidInputError, match=f"{name} has 200000 characters: use at most"):
            alter_configs({}, [Change(name, operation, "1:1," * 50_000)])
    few = ",".join(f"{at}:1" for at in range(2_400))
    assert len(few) < 16 << 10
    began = time.perf_counter()
    for _ in range(10):
        kept = alter_configs({name: few}, [Change(name, APPEND, few + ",7:8,7:8")])
        assert kept == {name: few + ",7:8"}
        assert alter_configs({name: few}, [Change(name, SUBTRACT, few)]) == {name: ""}
    in_time(time.perf_counter() - began < 0.5, time.perf_counter() - began)


@given(st.sampled_from(sorted(TOPIC_CONFIGS)), st.sampled_from(sorted(TOPIC_CONFIGS)))
def test_setting_a_default_and_deleting_it_leaves_nothing(name: str, other: str) -> None:
    stored = check_configs({other: TOPIC_CONFIGS[other].default})
    given_ = alter_configs(stored, [Change(name, SET, TOPIC_CONFIGS[name].default)])
    left = alter_configs(given_, [Change(name, DELETE), Change(other, DELETE)])
    assert set(given_) == {name, other}
    assert left == {}
