"""`lakelog group`: consumer groups in a folder, without a broker."""

import json
import struct
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from lakelog.catalog import Topic, create_topic, make_namespace
from lakelog.cli import main
from lakelog.coordination import BucketGroups, encode_group, shard_of
from lakelog.groups import Committed, Durable, Offsets, Roster, RosterMember, TopicIdPartition
from lakelog.host import SystemClock, new_id
from lakelog.journal import Lane, append, new_append
from lakelog.model import Rules
from lakelog.store import open_store, run, working
from lakelog.testing import make_batch
from lakelog_kafka_tools.group_admin import decode_assignment

RULES = Rules(lanes=1)


def assignment(**topics: list[int]) -> bytes:
    """Encode what a leader hands out, as Kafka's consumers do."""
    body = struct.pack(">hi", 3, len(topics))
    for name, numbers in topics.items():
        body += struct.pack(f">h{len(name)}si", len(name), name.encode(), len(numbers))
        body += struct.pack(f">{len(numbers)}i", *numbers)
    return body + struct.pack(">i", -1)


def member(name: str, data: bytes) -> RosterMember:
    return RosterMember(
        id=name, instance_id=None, client_id="app", client_host="/10.0.0.1",
        session_timeout_ms=45_000, rebalance_timeout_ms=300_000, metadata=b"", assignment=data,
    )  # fmt: skip


def save(log: Path, *groups: Durable) -> None:
    """Store groups as a broker does."""
    perform = working(open_store(str(log)).perform)
    store = BucketGroups(new_id())
    first = run(store.claim(0), perform)
    for number in range(first.shards):
        here = [one for one in groups if shard_of(one.id, first.shards) == number]
        held = first if number == 0 else run(store.claim(number, first.shards), perform)
        run(store.save(held, {one.id: encode_group(one) for one in here}), perform)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    run(make_namespace(new_id(), RULES), working(open_store(str(tmp_path)).perform))
    return tmp_path


@pytest.fixture
def topic(log: Path) -> Topic:
    """A topic of three partitions, with ten records in the first."""
    perform = working(open_store(str(log)).perform)
    now_ms = SystemClock().now_ms()
    made = create_topic("t", topic_id=new_id(), partitions=3, lanes=1, now_ms=now_ms)
    topic = run(made, perform)
    lane = Lane(number=0, rules=RULES, clock=SystemClock(), ids=new_id, writer=new_id())
    put = new_append(topic.id, 0, make_batch(0, 10, (-1, -1, -1), now_ms))
    run(append(lane, [put]), perform)
    return topic


def lakelog(log: Path, *words: str, code: int = 0) -> Result:
    done = CliRunner().invoke(main, ["group", *words, "--storage", str(log)])
    assert done.exit_code == code, done.output
    return done


def busy(topic: Topic) -> Durable:
    """A group with two readers, one without work, and two offsets."""
    return Durable(
        id="busy",
        roster=Roster(
            generation=7, protocol_type="consumer", protocol="range", leader="c-1", is_decided=True,
            members=(
                member("c-1", assignment(t=[0, 1])),
                member("c-2", assignment(t=[2])),
                member("c-3", b""),
            ),
        ),
        offsets=Offsets.of({
            TopicIdPartition(topic.id, 0): Committed(4, 0, "", 0),
            TopicIdPartition(bytes(15) + b"\x07", 1): Committed(9, 0, "", 0),
        }),
    )  # fmt: skip


def empty(name: str) -> Durable:
    return Durable(id=name, roster=Roster(), offsets=Offsets())


def test_where_nobody_ever_joined_there_is_no_group(log: Path) -> None:
    assert lakelog(log, "list").stdout == "GROUP\tSTATE\tPROTOCOL\t#MEMBERS\t#OFFSETS\n"
    assert "lakelog group list" in lakelog(log, "describe", "g", code=1).output


def test_groups_of_all_shards_are_listed(log: Path, topic: Topic) -> None:
    save(log, busy(topic), *(empty(f"g{number}") for number in range(20)))
    lines = lakelog(log, "list").stdout.splitlines()
    assert lines[1] == "busy\tStable\trange\t3\t2"
    assert "g7\tEmpty\t-\t0\t0" in lines
    assert len(lines) == 22
    told = json.loads(lakelog(log, "list", "--json").stdout.splitlines()[0])
    assert (told["group"], told["generation"], told["members"]) == ("busy", 7, 3)


def test_a_group_is_described_as_kafkas_tool_does(log: Path, topic: Topic) -> None:
    save(log, busy(topic))
    done = lakelog(log, "describe", "busy")
    gone = (bytes(15) + b"\x07").hex()
    names = "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID"
    assert done.stdout.splitlines() == [
        names.replace(" ", "\t"),
        f"busy\t{gone}\t1\t9\t-\t-\t-\t-\t-",
        "busy\tt\t0\t4\t10\t6\tc-1\t/10.0.0.1\tapp",
        "busy\tt\t1\t-\t0\t-\tc-1\t/10.0.0.1\tapp",
        "busy\tt\t2\t-\t0\t-\tc-2\t/10.0.0.1\tapp",
        "busy\t-\t-\t-\t-\t-\tc-3\t/10.0.0.1\tapp",
    ]
    assert done.stderr == ""
    told = json.loads(lakelog(log, "describe", "busy", "--json").stdout)
    assert told["partitions"][1]["lag"] == 6


def test_that_nobody_is_there_is_said_on_stderr(log: Path) -> None:
    save(log, empty("g"))
    assert "'g' has no active members" in lakelog(log, "describe", "g").stderr


# ---------------------------------------------------------------------------- assignments


def test_an_assignment_is_read_as_consumers_write_it() -> None:
    assert decode_assignment(assignment(a=[0, 2], b=[], c=[1])) == [("a", 0), ("a", 2), ("c", 1)]


def test_every_proper_prefix_that_ends_within_a_topic_is_none() -> None:
    whole = assignment(a=[0, 2])[:-4]
    for end in range(len(whole)):
        assert decode_assignment(whole[:end]) == []


@given(st.binary(max_size=200))
def test_any_bytes_are_an_assignment_or_none(data: bytes) -> None:
    for name, number in decode_assignment(data):
        assert len(name) <= len(data)
        assert number >= 0


def test_a_count_that_is_too_large_is_not_believed() -> None:
    for count in (2**31 - 1, -1):
        assert decode_assignment(struct.pack(">hih1si", 0, 1, 1, b"a", count)) == []
