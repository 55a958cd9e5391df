"""The two that are compared: a real Kafka and lakelog, with the same settings as far as they go."""

import contextlib
import importlib.metadata
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tests.parts import jars
from tests.parts.cluster import running_cluster
from tests.parts.kafka import running_kafka
from tests.parts.lakelog import running_lakelog

__all__ = ["CLUSTERS", "THREE", "broker_versions"]

_SAME = {"auto.create.topics.enable": "true", "group.initial.rebalance.delay.ms": "0"}


@contextlib.contextmanager
def _kafka() -> Iterator[str]:
    with running_kafka(_SAME) as kafka:
        yield kafka.bootstrap


@contextlib.contextmanager
def _lakelog() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="lakelog-compat-") as home:
        properties = Path(home, "server.properties")
        properties.write_text("".join(f"{name}={value}\n" for name, value in _SAME.items()))
        with running_lakelog(arguments=["--kafka-config", str(properties)]) as broker:
            yield broker.bootstrap


@contextlib.contextmanager
def _three() -> Iterator[str]:
    with (
        tempfile.TemporaryDirectory(prefix="lakelog-compat-") as home,
        running_cluster(f"file://{home}/log", arguments=(), properties=_SAME) as cluster,
    ):
        yield cluster.brokers[1].bootstrap  # Clients find the others by themselves.


CLUSTERS: Mapping[str, Callable[[], contextlib.AbstractContextManager[str]]] = {
    "kafka": _kafka,
    "lakelog": _lakelog,
}
"""Each starts a cluster, and gives its address."""

THREE = {"three": _three}
"""Three brokers of lakelog: the page holds for them as well."""


def broker_versions() -> dict[str, str]:
    """The version of Kafka is that of its jars, the version of lakelog that of its package."""
    pom = Path(jars.__file__).with_name("pom.xml").read_text()
    found = re.search(r"<kafka.version>(.+?)</kafka.version>", pom)
    assert found is not None, "pom.xml names no version of Kafka"
    return {"kafka": found[1], "lakelog": importlib.metadata.version("lakelog")}
