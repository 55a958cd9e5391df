"""Every config that a broker of Apache Kafka knows is known here, and so is what becomes of it.

Those of listeners are told as Kafka tells them: of the same types, with the same secrets.
"""

import subprocess
from pathlib import Path

import pytest
from kio.index import load_request_schema

from lakelog.broker import BrokerSettings, translate_kafka_config
from lakelog.broker.config_table import BROKER_CONFIGS, TOPIC_DEFAULTS
from lakelog.broker.listener_configs import LISTENER_CONFIGS
from lakelog.broker.listener_descriptions import describe_listeners
from lakelog.catalog import ConfigSource
from tests.parts.archives import quick_kafka
from tests.parts.jars import compiled
from tests.parts.jvm import java
from tests.parts.kafka import Kafka
from tests.parts.process import mortal
from tests.parts.wire import Wire

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
    ignored |= dict.fromkeys(
        ("inter.broker.listener.name", "security.inter.broker.protocol"), "PLAINTEXT"
    )
    told = translate_kafka_config(ignored, BrokerSettings()).lines
    assert [line.name for line in told if "check its name" in line.words] == []
    (stranger,) = translate_kafka_config({"no.such": "1"}, BrokerSettings()).lines
    assert "check its name" in stranger.words


OTHER_DEFAULTS = {
    "listeners": "loopback, unless somebody says otherwise",
    "ssl.keystore.type": "there are no key stores of Java",
    "ssl.truststore.type": "the same",
    "sasl.enabled.mechanisms": "there is no Kerberos",
    "sasl.mechanism.inter.broker.protocol": "the same",
}
"""Where the default is not Kafka's, and why."""


def test_configs_of_listeners_are_told_as_kafka_tells_them(kafka: Kafka) -> None:
    wire = Wire(kafka.bootstrap)
    resource = load_request_schema(32, 4).__annotations__["resources"]
    kind = resource.__args__[0]
    asked = kind(resource_type=4, resource_name="1", configuration_keys=tuple(LISTENER_CONFIGS))
    found = wire.ask(
        32, 4, resources=(asked,), include_synonyms=True, include_documentation=False
    ).results[0]
    wire.close()
    theirs = {row.name: row for row in found.configs}
    ours = {row.name: row for row in describe_listeners(BrokerSettings())}
    assert theirs.keys() == ours.keys() == LISTENER_CONFIGS.keys()
    for name, row in theirs.items():
        own = ours[name]
        assert (own.type, own.is_sensitive) == (row.config_type, row.is_sensitive), name
        default = {one.value for one in row.synonyms if one.source == ConfigSource.DEFAULT}
        mine = {one.value for one in own.synonyms if one.source is ConfigSource.DEFAULT}
        assert (mine == default) == (name not in OTHER_DEFAULTS), name
