"""`lakelog serve` and `lakelog demo`: what they refuse, what they make, how they start and stop."""

import io
import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lakelog.catalog import open_namespace
from lakelog.cli import running as running_module
from lakelog.cli.logs import make_log
from lakelog.cli.running import is_here, open_log
from lakelog.cli.storage import admit_store
from lakelog.errors import InvalidInputError, NotFoundError
from lakelog.store import StoreSpec, run, working
from tests.unit.cli.making import run as lakelog


@contextmanager
def running(*words: str) -> Iterator[subprocess.Popen[str]]:
    """Run a command of ours; it is killed if it does not end by itself."""
    process = subprocess.Popen(
        [sys.executable, "-m", "lakelog", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


# ---------------------------------------------------------------------------- refusals


def test_an_address_that_is_taken_is_told_in_a_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = f"127.0.0.1:{other.getsockname()[1]}"
        for door in ("--listen", "--http"):
            doors = {"--listen": "127.0.0.1:0", "--http": "127.0.0.1:0", door: taken}
            words = [word for pair in doors.items() for word in pair]
            with running("serve", "--storage", str(tmp_path), "--no-keep", *words) as process:
                _, stderr = process.communicate(timeout=60)
            errors = [line for line in stderr.splitlines() if " info " not in f" {line} "]
            assert process.returncode == 1
            assert f"Error: cannot listen on {taken}: " in stderr
            assert "Traceback" not in stderr, errors
            assert door in stderr.splitlines()[-1], "how to choose another one"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--listen", "192.0.2.1:9092"), "--insecure"),
        (("--http", "0.0.0.0:9404"), "--insecure"),
        (("--http", "0.0.0.0:9404"), "--http-certificate"),
        (("--http-client-ca", "ca.pem"), "--http-certificate"),
        (("--http-certificate", "there-is-none.pem"), "cannot be read"),
        (("--listen", "example.com:9092"), "--insecure"),
        (("--listen", "0.0.0.0:9092", "--insecure"), "--advertise"),
        (("--listen", "9092"), "HOST:PORT"),
        (("--listen", "127.0.0.1:70000"), "HOST:PORT"),
        (("--store-option", "region=x"), "takes only the option one_machine"),
        (("--keep-every", "0"), "use a time above 0"),
    ],
)
def test_what_should_not_be_is_refused_and_nothing_is_made(
    tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    done = lakelog("serve", "--storage", f"file://{tmp_path}/log", *words)
    assert done.exit_code == 2
    assert said in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("do not touch")
    done = lakelog("serve", "--storage", f"file://{tmp_path}")
    assert done.exit_code == 1
    assert done.stderr.endswith(f"lakelog init file://{tmp_path}\n")
    assert [one.name for one in tmp_path.iterdir()] == ["mine.txt"]


# ---------------------------------------------------------------------------- namespaces


def test_in_an_empty_folder_a_namespace_is_made_once(tmp_path: Path) -> None:
    spec = StoreSpec(f"file://{tmp_path}/log")
    store, first, made = open_log(spec, make=False)
    assert made
    assert run(open_namespace(), working(store.perform)) == first
    assert open_log(spec, make=False)[1:] == (first, False)
    assert open_log(spec, make=True)[1:] == (first, False)


def test_of_brokers_that_are_started_together_one_makes_the_namespace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = StoreSpec(f"file://{tmp_path}")
    firsts: list[Any] = []

    def admit_late(*args: Any) -> None:
        monkeypatch.setattr(running_module, "admit_store", admit_store)
        firsts.append(open_log(spec, make=True)[1:])
        admit_store(*args)

    monkeypatch.setattr(running_module, "admit_store", admit_late)
    second = open_log(spec, make=True)[1:]
    assert firsts == [(second[0], True)]
    assert not second[1]


def test_memory_is_always_empty() -> None:
    assert open_log(StoreSpec("memory:"), make=False)[2]


def test_elsewhere_it_is_made_only_if_that_was_said(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("leave me")
    with pytest.raises(NotFoundError, match="lakelog init"):
        open_log(StoreSpec(f"file://{tmp_path}"), make=False)
    assert open_log(StoreSpec(f"file://{tmp_path}"), make=True)[2]


def test_a_folder_on_a_network_file_system_is_refused_and_no_namespace_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("lakelog.cli.storage.file_system_of", lambda _: "nfs4")
    with pytest.raises(InvalidInputError, match="one_machine=true"):
        open_log(StoreSpec(f"file://{tmp_path}"), make=True)
    assert open_log(StoreSpec(f"file://{tmp_path}", {"one_machine": "true"}), make=True)[2]
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("lakelog.cli.storage.file_system_of", lambda _: "fuse.own")
    open_log(StoreSpec(f"file://{tmp_path}"), make=True)
    assert capsys.readouterr().err.startswith(f"Warning: file://{tmp_path}: machine: fuse.own")


@pytest.mark.parametrize(
    ("url", "here"),
    [("file:///a", True), ("/a", True), ("a", True), ("memory:", True), ("s3://b/f", False)],
)
def test_which_stores_are_of_this_machine(url: str, here: bool) -> None:
    assert is_here(url) == here


# ---------------------------------------------------------------------------- logs


def test_words_of_clients_are_cut_and_cannot_write_on_a_terminal() -> None:
    for format_ in ("text", "json"):
        out = io.StringIO()
        make_log(format_, out).warning("refused", client="x\x1b[2J\n" + "y" * 10_000)
        assert "\x1b" not in out.getvalue()
        assert out.getvalue().count("\n") == 1
        assert len(out.getvalue()) < 500


def test_a_line_of_json_has_its_fields() -> None:
    out = io.StringIO()
    log = make_log("json", out)
    log.info("kept", segments=3, what=Path("/x"))
    try:
        raise ValueError("a bug")
    except ValueError:
        log.exception("failed")
    kept, failed = map(json.loads, out.getvalue().splitlines())
    assert (kept["event"], kept["level"], kept["segments"]) == ("kept", "info", 3)
    assert kept["what"] == "/x"
    assert kept["timestamp"].endswith("Z")
    assert "ValueError: a bug" in failed["exception"]


def test_a_quiet_log_has_only_what_is_wrong() -> None:
    out = io.StringIO()
    log = make_log("text", out, quiet=True)
    log.info("ready")
    log.warning("trouble")
    assert "ready" not in out.getvalue()
    assert "trouble" in out.getvalue()


# ---------------------------------------------------------------------------- stories


def test_it_says_when_it_is_ready_and_drains_when_it_is_asked_to_stop(tmp_path: Path) -> None:
    words = ("--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--log-format", "json")
    with running("serve", "--storage", f"file://{tmp_path}", *words) as process:
        assert process.stderr is not None
        events = []
        for line in process.stderr:
            events.append(json.loads(line))
            if events[-1]["event"] == "ready":
                break
        assert [one["event"] for one in events] == [
            "made a namespace", "health and metrics", "ready",
        ]  # fmt: skip
        host, port = events[-1]["bootstrap"].split(":")
        with socket.create_connection((host, int(port)), timeout=5):
            pass
        process.send_signal(signal.SIGTERM)
        rest = [json.loads(line)["event"] for line in process.stderr]
        assert process.wait(30) == 0
    assert rest[0] == "asked to stop"
    assert rest[-1] == "stopped"


def until_ready(process: subprocess.Popen[str]) -> None:
    assert process.stderr is not None
    assert any(json.loads(line)["event"] == "ready" for line in process.stderr)


def test_one_whose_node_id_another_has_taken_ends_and_says_so(tmp_path: Path) -> None:
    words = [
        "serve", "--storage", f"file://{tmp_path}", "--listen", "127.0.0.1:0", "--node-id", "7",
        "--no-keep", "--log-format", "json",
    ]  # fmt: skip
    with running(*words) as first:
        until_ready(first)
        with running(*words) as second:
            until_ready(second)
            _, told = first.communicate(timeout=30)
            second.send_signal(signal.SIGTERM)
            assert second.wait(30) == 0
    assert first.returncode == 1
    last = told.splitlines()[-1]
    assert last.startswith("Error: another broker was started with node id 7: this one stops.")
    assert "--node-id" in last


def test_clients_and_the_cluster_are_told_the_rack(tmp_path: Path) -> None:
    words = ("--listen", "127.0.0.1:0", "--rack", "zone-a", "--no-keep", "--log-format", "json")
    with running("serve", "--storage", f"file://{tmp_path}", *words) as process:
        until_ready(process)
        done = lakelog("cluster", "brokers", "--storage", f"file://{tmp_path}", "--json")
        row = json.loads(done.stdout)
        assert (row["node"], row["state"], row["rack"]) == (1, "serving", "zone-a")
        assert lakelog("cluster", "moves", "--storage", f"file://{tmp_path}").exit_code == 0
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    done = lakelog("cluster", "brokers", "--storage", f"file://{tmp_path}", "--json")
    assert json.loads(done.stdout)["state"] == "left"


def test_the_demo_writes_and_reads_and_leaves_nothing() -> None:
    with running("demo", "--port", "0") as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line.strip())
            if "Ctrl-C" in line:
                break
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""
    text = "\n".join(lines)
    assert len(re.findall(r"offset \d  key-\d  hello, lake \d", text)) == 5
    assert (
        len([line for line in lines if line.startswith(("echo", "kcat", "lakelog", "curl"))]) == 4
    )
    (folder,) = re.findall(r"everything in (/\S+lakelog-demo-\w+)\.", text)
    assert not Path(folder).exists()


# ---------------------------------------------------------------------------- Kafka's configs


def test_each_line_of_a_kafka_config_is_explained(tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    config.write_text("node.id=3\nlog.retention.hours=1\nlog.dirs=/data\n")
    words = ("serve", "--storage", "memory:", "--kafka-config", str(config), "--explain")
    done = lakelog(*words)
    assert done.exit_code == 0
    assert done.output.splitlines()[1:] == [
        "node.id\t3\tused\t",
        "log.retention.hours\t1\ttranslated\tretention.ms of the topics it makes",
        "log.dirs\t/data\tignored\teverything is in the object store",
    ]
    rows = [json.loads(line) for line in lakelog(*words, "--json").output.splitlines()]
    assert [row["became"] for row in rows] == ["used", "translated", "ignored"]


def test_a_kafka_config_that_would_open_a_plain_door_for_a_safe_one_is_refused(
    tmp_path: Path,
) -> None:
    config = tmp_path / "server.properties"
    for line, said in (
        ("listeners=SSL://127.0.0.1:9092", "ssl.keystore.location"),
        ("listeners=PLAINTEXT://:9092", "--insecure"),
        ("num.partitions=few", "a whole number"),
    ):
        config.write_text(line)
        done = lakelog("serve", "--storage", "memory:", "--kafka-config", str(config))
        assert done.exit_code == 2
        assert said in done.output


def test_a_broker_is_what_its_kafka_config_says_unless_an_option_says_otherwise(
    tmp_path: Path,
) -> None:
    from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

    config = tmp_path / "server.properties"
    config.write_text(
        "node.id=3\nlisteners=PLAINTEXT://127.0.0.1:0\nnum.partitions=5\nlog.retention.hours=1\n"
    )
    words = ("--kafka-config", str(config), "--partitions", "2", "--init", "--log-format", "json")
    with running("serve", "--storage", f"file://{tmp_path}/log", *words) as process:
        assert process.stderr is not None
        lines = (json.loads(line) for line in process.stderr)
        ready = next(line for line in lines if line["event"] == "ready")
        client = AdminClient({"bootstrap.servers": ready["bootstrap"]})
        for made in client.create_topics([NewTopic("t")]).values():
            made.result(20)
        found = client.list_topics(timeout=20)
        assert (len(found.topics["t"].partitions), list(found.brokers)) == (2, [3])
        (told,) = client.describe_configs([ConfigResource("topic", "t")]).values()
        assert told.result(20)["retention.ms"].value == "3600000"
        (told,) = client.describe_configs([ConfigResource("broker", "3")]).values()
        rows = told.result(20)
        assert (rows["num.partitions"].value, rows["num.partitions"].source) == ("2", 4)
        assert (rows["log.retention.ms"].value, rows["fetch.max.bytes"].source) == ("3600000", 5)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
