"""`lakelog init` makes a namespace once, and only where a store can carry one."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from lakelog.catalog import open_namespace
from lakelog.cli import main
from lakelog.store import open_store, run, working


def test_a_namespace_is_made_once(tmp_path: Path) -> None:
    url = f"file://{tmp_path}"
    done = CliRunner().invoke(main, ["init", url, "--lanes", "3", "--grace-ms", "60000"])
    assert done.exit_code == 0, done.output
    namespace = run(open_namespace(), working(open_store(url).perform))
    assert namespace.id.hex() in done.output
    assert (namespace.rules.lanes, namespace.rules.grace_ms) == (3, 60_000)
    again = CliRunner().invoke(main, ["init", url])
    assert again.exit_code == 1
    assert "already" in again.output
    assert json.loads((tmp_path / "_lakelog/cluster.json").read_text())["lanes"] == 3


def test_a_network_file_system_is_refused_unless_one_machine_uses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"file://{tmp_path}"
    monkeypatch.setattr("lakelog.cli.storage.file_system_of", lambda _: "nfs4")
    refused = CliRunner().invoke(main, ["init", url])
    assert refused.exit_code == 1
    assert "nfs4" in refused.stderr
    assert "one_machine=true" in refused.stderr
    assert not (tmp_path / "_lakelog/cluster.json").exists()
    made = CliRunner().invoke(main, ["init", url, "--store-option", "one_machine=true"])
    assert made.exit_code == 0, made.output
    assert (tmp_path / "_lakelog/cluster.json").exists()


def test_numbers_that_cannot_be_are_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["init", f"file://{tmp_path}", "--lanes", "2000"])
    assert done.exit_code == 2
    assert list(tmp_path.iterdir()) == []
