"""`lakelog serve --ephemeral`: what it prints, and that it is gone with whoever started it."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_lakelog.clients import Clients
from tests.parts.process import mortal
from tests.patience import HANGS_S

_SERVE = [sys.executable, "-m", "lakelog", "serve", "--ephemeral", "--json"]
_PARENT = "import subprocess, sys; subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL)"


def start(argv: list[str], above: Path, stdin: int) -> "subprocess.Popen[str]":
    env = dict(os.environ)  # noqa: TID251 (what a child inherits)
    # A storage that is named elsewhere is none of its business.
    env |= {"TMPDIR": str(above), "LAKELOG_STORAGE": str(above / "elsewhere")}
    return subprocess.Popen(mortal(argv), stdin=stdin, stdout=subprocess.PIPE, text=True, env=env)


def told(child: "subprocess.Popen[str]") -> tuple[str, int]:
    assert child.stdout is not None
    line = json.loads(child.stdout.readline())
    return line["bootstrap_servers"], line["pid"]


def close_stdin(child: "subprocess.Popen[str]") -> None:
    assert child.stdin is not None
    child.stdin.close()


def is_listening(address: str) -> bool:
    host, _, port = address.partition(":")
    with socket.socket() as tried:
        return tried.connect_ex((host, int(port))) == 0


@pytest.mark.parametrize(
    "end",
    [
        close_stdin,
        lambda child: child.send_signal(signal.SIGTERM),
        lambda child: child.send_signal(signal.SIGINT),
    ],
    ids=["stdin is closed", "SIGTERM", "Ctrl-C"],
)
def test_it_serves_any_client_until_it_is_asked_to_end(
    tmp_path: Path, end: Callable[["subprocess.Popen[str]"], None]
) -> None:
    with start([*_SERVE, "--partitions", "3"], tmp_path, subprocess.PIPE) as child:
        address, pid = told(child)
        assert pid == child.pid
        with Clients(address, "confluent-kafka") as clients:
            producer = clients.producer()
            assert len(producer.list_topics("made-by-asking", HANGS_S).topics) == 1
            producer.produce("made-by-asking", b"hello")
            assert producer.flush(HANGS_S) == 0
            assert clients.consumer("made-by-asking").poll(HANGS_S).value() == b"hello"
            partitions = producer.list_topics("made-by-asking", HANGS_S).topics
            assert len(partitions["made-by-asking"].partitions) == 3
        assert [path.name[:18] for path in tmp_path.iterdir()] == ["lakelog-ephemeral-"]
        end(child)
        assert child.wait(HANGS_S) == 0
    assert list(tmp_path.iterdir()) == []
    assert not is_listening(address)


def test_it_ends_when_its_parent_was_killed(tmp_path: Path) -> None:
    with start([sys.executable, "-c", _PARENT, *_SERVE], tmp_path, subprocess.DEVNULL) as parent:
        address, _ = told(parent)
        assert is_listening(address)
        parent.kill()
        parent.wait(HANGS_S)
        until_s = time.monotonic() + HANGS_S
        while list(tmp_path.iterdir()) and time.monotonic() < until_s:
            time.sleep(0.05)  # noqa: TID251 (it is nobody's child any more)
    assert list(tmp_path.iterdir()) == []
    assert not is_listening(address)


def test_it_takes_no_storage_and_no_address(tmp_path: Path) -> None:
    argv = [*_SERVE, "--storage", str(tmp_path / "log"), "--listen", "127.0.0.1:0"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=HANGS_S)
    assert done.returncode == 2
    assert "does not go with --listen, --storage" in done.stderr
    assert list(tmp_path.iterdir()) == []
