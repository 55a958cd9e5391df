"""`lakelog keep` does for a namespace what is due, and tells what it could not do."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from lakelog.catalog import create_topic, make_namespace
from lakelog.cli import main
from lakelog.host import SystemClock, new_id
from lakelog.journal import Lane, append, new_append
from lakelog.model import Rules
from lakelog.store import open_store, run, working
from lakelog.testing import make_batch


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A namespace with ten batches of one topic, nothing of it sealed."""
    perform = working(open_store(f"file://{tmp_path}").perform)
    clock, rules = SystemClock(), Rules(lanes=1)
    run(make_namespace(new_id(), rules), perform)
    made = create_topic("t", topic_id=new_id(), partitions=2, lanes=1, now_ms=clock.now_ms())
    topic = run(made, perform)
    lane = Lane(number=0, rules=rules, clock=clock, ids=new_id, writer=new_id())
    for number in range(10):
        body = make_batch(number, 1, (-1, -1, -1), clock.now_ms())
        run(append(lane, [new_append(topic.id, number % 2, body)]), perform)
    return tmp_path


def test_a_pass_seals_what_the_journal_holds_and_a_second_one_nothing(log: Path) -> None:
    done = CliRunner().invoke(main, ["keep", str(log), "--json"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert (told["sealed"]["segments"], told["sealed"]["records"]) == (2, 10)
    assert told["failures"] == {}
    assert told["requests"]["put"] > 0
    assert len(list(log.glob("t/*/*.kfs"))) == 2
    again = CliRunner().invoke(main, ["keep", str(log)])
    assert "sealed 0 segments" in again.stdout


def test_an_idle_journal_is_emptied(log: Path) -> None:
    done = CliRunner().invoke(main, ["keep", str(log), "--idle", "--json"])
    assert json.loads(done.stdout)["trimmed"] == 10
    head = json.loads((log / "_lakelog/lanes/0000/head").read_text())
    assert (head["floor"], head["checkpoint"]) == (10, 10)


def test_what_fails_is_told_and_the_rest_is_done(log: Path) -> None:
    cell = log / "_lakelog/topics/t"
    fields = json.loads(cell.read_text())
    fields["configs"] = {"retention.ms": "soon"}
    cell.write_text(json.dumps(fields))
    done = CliRunner().invoke(main, ["keep", str(log), "--json"])
    assert done.exit_code == 1
    told = json.loads(done.stdout)
    assert told["sealed"]["segments"] == 2
    assert told["failures"]
    assert all(what.startswith("partition t-") for what in told["failures"])
    assert all("soon" in why for why in told["failures"].values())


def test_where_there_is_no_namespace_it_says_what_to_do(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["keep", str(tmp_path)])
    assert done.exit_code == 1
    assert "lakelog init" in done.output
