"""`lakelog meta`: where groups are, and how they are brought elsewhere; here in a folder."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from lakelog.cli import main
from lakelog.coordination import BucketMembership, State
from lakelog.groups import Committed, Durable, Offsets, Roster, TopicIdPartition
from lakelog.host import SystemClock, new_id
from lakelog.store import open_store, run, working
from tests.unit.cli.test_group import log, save

__all__ = ["log"]

TOPIC = b"0123456789abcdef"


def lakelog(log: Path, *words: str, code: int = 0) -> Result:
    done = CliRunner().invoke(main, ["meta", *words, "--storage", str(log)])
    assert done.exit_code == code, done.output
    return done


def commit(log: Path, offsets: dict[str, int]) -> None:
    """Store groups with one offset each, as a broker does at first."""
    save(
        log,
        *(
            Durable(
                id=name,
                roster=Roster(),
                offsets=Offsets.of({TopicIdPartition(TOPIC, 0): Committed(offset, -1, "", 5)}),
            )
            for name, offset in offsets.items()
        ),
    )


def offsets(log: Path) -> dict[str, int]:
    """Return what `lakelog group` shows."""
    names = CliRunner().invoke(main, ["group", "list", "--storage", str(log)]).output.split()
    found = {}
    for name in names[1:] if names[:1] == ["GROUP"] else names:
        done = CliRunner().invoke(
            main, ["group", "describe", name, "--json", "--storage", str(log)]
        )
        if done.exit_code == 0:
            (row,) = json.loads(done.output)["partitions"]
            found[name] = row["current_offset"]
    return found


def status(log: Path) -> dict[str, object]:
    shown: dict[str, object] = json.loads(lakelog(log, "status", "--json").stdout)
    return shown


@pytest.fixture
def groups(log: Path) -> dict[str, int]:
    made = {f"g{number}": number * 10 for number in range(12)}
    commit(log, made)
    return made


def test_it_shows_where_groups_are(log: Path, groups: dict[str, int]) -> None:
    shown = status(log)
    assert {name: shown[name] for name in ("metadata", "moves", "shards", "groups")} == {
        "metadata": "bucket",
        "moves": 0,
        "shards": 8,
        "groups": len(groups),
    }
    assert "bucket" in lakelog(log, "status").stdout


def test_groups_are_in_more_shards_and_as_they_were(log: Path, groups: dict[str, int]) -> None:
    before = offsets(log)
    assert before == groups
    told = lakelog(log, "reshard", "32")
    assert "Move 1 begins: 8 shards become 32" in told.stderr
    assert (status(log)["shards"], status(log)["moves"]) == (32, 1)
    assert offsets(log) == before
    again = lakelog(log, "reshard", "32")
    assert "already" in again.stdout
    assert status(log)["moves"] == 1


def test_a_dry_run_says_what_it_would_do_and_does_nothing(
    log: Path, groups: dict[str, int]
) -> None:
    told = lakelog(log, "reshard", "32", "--dry-run").stdout
    assert f"Would move {len(groups)} groups" in told
    assert "8 shards in bucket to 32 shards in bucket" in told
    assert "requests to the bucket ($0.0" in told
    assert status(log)["moves"] == 0


def test_a_backup_brings_groups_back_as_they_were(
    log: Path, groups: dict[str, int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("backups") / "groups.jsonl"
    assert f"{len(groups)} groups" in lakelog(log, "backup", str(file)).stdout
    commit(log, dict.fromkeys(groups, 1_000))
    refused = lakelog(log, "restore", str(file), code=1)
    assert "this namespace has its groups" in refused.stderr
    assert set(offsets(log).values()) == {1_000}
    assert (
        "Would bring back 12 groups"
        in lakelog(log, "restore", str(file), "--lost", "--dry-run").stdout
    )
    told = lakelog(log, "restore", str(file), "--lost")
    assert "what was committed later is lost" in told.stdout
    assert offsets(log) == groups
    again = lakelog(log, "restore", str(file), "--lost", code=1)
    assert "was restored already, by move 1" in again.stderr


def test_a_file_that_is_no_backup_changes_nothing(
    log: Path, groups: dict[str, int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("backups") / "groups.jsonl"
    lakelog(log, "backup", str(file))
    whole = file.read_bytes()
    for broken in (b"", b"{}\n", whole[:-20], whole + b"{}\n", b"\xff\xfe\n"):
        file.write_bytes(broken)
        told = lakelog(log, "restore", str(file), "--lost", code=1)
        assert str(file) in told.stderr
    assert (offsets(log), status(log)["moves"]) == (groups, 0)


def test_without_a_copy_there_is_nothing_to_restore(log: Path, groups: dict[str, int]) -> None:
    told = lakelog(log, "restore", "--lost", code=1)
    assert "name the file of a backup" in told.stderr
    assert offsets(log) == groups


def test_who_wants_etcd_says_where_it_is(log: Path, groups: dict[str, int]) -> None:
    told = lakelog(log, "migrate", "--to", "etcd", code=2)
    assert "give the storage option" in told.stderr
    assert offsets(log) == groups


def test_a_broker_that_does_not_know_etcd_is_named(log: Path) -> None:
    perform = working(open_store(str(log)).perform)
    membership = BucketMembership(new_id(), 3_000)
    former = run(membership.take(7, SystemClock().now_ms()), perform)
    serving = former.__class__(
        node=7, run=former.run, state=State.SERVING, listeners={"PLAINTEXT": "host7:9092"}
    )
    run(membership.announce(serving), perform)
    told = lakelog(log, "migrate", "--to", "etcd", code=2)
    assert "broker 7 at host7:9092 was started without the storage option metadata" in told.stderr


@pytest.mark.parametrize("shards", ["0", "101", "-3", "many"])
def test_a_number_of_shards_that_cannot_be_is_refused(log: Path, shards: str) -> None:
    lakelog(log, "reshard", "--", shards, code=2)
