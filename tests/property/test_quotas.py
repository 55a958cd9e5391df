"""Quotas: which one counts, whose it is, what filters find, and that no more passes than it says.

The levels are compared with a plain list of them, as Kafka's documentation has it.
"""

import math
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from lakelog.catalog import decode_quotas, encode_quotas
from lakelog.security import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    Alteration,
    Bucket,
    Buckets,
    Component,
    Entity,
    FoundQuota,
    Quotas,
    alter_quotas,
    describe_quotas,
    entity_of,
)

NAMES = st.sampled_from(["a", "b", "c"])
KEYS = st.sampled_from([PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE])
MAYBE = st.none() | NAMES

entities = st.one_of(
    MAYBE.map(lambda name: (("user", name),)),
    MAYBE.map(lambda name: (("client-id", name),)),
    st.tuples(MAYBE, MAYBE).map(lambda two: (("user", two[0]), ("client-id", two[1]))),
)
addresses = st.sampled_from([(("ip", "10.0.0.1"),), (("ip", None),), (("ip", "::1"),)])
values = st.dictionaries(KEYS, st.integers(1, 1 << 40).map(float), min_size=1)
tables: st.SearchStrategy[dict[Entity, Mapping[str, float]]] = st.dictionaries(entities, values)


@given(rows=tables, key=KEYS, user=NAMES, client=NAMES)
def test_the_first_of_eight_levels_counts(
    rows: dict[Entity, Mapping[str, float]], key: str, user: str, client: str
) -> None:
    levels = [
        ((("user", user), ("client-id", client)), (user, client)),
        ((("user", user), ("client-id", None)), (user, client)),
        ((("user", user),), (user, None)),
        ((("user", None), ("client-id", client)), (user, client)),
        ((("user", None), ("client-id", None)), (user, client)),
        ((("user", None),), (user, None)),
        ((("client-id", client),), (None, client)),
        ((("client-id", None),), (None, client)),
    ]
    expected = None
    for entity, owner in levels:
        if entity in rows and key in rows[entity]:
            expected = FoundQuota(rows[entity][key], owner)
            break
    assert Quotas(rows).of_client(key, user, client) == expected


def test_addresses_are_known_in_any_form() -> None:
    rows: dict[Entity, Mapping[str, float]] = {
        (("ip", "0:0:0:0:0:0:0:1"),): {CONNECTION_CREATION_RATE: 5.0},
        (("ip", "::ffff:10.0.0.1"),): {CONNECTION_CREATION_RATE: 6.0},
        (("ip", None),): {CONNECTION_CREATION_RATE: 2.0},
        (("user", "a"),): {PRODUCER_BYTE_RATE: 2.0},
    }
    assert Quotas(rows).by_address() == {"::1": 5.0, "10.0.0.1": 6.0, None: 2.0}


steps = st.lists(st.tuples(st.floats(0, 5), st.floats(0, 400)), max_size=60)


@given(rate=st.floats(0.5, 1e3), burst_s=st.floats(0, 10), steps=steps, window_s=st.floats(0.1, 60))
def test_no_more_passes_than_rate_burst_and_one_request(
    rate: float, burst_s: float, steps: list[tuple[float, float]], window_s: float
) -> None:
    bucket, now_s = Bucket(rate, burst_s, 0.0), 0.0
    passed: list[tuple[float, float]] = []
    for pause_s, amount in steps:
        now_s += max(pause_s, bucket.wait_s(now_s))
        bucket.spend(amount, now_s)
        passed.append((now_s, amount))
    for begin, _ in passed:
        inside = [amount for at, amount in passed if begin <= at <= begin + window_s]
        most = rate * window_s + rate * burst_s + max(inside)
        assert sum(inside) <= most * (1 + 1e-9)


@given(rate=st.floats(0.5, 1e3), requests=st.lists(st.floats(1, 400), min_size=1, max_size=60))
def test_a_client_that_does_as_it_is_told_gets_all_that_it_may_have(
    rate: float, requests: list[float]
) -> None:
    bucket, now_s = Bucket(rate, 1.0, 0.0), 0.0
    for amount in requests:
        now_s += bucket.wait_s(now_s)
        bucket.spend(amount, now_s)
    now_s += bucket.wait_s(now_s)
    assert now_s == 0 or math.isclose(sum(requests), rate * now_s + rate, rel_tol=1e-6)


