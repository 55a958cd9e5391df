"""What becomes of a server.properties."""

import pytest

from lakelog.broker import BrokerSettings, Translation, Verdict, translate_kafka_config
from lakelog.broker.config_table import BROKER_CONFIGS, TOPIC_DEFAULTS
from lakelog.broker.settings import STANDARD_AUTHORIZER
from lakelog.catalog import TOPIC_CONFIGS
from lakelog.errors import InvalidInputError
from lakelog.records import BATCH_BYTES_MAX


def translated(**lines: str) -> Translation:
    named = {name.replace("_", "."): value for name, value in lines.items()}
    return translate_kafka_config(named, BrokerSettings())


def verdicts(found: Translation) -> dict[str, tuple[Verdict, str]]:
    return {line.name: (line.verdict, line.words) for line in found.lines}


def test_a_file_of_nothing_asks_for_nothing() -> None:
    assert translated() == Translation(BrokerSettings(), None, ())


def test_the_file_that_comes_with_kafka_is_understood() -> None:
    found = translate_kafka_config(
        {
            "process.roles": "broker,controller",
            "node.id": "7",
            "controller.quorum.bootstrap.servers": "localhost:9093",
            "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://:9093",
            "inter.broker.listener.name": "PLAINTEXT",
            "advertised.listeners": "PLAINTEXT://broker:19092,CONTROLLER://localhost:9093",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "num.network.threads": "3",
            "log.dirs": "/tmp/kraft",
            "num.partitions": "4",
            "offsets.topic.replication.factor": "1",
            "log.retention.hours": "24",
            "log.segment.bytes": "1073741824",
            "log.retention.check.interval.ms": "300000",
            "offsets.retention.minutes": "2",
        },
        BrokerSettings(),
    )
    settings = found.settings
    (door,) = settings.listeners
    assert (door.host, door.port) == ("127.0.0.1", 9092)
    assert (door.advertised_host, door.advertised_port) == ("broker", 19092)
    assert (settings.node_id, settings.partitions) == (7, 4)
    assert settings.groups.rules.offsets_retention_ms == 120_000
    assert settings.topic_defaults == {"retention.ms": "86400000", "segment.bytes": "1073741824"}
    assert found.keep_every_ms == 300_000
    told = verdicts(found)
    assert told["node.id"] == (Verdict.USED, "")
    assert told["log.retention.hours"][0] is Verdict.TRANSLATED
    assert told["process.roles"][0] is Verdict.IGNORED
    assert all(words for verdict, words in told.values() if verdict is not Verdict.USED)


def test_the_finest_unit_counts_as_in_kafka() -> None:
    found = translated(log_retention_hours="1", log_retention_minutes="2", log_retention_ms="3")
    assert found.settings.topic_defaults == {"retention.ms": "3"}
    told = verdicts(found)
    assert told["log.retention.ms"][0] is Verdict.TRANSLATED
    assert told["log.retention.hours"] == (Verdict.IGNORED, "log.retention.ms counts")
    assert translated(log_retention_hours="-1").settings.topic_defaults == {"retention.ms": "-1"}


def test_a_secret_is_not_shown() -> None:
    found = translated(ssl_keystore_password="hunter2", sasl_jaas_config="hunter2")
    assert "hunter2" not in repr(found.lines)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("listeners", "SASL_SSL://:9092", "ssl.keystore.location"),
        ("listeners", "SSL://:9092", "ssl.keystore.location"),
        ("listeners", "INSIDE://:9092", "listener.security.protocol.map"),
        ("listeners", "9092", "NAME://HOST:PORT"),
        ("listeners", "PLAINTEXT://h:99999", "NAME://HOST:PORT"),
        ("num.partitions", "many", "a whole number"),
        ("num.partitions", "0", "a partition"),
        ("lakelog.address.percent", "101", "use 1 to 100"),
        ("auto.create.topics.enable", "yes", "true or false"),
        ("lakelog.flush.policy", "quick", "latency, balanced, cost"),
        ("log.retention.hours", "long", "a whole number"),
        ("log.cleanup.policy", "burn", "cleanup.policy"),
        ("authorizer.class.name", "com.example.Own", "StandardAuthorizer"),
        ("super.users", "admin", "User:NAME"),
        ("allow.everyone.if.no.acl.found", "sure", "true or false"),
    ],
)
def test_what_would_be_missed_is_refused(name: str, value: str, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        translate_kafka_config({name: value}, BrokerSettings())


@pytest.mark.parametrize("name", sorted(BROKER_CONFIGS))
def test_a_setting_is_told_as_it_was_given(name: str) -> None:
    row = BROKER_CONFIGS[name]
    given = "false" if row.get(BrokerSettings()) == "true" else "654321"
    if name == "group.max.session.timeout.ms":
        given = "6000000"
    if name in ("group.min.session.timeout.ms", "group.consumer.heartbeat.interval.ms"):
        given = "60"
    if name == "lakelog.address.percent":
        given = "100"
    if name == "cluster.heartbeat.ms":
        given = "300"
    if name == "lakelog.flush.policy":
        given = "cost"
    if name == "authorizer.class.name":
        given = STANDARD_AUTHORIZER
    if name == "super.users":
        given = "User:admin; User:CN=broker,O=us"
    if name == "allow.everyone.if.no.acl.found":
        given = "true"
    settings = translate_kafka_config({name: given}, BrokerSettings()).settings
    assert row.get(settings) == given
    assert settings != BrokerSettings()


@pytest.mark.parametrize("name", ["node.id", "broker.id"])
def test_without_a_node_id_a_broker_finds_one_by_itself(name: str) -> None:
    found = translate_kafka_config({name: "-1"}, BrokerSettings()).settings
    assert found.node_id is None
    assert BROKER_CONFIGS["node.id"].get(found) == "-1"


@pytest.mark.parametrize("name", sorted(TOPIC_DEFAULTS))
def test_every_default_of_a_topic_can_be_said_to_a_broker(name: str) -> None:
    row = TOPIC_DEFAULTS[name]
    default = TOPIC_CONFIGS[row.topic_config].default
    given = "1" if row.unit > 1 else default
    found = translate_kafka_config({name: given}, BrokerSettings())
    said = str(row.unit) if row.unit > 1 else default
    assert found.settings.topic_defaults == {row.topic_config: said}


def test_a_name_that_nobody_knows_is_said_to_be_unknown() -> None:
    assert "check its name" in verdicts(translated(num_partition="3"))["num.partition"][1]


@pytest.mark.parametrize("size", ["0", "-2", str(2**31)])
def test_a_broker_does_not_start_with_a_size_of_requests_that_no_frame_can_have(size: str) -> None:
    with pytest.raises(InvalidInputError, match=r"socket\.request\.max\.bytes is"):
        translate_kafka_config({"socket.request.max.bytes": size}, BrokerSettings())


def test_a_broker_does_not_start_with_topics_that_take_batches_no_reader_takes() -> None:
    with pytest.raises(InvalidInputError, match=f"at most {BATCH_BYTES_MAX}"):
        translate_kafka_config({"message.max.bytes": str(BATCH_BYTES_MAX + 1)}, BrokerSettings())
