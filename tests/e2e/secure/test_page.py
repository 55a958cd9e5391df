"""Every block of docs/how-to/connect-clients.md, run as it is written."""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from tests.e2e.secure.secured import PASSWORD, Secured, running_secured
from tests.parts.golang import build_program
from tests.parts.jars import classpath
from tests.parts.jvm import QUICK, java
from tests.parts.node import node, node_modules
from tests.parts.process import LOOPBACK
from tests.patience import in_time

HERE = Path(__file__).parent
PAGE = Path("docs/how-to/connect-clients.md")
_SECTION = re.compile(r"^### (.*?)$(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
SECTIONS: dict[str, str] = dict(_SECTION.findall(PAGE.read_text()))
RUN_S = 120


@pytest.fixture(scope="module")
def lasting() -> Iterator[Secured]:
    """A broker whose sessions last, as those do that are not there to be seen ending."""
    with running_secured({"connections.max.reauth.ms": 3_600_000}) as made:
        yield made


def run_block(kind: str, text: str, folder: Path) -> None:
    """Run one block in a folder, as somebody does who has copied it."""
    env = dict(os.environ)  # noqa: TID251 (a program of somebody else has the test's own)
    match kind:
        case "properties":
            name = text.splitlines()[0].removeprefix("# ")
            (folder / name).write_text(text)
            return
        case "console":
            argv = ["bash", "-e", "-c", re.sub(r"^\$ ", "", text, flags=re.MULTILINE)]
            env["PATH"] = f"{folder}:{env['PATH']}"
            tool = folder / "kafka-console-producer"
            main = "org.apache.kafka.tools.ConsoleProducer"
            words = " ".join([java(), *QUICK, "$KAFKA_OPTS", "-cp", f"'{classpath()}'", main])
            tool.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
            tool.chmod(0o755)
        case "python":
            (folder / "block.py").write_text(text)
            argv = [sys.executable, "block.py"]
        case "javascript":
            (folder / "block.js").write_text(text)
            argv = [node(), "block.js"]
            env["NODE_PATH"] = str(node_modules(HERE.parent / "clients" / "node"))
        case "go":
            (folder / "main.go").write_text(text)
            for name in ("go.mod", "go.sum"):
                shutil.copy(HERE / "go" / name, folder)
            build_program(folder, folder / "block")
            argv = ["./block"]
        case _:
            raise AssertionError(kind)
    done = subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, timeout=RUN_S)
    assert done.returncode == 0, done.stdout + done.stderr


def arrives(secured: Secured, value: bytes) -> None:
    """Read the topic until there is a record."""
    consumer = Consumer(
        {
            "bootstrap.servers": secured.tls,
            "security.protocol": "SSL",
            "ssl.ca.location": str(secured.ca),
            "group.id": f"g{time.monotonic_ns()}",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["orders"])
    begun_s, found = time.monotonic(), set[bytes]()
    while value not in found:
        in_time(time.monotonic() - begun_s < 60, f"{value!r} is not among {found}")
        message = consumer.poll(1)
        if message is not None and not message.error():
            found.add(message.value() or b"")
    consumer.close()


@pytest.mark.sample(2)
@pytest.mark.parametrize("client", SECTIONS)
def test_what_the_page_says_of_a_client_works(
    lasting: Secured, tmp_path: Path, client: str
) -> None:
    here = {
        "broker1.example.com:9093": lasting.sasl.replace(LOOPBACK, "localhost"),
        "/etc/kafka/ca.pem": str(lasting.ca),
        "https://login.example.com/token": lasting.issuer.token_url,
        "s3cret": PASSWORD,
    }
    blocks = re.findall(r"```(\w+)\n(.*?)```", SECTIONS[client], re.DOTALL)
    assert blocks
    for kind, text in blocks:
        for word, other in here.items():
            text = text.replace(word, other)
        run_block(kind, text, tmp_path)
    arrives(lasting, f"from {client}".encode())


def test_the_page_has_every_client() -> None:
    names = {"Java", "confluent-kafka", "aiokafka", "kafka-python", "KafkaJS", "franz-go", "kcat"}
    assert names <= set(SECTIONS)