@given(st.lists(st.tuples(st.integers(0, 9), st.floats(0, 3), st.floats(0, 20)), max_size=50))
def test_buckets_are_bounded_and_what_is_forgotten_was_full(
    spent: list[tuple[int, float, float]],
) -> None:
    few, many = Buckets(most=4), Buckets()
    now_s = 0.0
    for owner, pause_s, amount in spent:
        now_s += pause_s
        found = [one.find("bytes", owner, 10.0, 1.0, now_s) for one in (few, many)]
        for bucket in found:
            bucket.spend(amount, now_s)
        # A bucket that is shared has less, never more.
        assert found[0].wait_s(now_s) >= found[1].wait_s(now_s) - 1e-9
        assert len(few) <= 5


def test_whoever_keeps_a_bucket_is_told_when_some_are_forgotten() -> None:
    buckets = Buckets(most=2)
    kept = buckets.find("bytes", "a", 10.0, 1.0, 0.0)
    buckets.find("bytes", "b", 10.0, 1.0, 0.0).spend(15, 0.0)
    before = buckets.generation
    buckets.find("bytes", "c", 10.0, 1.0, 0.5)
    assert buckets.generation > before
    assert buckets.find("bytes", "a", 10.0, 1.0, 0.5) is not kept


def test_a_rate_changes_and_what_was_overdrawn_is_paid_back_at_the_new_one() -> None:
    buckets = Buckets()
    buckets.find("bytes", "a", 10.0, 1.0, 0.0).spend(30, 0.0)
    bucket = buckets.find("bytes", "a", 40.0, 1.0, 0.0)
    assert bucket.wait_s(0.0) == 0.5


alterations = st.lists(
    st.builds(
        Alteration,
        st.one_of(entities, addresses),
        st.dictionaries(
            st.one_of(KEYS, st.just(CONNECTION_CREATION_RATE)),
            st.none() | st.sampled_from([-1.0, 0.0, 0.5, 1.0, 7.0, 1e19, math.nan, math.inf]),
        ).map(lambda ops: list(ops.items())),
    ),
    max_size=8,
)


@given(before=tables, changes=alterations)
def test_an_alteration_is_done_whole_or_refused_and_doing_it_again_changes_nothing(
    before: dict[Entity, Mapping[str, float]], changes: list[Alteration]
) -> None:
    now, flaws = alter_quotas(Quotas(before), changes)
    first = {entity_of(one.entity): one for one in reversed(changes)}
    done: list[Alteration] = []
    for entity, change in first.items():
        found, flaw = alter_quotas(Quotas(before), [change])
        if flaw[entity]:
            assert found.rows == before
            assert flaws[entity]
            assert now.rows.get(entity) == before.get(entity)
        else:
            done.append(change)
            for key, value in change.ops:
                assert now.rows.get(entity, {}).get(key) == value
    assert alter_quotas(now, done)[0] is now
    assert all(now.rows.values())
    assert now.version == (now.rows != before)


@given(rows=tables)
def test_the_cell_says_what_it_was_told(rows: dict[Entity, Mapping[str, float]]) -> None:
    quotas = Quotas(rows, 3)
    assert decode_quotas(encode_quotas(quotas)) == quotas


@given(rows=tables, strict=st.booleans(), data=st.data())
def test_a_filter_finds_what_a_plain_loop_finds(
    rows: dict[Entity, Mapping[str, float]], strict: bool, data: st.DataObject
) -> None:
    match = data.draw(st.sampled_from([0, 1, 2]))
    name = data.draw(NAMES) if match == 0 else None
    kind = data.draw(st.sampled_from(["user", "client-id"]))
    found = describe_quotas(Quotas(rows), [Component(kind, match, name)], strict=strict)
    expected = []
    for entity, of_entity in rows.items():
        names = [one for its_kind, one in entity if its_kind == kind]
        fits = bool(names) and (match == 2 or names == [name])
        if fits and (len(entity) == 1 or not strict):
            expected.append((entity, of_entity))
    assert found == expected
    assert describe_quotas(Quotas(rows), [], strict=False) == list(rows.items())
    assert describe_quotas(Quotas(rows), [], strict=True) == []
