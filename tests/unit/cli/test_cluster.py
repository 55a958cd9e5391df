"""`lakelog cluster`: what brokers have stored of themselves in a folder; none of them runs."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from lakelog.catalog import create_topic, make_namespace
from lakelog.cli import main
from lakelog.coordination import BucketGroups, BucketMembership, Member, State, owners_of
from lakelog.host import SystemClock, new_id
from lakelog.model import Rules
from lakelog.names import beat_key, member_key, topic_key
from lakelog.store import Work, open_store, run, working

LANES = 4
SHARDS = 8


class Folder:
    """A namespace, and brokers that say what they do, and do nothing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._perform = working(open_store(str(path)).perform)
        self.do(make_namespace(new_id(), Rules(lanes=LANES)))

    def do(self, flow: Work[Any]) -> Any:
        return run(flow, self._perform)

    def broker(self, node: int, *, leads: dict[int, int] | None = None, **fields: Any) -> Member:
        """Let a broker say that it serves, and leads lanes by these epochs."""
        membership = BucketMembership(new_id(), 3_000)
        former: Member = self.do(membership.take(node, SystemClock().now_ms()))
        told = replace(
            former,
            state=fields.pop("state", State.SERVING),
            listeners={"PLAINTEXT": f"host{node}:9092"},
            version="0.2.0",
            epochs=leads or {},
            **fields,
        )
        self.do(membership.announce(told))
        return told

    def claim(self, member: Member, *shards: int) -> None:
        store = BucketGroups(member.run)
        for shard in shards:
            self.do(store.claim(shard, SHARDS))

    def age(self, node: int, seconds: int) -> None:
        """Let the last beat of a broker be so old."""
        path = self.path / beat_key(node)
        then_ns = path.stat().st_mtime_ns - seconds * 1_000_000_000
        os.utime(path, ns=(then_ns, then_ns))

    def settle(self, *nodes: int) -> None:
        """Give brokers all that they should have."""
        lanes, shards = (
            owners_of(nodes, count, kind) for count, kind in ((LANES, "lane"), (SHARDS, "shard"))
        )
        for node in nodes:
            leads = {lane: 3 + lane for lane, owner in lanes.items() if owner == node}
            member = self.broker(node, leads=leads)
            self.claim(member, *(shard for shard, owner in shards.items() if owner == node))


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def lakelog(folder: Folder, *words: str, code: int = 0) -> Result:
    done = CliRunner().invoke(main, ["cluster", *words, "--storage", str(folder.path)])
    assert done.exit_code == code, done.output
    return done


def rows(folder: Folder, *words: str, code: int = 0) -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for line in lakelog(folder, *words, "--json", code=code).stdout.splitlines()
    ]


def test_brokers_are_shown_with_what_they_lead_and_hold(folder: Folder) -> None:
    one = folder.broker(1, leads={0: 5, 2: 7}, rack="a")
    folder.broker(2, leads={1: 4})
    folder.claim(one, 0, 3)
    head, *lines = lakelog(folder, "brokers").stdout.splitlines()
    assert head.split("\t") == [
        "NODE", "STATE", "ADDRESSES", "RACK", "VERSION", "LANES", "SHARDS", "BEAT-AGE-S",
    ]  # fmt: skip
    assert [line.rsplit("\t", 1)[0].split("\t") for line in lines] == [
        ["1", "serving", "PLAINTEXT://host1:9092", "a", "0.2.0", "2", "2"],
        ["2", "serving", "PLAINTEXT://host2:9092", "-", "0.2.0", "1", "0"],
    ]
    (first, _) = rows(folder, "brokers")
    assert 0 <= first.pop("beat_age_ms") < 60_000
    assert first == {
        "node": 1, "state": "serving", "addresses": {"PLAINTEXT": "host1:9092"}, "rack": "a",
        "version": "0.2.0", "run": one.run.hex(), "lanes": 2, "shards": 2,
    }  # fmt: skip


def test_one_that_does_not_beat_is_silent_and_leads_nothing(folder: Folder) -> None:
    folder.broker(1, leads={0: 5})
    folder.age(1, 13)
    (row,) = rows(folder, "brokers")
    assert row["state"] == "silent"
    assert row["lanes"] == 0
    assert 13_000 <= row["beat_age_ms"] < 60_000
    (patient,) = rows(folder, "brokers", "--heartbeat-ms", "10000")
    assert patient["state"] == "serving"
    assert patient["lanes"] == 1


def test_one_that_left_is_shown_and_gets_nothing(folder: Folder) -> None:
    folder.broker(1, state=State.LEFT)
    folder.broker(2)
    assert [row["state"] for row in rows(folder, "brokers")] == ["left", "serving"]
    assert {row["should"] for row in rows(folder, "lanes")} == {2}


def test_lanes_are_shown_with_who_should_lead_them_and_their_partitions(folder: Folder) -> None:
    flow = create_topic("t", topic_id=bytes(16), partitions=6, lanes=LANES, now_ms=1)
    topic = folder.do(flow)
    folder.broker(1, leads={0: 5, 1: 6})
    folder.broker(2, leads={1: 7})
    should = owners_of((1, 2), LANES, "lane")
    partitions = [sum(topic.lane(at) == lane for at in range(6)) for lane in range(LANES)]
    assert rows(folder, "lanes") == [
        {"lane": lane, "leader": leader, "epoch": epoch, "should": should[lane],
         "partitions": partitions[lane]}
        for lane, (leader, epoch) in enumerate([(1, 5), (2, 7), (None, None), (None, None)])
    ]  # fmt: skip
    lines = lakelog(folder, "lanes").stdout.splitlines()
    assert lines[0] == "LANE\tLEADER\tEPOCH\tSHOULD\tPARTITIONS"
    assert lines[3] == f"2\t-\t-\t{should[2]}\t{partitions[2]}"


