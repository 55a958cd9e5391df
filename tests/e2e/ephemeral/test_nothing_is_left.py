"""A broker for tests leaves nothing behind: no folder, no thread, no port, however it ended."""

import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from lakelog.ephemeral import EphemeralBroker
from lakelog.errors import InvalidInputError
from tests.parts.process import mortal

PATIENCE_S = 60.0

_FORKING = """
import os, sys
from lakelog.ephemeral import EphemeralBroker
with EphemeralBroker() as broker:
    child = os.fork()
    if not child:
        broker.close()  # As a fixture of the parent would, in a child that goes on to the end.
        sys.exit(0)
    os.waitpid(child, 0)
    topic = broker.create_topic()
    print(broker.records(topic))
"""
_WAITING = """
import sys
from lakelog.ephemeral import EphemeralBroker
broker = EphemeralBroker()
print(broker.port, flush=True)
sys.stdin.read()
"""


def folders(above: Path) -> list[Path]:
    return sorted(above.glob("lakelog-ephemeral-*"))


def is_listening(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def above(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def test_a_broker_that_is_closed_has_never_been(above: Path) -> None:
    before = set(threading.enumerate())
    with EphemeralBroker() as broker:
        port = broker.port
        assert is_listening(port)
        assert len(folders(above)) == 1
    assert not is_listening(port)
    assert folders(above) == []
    assert set(threading.enumerate()) == before


def test_a_broker_that_cannot_start_leaves_nothing(above: Path) -> None:
    with pytest.raises(InvalidInputError, match="has no effect"):
        EphemeralBroker({"log.dirs": "/somewhere"})
    assert folders(above) == []


def test_a_forked_process_removes_nothing(above: Path) -> None:
    done = subprocess.run(
        mortal([sys.executable, "-W", "ignore", "-c", _FORKING]),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr
    assert folders(above) == []


def test_one_that_nobody_closed_is_gone_with_its_process(above: Path) -> None:
    with _waiting() as child:
        assert len(folders(above)) == 1
        child.communicate(timeout=PATIENCE_S)
    assert child.returncode == 0
    assert folders(above) == []


def test_what_one_that_was_killed_has_left_is_removed_by_the_next(above: Path) -> None:
    with _waiting() as alive:
        with _waiting() as killed:
            killed.send_signal(signal.SIGKILL)
            killed.wait(PATIENCE_S)
        assert len(folders(above)) == 2
        with EphemeralBroker():
            # Its own, and that of the one which still lives.
            assert len(folders(above)) == 2
        assert len(folders(above)) == 1
        alive.communicate(timeout=PATIENCE_S)
    assert folders(above) == []


def _waiting() -> "subprocess.Popen[str]":
    child = subprocess.Popen(
        mortal([sys.executable, "-c", _WAITING]),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=dict(os.environ),  # noqa: TID251 (what a child inherits)
    )
    assert child.stdout is not None
    child.stdout.readline()
    return child
