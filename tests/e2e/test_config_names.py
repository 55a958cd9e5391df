"""Every config that a broker of Apache Kafka knows is known here, and so is what becomes of it."""

import subprocess
from pathlib import Path

import pytest

from lakelog.broker import BrokerSettings, translate_kafka_config
from lakelog.broker.config_table import BROKER_CONFIGS, TOPIC_DEFAULTS
from tests.parts.archives import quick_kafka
from tests.parts.jars import compiled
from tests.parts.jvm import java
from tests.parts.process import mortal

pytestmark = pytest.mark.kafka

SOURCE = Path(__file__).parent / "oracle" / "Configs.java"


def test_no_config_of_kafkas_is_a_stranger() -> None:
    argv = [java(), *quick_kafka(), "-cp", compiled("configs", SOURCE), "Configs"]
    done = subprocess.run(mortal(argv), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    names = set(done.stdout.split())
    assert len(names) > 300
    known = BROKER_CONFIGS.keys() | TOPIC_DEFAULTS.keys()
    ours = {name for name in known if name.startswith(("lakelog.", "cluster.heartbeat."))}
    assert names >= known - ours
    others = sorted(names - BROKER_CONFIGS.keys() - TOPIC_DEFAULTS.keys())
    ignored = dict.fromkeys(others, "1") | dict.fromkeys(
        ("listeners", "advertised.listeners"), "PLAINTEXT://h:1"
    )
    told = translate_kafka_config(ignored, BrokerSettings()).lines
    assert [line.name for line in told if "check its name" in line.words] == []
    (stranger,) = translate_kafka_config({"no.such": "1"}, BrokerSettings()).lines
    assert "check its name" in stranger.words
