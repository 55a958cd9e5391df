"""Topics are cells: made once, deleted for good, and made anew as another."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.catalog import (
    Topic,
    create_topic,
    delete_topic,
    forget_retired,
    grow_topic,
    list_topics,
    open_topic,
    read_topic,
)
from lakelog.catalog.topic_cells import decode_topic
from lakelog.errors import (
    ConflictError,
    CorruptError,
    InvalidInputError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
)
from lakelog.names import topic_key
from lakelog.store import Op, PutIfAbsent, PutIfMatch, Work
from tests.unit.log.site import Site, first, lose_answer

A, B, C = (bytes(15) + bytes((number,)) for number in (1, 2, 3))


@pytest.fixture
def site() -> Site:
    site = Site()
    for _ in range(100):
        site.id()
    return site


def create(
    site: Site, topic_id: bytes, name: str = "orders", partitions: int = 3, *, closed: bool = False
) -> Work[Topic]:
    return create_topic(
        name, topic_id=topic_id, partitions=partitions, lanes=4, now_ms=site.now_ms,
        configs={"retention.ms": "5"}, closed=closed,
    )  # fmt: skip


def delete(site: Site, topic_id: bytes, name: str = "orders") -> Topic:
    return site.run(delete_topic(name, topic_id, site.id(), now_ms=site.now_ms))


def test_what_is_made_is_what_is_read(site: Site) -> None:
    made = site.run(create(site, A))
    assert site.run(read_topic("orders")) == made
    assert (made.id, made.incarnation, made.partitions, made.lanes) == (A, 0, 3, 4)
    assert made.configs == {"retention.ms": "5"}
    assert made.path == "orders"
    assert not made.deleted


def test_a_name_is_given_once(site: Site) -> None:
    site.run(create(site, A))
    with pytest.raises(ConflictError, match="already"):
        site.run(create(site, B))
    assert site.run(read_topic("orders")).id == A


def test_a_topic_made_anew_is_another_with_a_path_of_its_own(site: Site) -> None:
    site.run(create(site, A))
    site.pass_ms(10)
    delete(site, A)
    made = site.run(create(site, B, partitions=5))
    assert (made.id, made.incarnation, made.path, made.deleted) == (B, 1, "orders~1", False)
    old = list(made.incarnations())[1]
    assert (old.id, old.path, old.partitions, old.deleted) == (A, "orders", 3, True)
    assert old.deleted_ms == site.now_ms
    delete(site, B)
    third = site.run(create(site, C))
    assert third.path == "orders~2"
    assert [one.id for one in third.incarnations()] == [C, A, B]


def test_a_deleted_topic_is_still_remembered(site: Site) -> None:
    site.run(create(site, A))
    assert delete(site, A).deleted
    assert site.run(read_topic("orders")).deleted
    assert [topic.id for topic in site.run(list_topics())] == [A]


def test_deleting_twice_is_deleting_once(site: Site) -> None:
    site.run(create(site, A))
    once = delete(site, A)
    site.pass_ms(10)
    assert delete(site, A) == once


def test_a_late_deletion_does_not_touch_the_next_topic_of_that_name(site: Site) -> None:
    site.run(create(site, A))
    delete(site, A)
    made = site.run(create(site, B))
    with pytest.raises(NotFoundError):
        delete(site, A)
    assert site.run(read_topic("orders")) == made


def test_what_never_was_cannot_be_deleted_or_read(site: Site) -> None:
    with pytest.raises(NotFoundError, match="check the name"):
        delete(site, A)
    with pytest.raises(NotFoundError, match="check the name"):
        site.run(read_topic("orders"))
    assert topic_key("orders") not in site.objects()


@pytest.mark.parametrize("kind", [PutIfAbsent, PutIfMatch], ids=["new", "anew"])
def test_a_creator_whose_answer_was_lost_knows_its_own(site: Site, kind: type) -> None:
    if kind is PutIfMatch:
        site.run(create(site, A))
        delete(site, A)
    made = site.run(create(site, B), lose_answer(site, kind, topic_key("orders")))
    assert made.id == B
    assert site.run(read_topic("orders")) == made
    assert made.incarnation == (kind is PutIfMatch)


def test_a_creator_whose_answer_was_lost_knows_its_own_behind_later_changes(site: Site) -> None:
    """Its topic was there, if only for a while: it must not become another incarnation."""
    lose = lose_answer(site, PutIfAbsent, topic_key("orders"))

    def perform(op: Op) -> Any:
        try:
            return lose(op)
        except UnavailableError:
            delete(site, A)
            raise

    made = site.run(create(site, A), perform)
    now = site.run(read_topic("orders"))
    assert made.id == now.id == A
    assert (now.incarnation, now.deleted) == (0, True)


def test_a_deleter_whose_answer_was_lost_deletes_once(site: Site) -> None:
    site.run(create(site, A))
    flow = delete_topic("orders", A, site.id(), now_ms=site.now_ms)
    gone = site.run(flow, lose_answer(site, PutIfMatch, topic_key("orders")))
    assert gone.deleted
    assert site.run(read_topic("orders")) == gone


@pytest.mark.parametrize("again", [False, True], ids=["new", "anew"])
def test_of_two_creators_one_wins(site: Site, again: bool) -> None:
    if again:
        site.run(create(site, C))
        delete(site, C)
    kind = PutIfMatch if again else PutIfAbsent

    def other() -> None:
        site.run(create(site, B))

    with pytest.raises(ConflictError):
        site.run(create(site, A), first(site, kind, topic_key("orders"), other))
    now = site.run(read_topic("orders"))
    assert (now.id, now.incarnation) == (B, int(again))


def test_what_is_forgotten_is_gone_and_the_name_still_counts_on(site: Site) -> None:
    for made in (A, B):
        site.run(create(site, made))
        delete(site, made)
    site.run(create(site, C))
    now = site.run(forget_retired("orders", A, site.id()))
    assert [one.id for one in now.incarnations()] == [C, B]
    assert site.run(forget_retired("orders", A, site.id())) == now
    site.run(forget_retired("orders", B, site.id()))
    delete(site, C)
    assert site.run(create(site, A)).path == "orders~3"


def test_the_topic_that_is_there_cannot_be_forgotten(site: Site) -> None:
    made = site.run(create(site, A))
    assert site.run(forget_retired("orders", A, site.id())) == made


def test_every_topic_is_listed_also_beyond_one_page_of_keys(site: Site) -> None:
    names = [f"t{number:04}" for number in range(1003)]
    for number, name in enumerate(names):
        site.run(create(site, number.to_bytes(16, "big"), name))
    assert [topic.name for topic in site.run(list_topics())] == names


@pytest.mark.parametrize("name", ["", ".", "..", "_lakelog", "a/b", "a b", "ä", "a~1", "x" * 250])
def test_some_names_are_refused(site: Site, name: str) -> None:
    before = site.objects()
    with pytest.raises(InvalidInputError):
        site.run(create(site, A, name))
    with pytest.raises(InvalidInputError):
        site.run(read_topic(name))
    assert site.objects() == before


@pytest.mark.parametrize(
    ("partitions", "lanes", "topic_id"),
    [(0, 4, A), (-1, 4, A), (100_001, 4, A), (1, 0, A), (1, 1025, A), (1, 4, b""), (1, 4, A + A)],
)
def test_what_nobody_could_read_is_not_made(
    site: Site, partitions: int, lanes: int, topic_id: bytes
) -> None:
    """A cell that cannot be read would take its name, and the list of topics, for ever."""
    flow = create_topic("x", topic_id=topic_id, partitions=partitions, lanes=lanes, now_ms=0)
    with pytest.raises(InvalidInputError, match="use"):
        site.run(flow)
    assert site.run(list_topics()) == []


def test_neighbouring_partitions_are_in_neighbouring_lanes(site: Site) -> None:
    made = site.run(create(site, A, partitions=4))
    lanes = [made.lane(partition) for partition in range(4)]
    assert sorted(lanes) == [0, 1, 2, 3] == made.lanes_used()
    one = site.run(create(site, B, "one", partitions=1))
    assert one.lanes_used() == [one.lane(0)]


# ---------------------------------------------------------------------------- closed


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=5))
def test_a_partition_stays_in_its_lane_however_lanes_and_partitions_grow(
    steps: list[tuple[int, int]],
) -> None:
    site, partitions, lanes = Site(), 3, 4
    topic = site.run(create(site, A))
    for more_partitions, more_lanes in steps:
        partitions, lanes = partitions + more_partitions, lanes + more_lanes - 1
        before = topic.lanes_of_all()
        topic = site.run(grow_topic("orders", A, site.id(), partitions, lanes))
        assert topic == site.run(read_topic("orders"))
        found = topic.lanes_of_all()
        assert found[: len(before)] == before
        assert found == [topic.lane(at) for at in range(partitions)]
        assert topic.lanes == lanes > max(found)
        new = found[len(before) :]
        assert len(set(new)) == min(len(new), lanes), "all lanes are used, each as often"
    delete(site, A)
    again = site.run(create(site, B))
    assert again.lanes_before == ()
    _, old = again.incarnations()
    assert old.lanes_of_all() == topic.lanes_of_all(), "its rows are removed where they are"
    assert site.run(read_topic("orders")) == again


def test_a_topic_of_a_namespace_that_never_grew_is_what_it_was(site: Site) -> None:
    """Version 0.1.0 reads it: it refuses fields that it does not know."""
    site.run(create(site, A))
    site.run(grow_topic("orders", A, site.id(), 7, 4))
    assert "lanes_before" not in json.loads(site.objects()[topic_key("orders")])


def test_a_closed_topic_has_its_name_and_is_opened_once(site: Site) -> None:
    made = site.run(create(site, A, closed=True))
    assert (made.closed, made.is_open) == (True, False)
    with pytest.raises(ConflictError):
        site.run(create(site, B))
    opened = site.run(open_topic("orders", A, B))
    assert opened.is_open
    again = site.run(open_topic("orders", A, A))
    assert again == opened


def test_a_topic_that_is_gone_is_not_opened(site: Site) -> None:
    site.run(create(site, A, closed=True))
    site.run(delete_topic("orders", A, B, now_ms=site.now_ms))
    with pytest.raises(NotFoundError):
        site.run(open_topic("orders", A, B))
    site.run(create(site, B))
    with pytest.raises(NotFoundError):
        site.run(open_topic("orders", A, A))


# ---------------------------------------------------------------------------- bytes

GOOD = {
    "format": 1, "name": "orders", "id": A.hex(), "incarnation": 0, "partitions": 3, "lanes": 4,
    "configs": {}, "created_ms": 5, "deleted": False, "deleted_ms": 0,
    "retired": [[B.hex(), 0, 3, 4, 7]], "writers": [],
}  # fmt: skip


def test_the_good_one_is_read() -> None:
    assert decode_topic(json.dumps(GOOD).encode(), "orders").partitions == 3


WRONG: list[dict[str, Any]] = [
    {"name": "other"}, {"id": "zz"}, {"id": "00"}, {"id": None}, {"lanes": 0}, {"lanes": 9999},
    {"partitions": 0}, {"partitions": "3"}, {"partitions": 2.5}, {"partitions": 10**9},
    {"partitions": float("inf")}, {"lanes": float("nan")}, {"configs": []}, {"configs": None},
    {"retired": [7]}, {"retired": [[1]]}, {"retired": [[B.hex(), 0, 3, 4]]},
    {"retired": [["zz", 0, 3, 4, 7]]}, {"writers": 7}, {"created_ms": None},
    {"created_ms": float("inf")},
]  # fmt: skip
NOISE = [b"", b"{", b"[]", b"7", b"\xff", b"[" * 100_000]


@pytest.mark.parametrize(
    "body",
    [
        *NOISE,
        *(json.dumps({**GOOD, **wrong}).encode() for wrong in WRONG),
        *(json.dumps({k: v for k, v in GOOD.items() if k != name}).encode() for name in GOOD),
    ],
)
def test_what_is_no_topic_is_refused(body: bytes) -> None:
    with pytest.raises(CorruptError, match="orders"):
        decode_topic(body, "orders")


def test_a_topic_of_a_later_version_asks_for_a_newer_reader() -> None:
    with pytest.raises(UnsupportedError, match="newer"):
        decode_topic(json.dumps({**GOOD, "format": 2}).encode(), "orders")