def test_nobody_leads_a_lane_whose_last_leader_is_silent(folder: Folder) -> None:
    """Clients are not told a lower epoch than they have seen: neither is anybody else."""
    folder.broker(1, leads={0: 9})
    folder.broker(2, leads={0: 5})
    folder.age(1, 60)
    assert rows(folder, "lanes")[0]["leader"] is None


def test_shards_are_shown_with_who_holds_them_and_who_should(folder: Folder) -> None:
    one = folder.broker(1)
    stranger = Member(node=7, run=new_id())
    folder.claim(one, 0, 1)
    folder.claim(stranger, 2)
    held = folder.do(BucketGroups(one.run).claim(1, SHARDS))
    folder.do(BucketGroups(one.run).release(held))
    found = rows(folder, "shards")
    assert [row["holder"] for row in found[:4]] == [1, None, None, None]
    assert [row["run"] for row in found[:4]] == [one.run.hex(), None, stranger.run.hex(), None]
    assert {row["should"] for row in found} == {1}
    lines = lakelog(folder, "shards").stdout.splitlines()
    assert lines[0] == "SHARD\tHOLDER\tEPOCH\tSHOULD\tGROUPS"
    assert lines[1:5] == [
        "0\t1\t1\t1\t0",
        "1\t-\t1\t1\t0",
        "2\tno member\t1\t1\t0",
        "3\t-\t-\t1\t0",
    ]


def test_where_everything_is_right_nothing_is_to_be_moved(folder: Folder) -> None:
    folder.settle(1, 2, 3)
    done = lakelog(folder, "moves")
    assert done.stdout == "WHAT\tNUMBER\tNOW\tSHOULD\tWHY\n"
    assert done.stderr == "Everything is where it should be.\n"
    lakelog(folder, "moves", "--brokers", "3")
    few = lakelog(folder, "moves", "--brokers", "4", code=1)
    assert few.stderr.startswith("3 brokers serve: lakelog serve --storage")


def test_what_is_to_be_moved_is_shown_with_the_reason(folder: Folder) -> None:
    folder.settle(1, 2)
    folder.broker(3, state=State.DRAINING, leads={0: 50})
    moves = rows(folder, "moves", code=1)
    assert moves == [
        {"what": "lane", "number": 0, "now": 3, "should": owners_of((1, 2), LANES, "lane")[0],
         "why": "broker 3 is draining"},
    ]  # fmt: skip
    assert "1 lane, 0 shards" in lakelog(folder, "moves", code=1).stderr
    folder.broker(3, leads={})
    whys = {move["why"] for move in rows(folder, "moves", code=1)}
    assert "nobody has it" in whys  # The epoch of 50 is remembered.
    assert any(why.endswith("has not given it up yet") for why in whys)
    folder.age(1, 60)
    whys = {move["why"] for move in rows(folder, "moves", code=1)}
    assert "broker 1 is silent" in whys


def test_where_nobody_is_there_it_says_what_to_do(folder: Folder) -> None:
    assert "lakelog serve --storage" in lakelog(folder, "brokers").stderr
    assert len(rows(folder, "lanes")) == LANES
    assert "lakelog serve --storage" in lakelog(folder, "moves", code=1).stderr


@pytest.mark.parametrize("verb", ["brokers", "lanes", "shards", "moves"])
def test_a_broker_that_cannot_be_read_hides_nobody_else(folder: Folder, verb: str) -> None:
    folder.settle(1)
    folder.broker(2)
    (folder.path / member_key(2)).write_text('{"format":99,"node":2}')
    done = lakelog(folder, verb, code=1)
    assert "Broker 2 cannot be read" in done.stderr
    assert "lakelog --version" in done.stderr
    assert done.stdout.count("\n") == {"brokers": 2, "lanes": 5, "shards": 9, "moves": 1}[verb]


def test_a_topic_that_cannot_be_read_is_told(folder: Folder) -> None:
    folder.broker(1)
    (folder.path / topic_key("t")).parent.mkdir(parents=True)
    (folder.path / topic_key("t")).write_text("no topic")
    assert "Topic t cannot be read" in lakelog(folder, "lanes", code=1).stderr


def test_where_there_is_no_namespace_it_says_what_to_do(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["cluster", "brokers", "--storage", str(tmp_path)])
    assert done.exit_code == 1
    assert "lakelog init" in done.output


def test_lanes_are_added(folder: Folder) -> None:
    folder.settle(1, 2)
    done = lakelog(folder, "lanes", "6", "--json")
    assert "There were 4 lanes, and now there are 6." in done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["lane"] for row in rows] == list(range(6))
    assert {row["leader"] for row in rows[4:]} == {None}, "their brokers have not looked yet"
    assert {row["should"] for row in rows} == {1, 2}
    fewer = lakelog(folder, "lanes", "5", code=2)
    assert "use a higher number" in " ".join(fewer.stderr.split())
