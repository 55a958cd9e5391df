"""`lakelog topic`: topics in a folder, without a broker."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from lakelog.catalog import make_namespace, read_topic
from lakelog.cli import main
from lakelog.cli.tables import plain
from lakelog.host import SystemClock, new_id
from lakelog.journal import Lane, Refused, append, learn, new_append
from lakelog.maintenance import SealSettings, maintain
from lakelog.model import Rules
from lakelog.store import open_store, run, working
from lakelog.testing import make_batch

RULES = Rules(lanes=2)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    run(make_namespace(new_id(), RULES), working(open_store(str(tmp_path)).perform))
    return tmp_path


def lakelog(log: Path, *words: str, code: int = 0) -> Result:
    done = CliRunner().invoke(main, ["topic", *words, "--storage", str(log)])
    assert done.exit_code == code, done.output
    return done


def lane(number: int) -> Lane:
    return Lane(number=number, rules=RULES, clock=SystemClock(), ids=new_id, writer=new_id())


def test_a_topic_is_created_listed_and_described(log: Path) -> None:
    done = lakelog(log, "create", "orders", "--partitions", "3", "--config", "retention.ms=5")
    assert done.stdout == "Created topic orders.\n"
    lakelog(log, "create", "a")
    assert lakelog(log, "list").stdout == (
        "TOPIC\tPARTITIONS\tCONFIGS\na\t1\t\norders\t3\tretention.ms=5\n"
    )
    told = [json.loads(line) for line in lakelog(log, "list", "--json").stdout.splitlines()]
    assert [one["topic"] for one in told] == ["a", "orders"]
    assert told[1]["configs"] == {"retention.ms": "5"}
    first, *rows = lakelog(log, "describe", "orders").stdout.splitlines()
    assert first.startswith("Topic: orders\tTopicId: ")
    assert "\tPartitionCount: 3\tReplicationFactor: 1\tConfigs: retention.ms=5" in first
    assert [row.split("\t")[:2] for row in rows[1:]] == [["orders", str(n)] for n in range(3)]


def test_what_was_appended_and_sealed_is_described(log: Path) -> None:
    lakelog(log, "create", "t")
    perform = working(open_store(str(log)).perform)
    topic = run(read_topic("t"), perform)
    writer, now_ms = lane(topic.lane(0)), SystemClock().now_ms()
    put = new_append(topic.id, 0, make_batch(0, 4, (-1, -1, -1), now_ms))
    run(append(writer, [put]), perform)
    run(maintain({writer.number: writer}, SealSettings()), perform)
    put = new_append(topic.id, 0, make_batch(4, 3, (-1, -1, -1), now_ms))
    run(append(writer, [put]), perform)
    told = json.loads(lakelog(log, "describe", "t", "--json").stdout)
    (row,) = told["partitions"]
    sealed = row.pop("sealed_bytes")
    assert row == {
        "partition": 0, "lane": topic.lane(0), "log_start": 0, "log_end": 7, "sealed_end": 4,
    }  # fmt: skip
    assert sealed == sum(one.stat().st_size for one in log.glob("t/0/*.kfs"))


def test_deleting_tells_the_cell_and_then_the_lanes(log: Path) -> None:
    lakelog(log, "create", "t", "--partitions", "2")
    perform = working(open_store(str(log)).perform)
    topic = run(read_topic("t"), perform)
    body = make_batch(0, 1, (-1, -1, -1), SystemClock().now_ms())
    assert lakelog(log, "delete", "t", "--yes").stdout == "Deleted topic t.\n"
    assert run(read_topic("t"), perform).deleted
    for number in (0, 1):
        later = lane(topic.lane(number))
        run(learn(later), perform)
        (outcome,) = run(append(later, [new_append(topic.id, number, body)]), perform)
        assert isinstance(outcome, Refused)
    assert lakelog(log, "list").stdout == "TOPIC\tPARTITIONS\tCONFIGS\n"
    assert "was deleted" in lakelog(log, "describe", "t", code=1).output
    lakelog(log, "create", "t")
    assert run(read_topic("t"), perform).incarnation == 1


def test_nobody_deletes_by_accident(log: Path) -> None:
    lakelog(log, "create", "t")
    assert "--yes" in lakelog(log, "delete", "t", code=2).output
    assert lakelog(log, "list").stdout.splitlines()[1].startswith("t\t")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("create", "a/b"), 2, "no name of a topic"),
        (("create", "a", "--partitions", "0"), 2, "use 1 to"),
        (("create", "a", "--config", "no.such=1"), 2, "no.such"),
        (("create", "a", "--config", "retention.ms=soon"), 2, "soon"),
        (("create", "a", "--config", "retention.ms"), 2, "NAME=VALUE"),
        (("create", "there"), 1, "already"),
        (("describe", "missing"), 1, "there is no topic"),
        (("delete", "missing", "--yes"), 1, "there is no topic"),
    ],
)
def test_what_cannot_be_is_said(log: Path, words: tuple[str, ...], code: int, said: str) -> None:
    lakelog(log, "create", "there")
    assert said in lakelog(log, *words, code=code).output


def test_one_that_is_there_is_as_good_if_that_was_said(log: Path) -> None:
    lakelog(log, "create", "t")
    assert "already" in lakelog(log, "create", "t", "--if-not-exists").stdout


def test_where_there_is_no_namespace_it_says_what_to_do(tmp_path: Path) -> None:
    assert "lakelog init" in lakelog(tmp_path, "list", code=1).output


def test_names_that_clients_chose_cannot_write_on_a_terminal() -> None:
    assert plain("a\x1b[2Jb\tc\n") == "a\\x1b[2Jb\\tc\\n"
    assert plain("é") == "é"
    assert len(plain("x" * 10_000)) == 257
