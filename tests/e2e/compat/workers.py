"""The seven clients, and how the worker of each is built and started.

`python -m tests.e2e.compat.workers` builds all of them ahead of time, into the cache.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.parts.archives import quick_kafka
from tests.parts.golang import go_program
from tests.parts.jars import compiled
from tests.parts.jvm import java
from tests.parts.kcat import kcat
from tests.parts.node import node, node_modules

__all__ = ["CLIENTS", "Client"]

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Client:
    title: str
    """Its name, for people."""
    command: Callable[[], list[str]]
    """Builds what is not there yet."""
    env: Callable[[], Mapping[str, str]] = field(default=dict)


def _java() -> list[str]:
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    classes = compiled("compat", _HERE / "java" / "Worker.java")
    return [java(), *quick_kafka(), "-Xmx384m", quiet, "-cp", classes, "Worker"]


def _python(module: str) -> Callable[[], list[str]]:
    return lambda: [sys.executable, "-m", f"tests.e2e.compat.python.{module}"]


def _kcat() -> list[str]:
    kcat()
    return _python("kcat")()


CLIENTS: Mapping[str, Client] = {
    "java": Client("Java", _java),
    "confluent": Client("confluent-kafka", _python("confluent")),
    "aiokafka": Client("aiokafka", _python("aio")),
    "kafka-python": Client("kafka-python", _python("plain")),
    "kafkajs": Client(
        "KafkaJS",
        lambda: [node(), str(_HERE / "node" / "worker.js")],
        # The packages are those of the stories that the same client tells.
        lambda: {"NODE_PATH": str(node_modules(_HERE.parent / "clients" / "node"))},
    ),
    "franz-go": Client("franz-go", lambda: [str(go_program(_HERE / "go"))]),
    "kcat": Client("kcat", _kcat),
}


if __name__ == "__main__":
    for name, client in CLIENTS.items():
        client.env()
        sys.stdout.write(f"{name}: {client.command()[0]}\n")
