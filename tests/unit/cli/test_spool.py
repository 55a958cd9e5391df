"""`lakelog spool`: what is typed, what is printed, and how it ends."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from lakelog.cli import main
from tests.rustlog_files import raw_records


def call(*args: object, given: bytes = b"") -> Result:
    return CliRunner().invoke(main, ["spool", *map(str, args)], input=given)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "spool"
    done = call("append", made, "t", "--key-separator", ":", given=b"k:a\nno key\nlast")
    assert done.exit_code == 0
    assert "Appended 3 records." in done.stderr
    return made


def rows(done: Result) -> list[dict[str, Any]]:
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_lines_become_records_and_are_printed(folder: Path) -> None:
    assert call("cat", folder, "t").stdout == "a\nno key\nlast\n"
    assert call("tail", folder, "t", "-n", 1).stdout == "last\n"
    found = rows(call("cat", folder, "t", "--json", "--offset", 0, "--limit", 2))
    assert [(one["offset"], one["key"], one["value"]) for one in found] == [
        (0, "k", "a"),
        (1, None, "no key"),
    ]


def test_what_is_no_text_is_printed_as_base64(tmp_path: Path) -> None:
    call("append", tmp_path / "s", "t", given=b"\xff\xfe\n")
    (found,) = rows(call("cat", tmp_path / "s", "t", "--json"))
    assert found["value_base64"] == "//4="


def test_stats_and_a_copy_up_to_an_offset(folder: Path, tmp_path: Path) -> None:
    (found,) = rows(call("stats", folder, "--json"))
    assert (found["start"], found["end"], found["segments"], found["shipped"]) == (0, 3, 1, 0)
    assert call("copy", folder, tmp_path / "copy", "--until", "t:0:2").exit_code == 0
    assert call("cat", tmp_path / "copy", "t").stdout == "a\nno key\n"
    wrong = call("copy", folder, tmp_path / "other", "--until", "t:2")
    assert wrong.exit_code == 2
    assert "TOPIC:PARTITION:OFFSET" in wrong.stderr


def test_verify_ends_by_what_it_found(folder: Path, tmp_path: Path) -> None:
    assert call("verify", folder).exit_code == 0
    log = folder / "topics/t/partitions/0/00000000000000000000.log"
    log.write_bytes(log.read_bytes() + b"x")
    torn = call("verify", folder)
    assert torn.exit_code == 1
    assert "a torn end" in torn.stdout
    raw_records(tmp_path / "raw")
    assert call("append", tmp_path / "raw", "t", given=b"mine\n").exit_code == 0
    unverifiable = call("verify", tmp_path / "raw")
    assert unverifiable.exit_code == 5
    assert "2 records of other writers" in unverifiable.stderr


def test_it_is_shipped_and_then_kept(folder: Path, tmp_path: Path) -> None:
    to = f"file://{tmp_path}/namespace"
    runner = CliRunner()
    assert runner.invoke(main, ["init", to]).exit_code == 0
    assert runner.invoke(main, ["topic", "create", "t", "--storage", to]).exit_code == 0
    (done,) = rows(call("ship", folder, "--to", to, "--json"))
    assert (done["start"], done["end"], done["was_there"]) == (0, 3, False)
    assert call("ship", folder, "--to", to).stdout == ""
    kept = call("keep", folder, "--retention-ms", 0, "--compact")
    assert "Deleted 0 segments" in kept.stdout


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    for args in (["cat", tmp_path / "no", "t"], ["stats", tmp_path / "no"]):
        done = call(*args)
        assert done.exit_code == 1
        assert "there is no such folder" in done.stderr
    done = call("ship", tmp_path, "--to", f"file://{tmp_path}/n")
    assert done.exit_code == 1
    assert "there is no spool here" in done.stderr
    assert call("append", tmp_path / "s", "t", "--sync", "now and then").exit_code == 2
