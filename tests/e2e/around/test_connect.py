"""Kafka Connect carries a file through a topic into another file, alone and as a cluster.

    in.txt --FileStreamSource--> topic --FileStreamSink--> out.txt

As a cluster it keeps what it is to do, how far it has come and how it is in three topics of ours.
"""

import http.client
import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.parts.jars import around_classpath
from tests.parts.jvm import QUICK, java
from tests.parts.lakelog import running_lakelog
from tests.parts.process import LOOPBACK, Process, accepts, free_ports
from tests.patience import in_time

PATIENCE_S = 120
LINES = [f"line {number}" for number in range(500)]


def written(path: Path, properties: dict[str, str]) -> Path:
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    return path


def worker(home: Path, bootstrap: str, port: int, **more: str) -> Path:
    text = "org.apache.kafka.connect.storage.StringConverter"
    return written(
        home / "worker.properties",
        {
            "bootstrap.servers": bootstrap,
            "key.converter": text,
            "value.converter": text,
            "offset.flush.interval.ms": "500",
            "plugin.discovery": "hybrid_warn",
            "listeners": f"http://{LOOPBACK}:{port}",
            **more,
        },
    )


def source(home: Path) -> dict[str, str]:
    return {
        "name": "source",
        "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "tasks.max": "1",
        "file": str(home / "in.txt"),
        "topic": "carried",
    }


def sink(home: Path) -> dict[str, str]:
    return {
        "name": "sink",
        "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
        "tasks.max": "1",
        "file": str(home / "out.txt"),
        "topics": "carried",
    }


@contextmanager
def connect(home: Path, command: str, *files: Path) -> Iterator[Process]:
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    main = f"org.apache.kafka.connect.cli.{command}"
    argv = [java(), *QUICK, "-Xmx384m", quiet, "-cp", around_classpath(), main]
    process = Process([*argv, *map(str, files)], home / "connect.log")
    try:
        yield process
    finally:
        process.stop(grace_s=20)


def await_lines(home: Path, lines: list[str]) -> None:
    out = home / "out.txt"

    def arrived() -> bool:
        return out.exists() and len(out.read_text().splitlines()) >= len(lines)

    wait(arrived, lambda: (home / "connect.log").read_text()[-3000:])
    assert out.read_text().splitlines() == lines


def wait(until: Callable[[], bool], words: Callable[[], str]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not until():
        in_time(time.monotonic() < deadline, words())
        time.sleep(0.1)  # noqa: TID251 (nothing to wait on but other processes)


def is_ready(port: int) -> bool:
    """Its doors open before its worker has read what it is to do."""
    if not accepts(port):
        return False
    link = http.client.HTTPConnection(LOOPBACK, port, timeout=60)
    with closing(link):
        link.request("GET", "/connectors")
        return link.getresponse().status == http.HTTPStatus.OK


def ask(port: int, method: str, path: str, body: Any = None) -> Any:
    link = http.client.HTTPConnection(LOOPBACK, port, timeout=60)
    with closing(link):
        text = None if body is None else json.dumps(body)
        link.request(method, path, text, {"Content-Type": "application/json"})
        answer = link.getresponse()
        told = answer.read()
        assert answer.status < 300, told
        return json.loads(told) if told else None


@pytest.mark.kafka
def test_a_file_is_carried_by_a_process_alone(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    (tmp_path / "in.txt").write_text("\n".join(LINES) + "\n")
    with running_lakelog() as broker:
        kept = {"offset.storage.file.filename": str(tmp_path / "offsets")}
        files = (
            worker(tmp_path, broker.bootstrap, port, **kept),
            written(tmp_path / "source.properties", source(tmp_path)),
            written(tmp_path / "sink.properties", sink(tmp_path)),
        )
        with connect(tmp_path, "ConnectStandalone", *files):
            await_lines(tmp_path, LINES)


@pytest.mark.kafka
def test_a_file_is_carried_by_a_cluster_that_is_killed_on_the_way(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    (tmp_path / "in.txt").write_text("\n".join(LINES) + "\n")
    with running_lakelog() as broker:
        kept = {
            f"{what}.storage.{name}": value
            for what in ("config", "offset", "status")
            for name, value in (("topic", f"connect-{what}s"), ("replication.factor", "1"))
        }
        more = {"group.id": "connect", **kept, "scheduled.rebalance.max.delay.ms": "0"}
        files = (worker(tmp_path, broker.bootstrap, port, **more),)
        with connect(tmp_path, "ConnectDistributed", *files) as process:
            process.wait_until(lambda: is_ready(port), within_s=PATIENCE_S)
            for config in (source(tmp_path), sink(tmp_path)):
                ask(port, "PUT", f"/connectors/{config['name']}/config", config)
            await_lines(tmp_path, LINES)
            time.sleep(1.5)  # noqa: TID251 (how far it has come is written every half a second)
            process.stop(grace_s=0)
        more_lines = [f"later {number}" for number in range(100)]
        with (tmp_path / "in.txt").open("a") as more_text:
            more_text.write("\n".join(more_lines) + "\n")
        with connect(tmp_path, "ConnectDistributed", *files):
            out = tmp_path / "out.txt"
            wait(
                lambda: out.read_text().splitlines()[-1:] == more_lines[-1:],
                lambda: (tmp_path / "connect.log").read_text()[-3000:],
            )
            told = ask(port, "GET", "/connectors/source/status")
            assert told["connector"]["state"] == "RUNNING"
        # Connect promises each line once or more, and in order.
        found = list(dict.fromkeys(out.read_text().splitlines()))
        assert found == LINES + more_lines
