"""The seven programs: how each is built and started, and what its client is known to do.

`python -m tests.e2e.clients.programs` builds all of them ahead of time, into the cache.
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

__all__ = ["CODECS", "PROGRAMS", "Program"]

_HERE = Path(__file__).parent
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True)
class Program:
    """A client's program, and where its client goes its own way."""

    command: Callable[[], list[str]]
    """Builds what is not there yet."""
    env: Callable[[], Mapping[str, str]] = field(default=dict)
    default_codec: str = "none"
    always_idempotent: bool = False
    """Whether it is so by default, too."""
    commits_all: bool = False
    """Whether its consumers commit what they read even if nobody asks them to."""
    end_for_none: bool = False
    """Whether it answers with the end of a partition, where no record is as young as was asked."""


def _java() -> list[str]:
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    classes = compiled("clients", _HERE / "java" / "Stories.java")
    return [java(), *quick_kafka(), "-Xmx256m", quiet, "-cp", classes, "Stories"]


def _python(module: str) -> Callable[[], list[str]]:
    return lambda: [sys.executable, "-m", f"tests.e2e.clients.python.{module}"]


def _kcat() -> list[str]:
    kcat()
    return _python("kcat")()


PROGRAMS: Mapping[str, Program] = {
    "java": Program(_java, always_idempotent=True),
    "confluent": Program(_python("confluent")),
    "aiokafka": Program(_python("aio")),
    "kafka-python": Program(_python("plain"), always_idempotent=True),
    "kafkajs": Program(
        lambda: [node(), str(_HERE / "node" / "stories.js")],
        lambda: {"NODE_PATH": str(node_modules(_HERE / "node"))},
        end_for_none=True,
    ),
    "franz-go": Program(
        lambda: [str(go_program(_HERE / "go"))], default_codec="snappy", always_idempotent=True
    ),
    "kcat": Program(_kcat, commits_all=True),
}


if __name__ == "__main__":
    for name, program in PROGRAMS.items():
        program.env()
        sys.stdout.write(f"{name}: {program.command()[0]}\n")
