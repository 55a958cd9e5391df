"""`lakelog doctor store`: a row for each check, one sentence, and an exit code that agrees."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakelog.cli import storage
from lakelog.errors import InvalidInputError, UnavailableError
from lakelog.store import Delete, Expiry, ExpiryRule, ListPage, MemoryStore, Op, open_store
from tests.unit.cli.making import run

SMALL = ["--writers", "3", "--keys", "2"]
CHECKS = ["create", "replace", "taken", "stale", "read", "delete", "expiry", "machine"]


def test_a_good_store_is_told_by_a_table_and_a_sentence() -> None:
    done = run("doctor", "store", "memory:", *SMALL)
    assert done.exit_code == 0
    words = [line.split()[0] for line in done.stdout.splitlines() if line.strip()]
    assert [word for word in words if word in CHECKS] == CHECKS
    assert done.stdout.splitlines()[-1] == "memory: can carry a log."


def test_the_same_as_json(tmp_path: Path) -> None:
    done = run("doctor", "store", tmp_path / "root", *SMALL, "--json")
    told = json.loads(done.stdout)
    assert (done.exit_code, told["good"]) == (0, True)
    assert [one["check"] for one in told["checks"]] == CHECKS
    assert {one["verdict"] for one in told["checks"]} == {"good"}
    assert open_store(str(tmp_path / "root")).perform(ListPage()).objects == ()


def bend(patch: pytest.MonkeyPatch, instead: Callable[[Op], bool], error: Exception | None) -> None:
    """Make memory stores do nothing, or fail, where ``instead`` says so."""
    perform = MemoryStore.perform

    def bent(self: MemoryStore, op: Op) -> Any:
        if not instead(op):
            return perform(self, op)
        if error is not None:
            raise error
        return None

    patch.setattr(MemoryStore, "perform", bent)


def is_delete(op: Op) -> bool:
    return isinstance(op, Delete)


def is_anything(op: Op) -> bool:
    return True


@pytest.mark.parametrize(
    ("instead", "error", "row", "sentence"),
    [
        (is_delete, None, "delete bad", "Do not keep a log in memory:: records would be lost"),
        (is_anything, UnavailableError("gone"), "create no answer", "Nothing is known of memory:"),
        (is_anything, InvalidInputError("[b]denied"), "create refused [b]denied", "memory: could"),
    ],
)
def test_a_store_that_is_not_good_ends_with_1_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
    instead: Callable[[Op], bool],
    error: Exception | None,
    row: str,
    sentence: str,
) -> None:
    bend(monkeypatch, instead, error)
    done = run("doctor", "store", "memory:", *SMALL)
    assert done.exit_code == 1
    assert row in " ".join(done.stdout.split())
    assert done.stdout.splitlines()[-1].startswith(sentence)
    assert json.loads(run("doctor", "store", "memory:", *SMALL, "--json").stdout)["good"] is False


@pytest.mark.parametrize(
    ("rules", "code", "sentence"),
    [
        ((ExpiryRule(id="[b]", prefix=""),), 1, "Do not keep a log in memory:: take the rule"),
        (None, 0, "memory: can carry a log, if nothing in the bucket expires"),
    ],
)
def test_rules_that_delete_are_told(
    monkeypatch: pytest.MonkeyPatch,
    rules: tuple[ExpiryRule, ...] | None,
    code: int,
    sentence: str,
) -> None:
    expiry = Expiry(rules=rules, said="rule '[b]' of the bucket")
    monkeypatch.setattr(storage, "find_expiry", lambda *_: expiry)
    done = run("doctor", "store", "memory:", *SMALL)
    assert done.exit_code == code
    assert "rule '[b]' of the bucket" in done.stdout
    assert done.stdout.splitlines()[-1].startswith(sentence)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (["memory:", "--writers", "1"], "use 2 to 256 writers"),
        (["gopher://bucket"], "is no address"),
        (["memory:", "--store-option", "endpoint"], "is not NAME=VALUE"),
        (["memory:", "--store-option", "a=b"], "takes no options"),
    ],
)
def test_a_wrong_call_ends_with_2(wrong: list[str], told: str) -> None:
    done = run("doctor", "store", *wrong)
    assert done.exit_code == 2
    assert told in done.stderr


@pytest.mark.parametrize(
    ("kind", "code", "sentence"),
    [
        ("ext4", 0, "{url} can carry a log."),
        ("nfs4", 1, "Do not keep a log in {url}: use a local disk or an object store; if no other"),
        ("fuse.own", 0, "{url} can carry a log, on one machine: make sure that no other machine"),
    ],
)
def test_a_folder_that_several_machines_may_mount_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, code: int, sentence: str
) -> None:
    monkeypatch.setattr(storage, "file_system_of", lambda _: kind)
    done = run("doctor", "store", tmp_path, *SMALL)
    assert done.exit_code == code
    assert done.stdout.splitlines()[-1].startswith(sentence.format(url=tmp_path))
