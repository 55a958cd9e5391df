"""`lakelog user`: the first user of a namespace, without a broker."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from lakelog.catalog import make_namespace, read_users
from lakelog.cli import main
from lakelog.host import new_id
from lakelog.model import Rules
from lakelog.names import USERS_KEY
from lakelog.security import ITERATIONS, ScramMechanism, Users, salt_password
from lakelog.security.scram import keys_of
from lakelog.store import open_store, run, working


@pytest.fixture
def log(tmp_path: Path) -> Path:
    folder = tmp_path / "log"
    run(make_namespace(new_id(), Rules(lanes=1)), working(open_store(str(folder)).perform))
    return folder


def call(log: Path, *args: str, text: str | None = None, **env: str) -> Result:
    words = ["user", *args, "--storage", str(log)]
    return CliRunner().invoke(main, words, input=text, env=env)


def stored(log: Path) -> Users:
    found: Users = run(read_users(), working(open_store(str(log)).perform))
    return found


def knows(users: Users, name: str, password: str, kind: str = "SCRAM-SHA-512") -> bool:
    mechanism = ScramMechanism(kind)
    keys, _ = users.find(name, mechanism)
    if keys is None:
        return False
    salted = salt_password(mechanism, password.encode(), keys.salt, keys.iterations)
    return keys_of(mechanism, salted, keys.salt, keys.iterations) == keys


def test_a_password_is_asked_for_twice_and_not_shown(log: Path) -> None:
    found = call(log, "add", "alice", text="hunter2\nhunter2\n")
    assert found.exit_code == 0, found.output
    assert "hunter2" not in found.output
    assert knows(stored(log), "alice", "hunter2")
    assert b"hunter2" not in (log / USERS_KEY).read_bytes()
    assert call(log, "add", "bob", text="one\nother\n").exit_code != 0


def test_a_password_comes_from_a_file_or_a_variable(log: Path, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("hunter2\nnot this\n")
    assert call(log, "add", "alice", "--password-file", str(file)).exit_code == 0
    assert call(log, "add", "bob", "--password-file", "-", text="hunter3\r\n").exit_code == 0
    assert call(log, "add", "eve", LAKELOG_PASSWORD="hunter4").exit_code == 0
    users = stored(log)
    assert knows(users, "alice", "hunter2")
    assert knows(users, "bob", "hunter3")
    assert knows(users, "eve", "hunter4")


def test_a_password_among_arguments_is_refused(log: Path) -> None:
    found = call(log, "add", "alice", "--password", "hunter2")
    assert found.exit_code == 2
    assert "--password-file" in found.output
    assert stored(log).keys == {}


def test_users_are_listed_changed_and_deleted(log: Path) -> None:
    both = ("--mechanism", "SCRAM-SHA-256", "--mechanism", "SCRAM-SHA-512")
    call(log, "add", "alice", *both, "--iterations", "4096", LAKELOG_PASSWORD="a")
    call(log, "add", "bob", LAKELOG_PASSWORD="b")
    rows = [json.loads(line) for line in call(log, "list", "--json").output.splitlines()]
    assert rows == [
        {"user": "alice", "mechanism": "SCRAM-SHA-256", "iterations": 4096},
        {"user": "alice", "mechanism": "SCRAM-SHA-512", "iterations": 4096},
        {"user": "bob", "mechanism": "SCRAM-SHA-512", "iterations": ITERATIONS},
    ]
    call(log, "add", "bob", LAKELOG_PASSWORD="c")
    assert knows(stored(log), "bob", "c")
    assert call(log, "delete", "alice", "--mechanism", "SCRAM-SHA-256").exit_code == 0
    assert list(stored(log).keys["alice"]) == ["SCRAM-SHA-512"]
    assert call(log, "delete", "alice").exit_code == 0
    assert list(stored(log).keys) == ["bob"]
    found = call(log, "delete", "alice")
    assert found.exit_code == 1
    assert "lakelog user list" in found.output
    assert call(log, "list").output.splitlines()[1] == f"bob\tSCRAM-SHA-512\t{ITERATIONS}"


@pytest.mark.parametrize(
    ("name", "password", "words"),
    [("", "x", "no name of a user"), ("alice", "I\u00adX", "all clients send alike")],
)
def test_what_clients_would_not_send_alike_is_refused(
    log: Path, name: str, password: str, words: str
) -> None:
    found = call(log, "add", name, LAKELOG_PASSWORD=password)
    assert found.exit_code == 2
    assert words in found.output
