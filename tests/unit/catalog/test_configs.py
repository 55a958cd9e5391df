"""Topic configs: Kafka's names, Kafka's checks, and a word on what has no effect."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.catalog import (
    TOPIC_CONFIGS,
    ConfigSource,
    ConfigType,
    TopicConfigs,
    check_configs,
    config_value,
    describe_configs,
)
from lakelog.errors import InvalidInputError
from lakelog.model import TimestampType
from lakelog.records import BATCH_BYTES_MAX
from tests.generated import GENERATED, stale

KAFKAS = [
    "cleanup.policy",
    "compression.type",
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.zstd.level",
    "delete.retention.ms",
    "file.delete.delay.ms",
    "flush.messages",
    "flush.ms",
    "follower.replication.throttled.replicas",
    "index.interval.bytes",
    "leader.replication.throttled.replicas",
    "local.retention.bytes",
    "local.retention.ms",
    "max.compaction.lag.ms",
    "max.message.bytes",
    "message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms",
    "message.timestamp.type",
    "min.cleanable.dirty.ratio",
    "min.compaction.lag.ms",
    "min.insync.replicas",
    "preallocate",
    "remote.log.copy.disable",
    "remote.log.delete.on.disable",
    "remote.storage.enable",
    "retention.bytes",
    "retention.ms",
    "segment.bytes",
    "segment.index.bytes",
    "segment.jitter.ms",
    "segment.ms",
    "unclean.leader.election.enable",
]
"""What kafka-configs --describe --all shows of a topic of Kafka 4."""


def test_every_config_of_kafka_is_there_and_no_other() -> None:
    assert sorted(TOPIC_CONFIGS) == sorted(KAFKAS)


@pytest.mark.parametrize("name", KAFKAS)
def test_its_own_default_is_allowed(name: str) -> None:
    default = TOPIC_CONFIGS[name].default
    assert check_configs({name: default}) == {name: default}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cleanup.policy", "compact"),
        ("cleanup.policy", "compact,delete"),
        ("cleanup.policy", "delete, compact"),
        ("retention.ms", "-1"),
        ("retention.ms", " 5 "),
        ("retention.bytes", "-2"),
        ("max.message.bytes", "0"),
        ("compression.gzip.level", "9"),
        ("compression.zstd.level", "-131072"),
        ("compression.type", "uncompressed"),
        ("min.cleanable.dirty.ratio", "1"),
        ("preallocate", "TRUE"),
        ("leader.replication.throttled.replicas", "*"),
        ("leader.replication.throttled.replicas", "0:1,1:2"),
        ("segment.bytes", "1048576"),
    ],
)
def test_what_kafka_takes_is_taken(name: str, text: str) -> None:
    assert check_configs({name: text}) == {name: text.strip()}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cleanup.policy", ""),
        ("cleanup.policy", "keep"),
        ("cleanup.policy", "delete,delete"),
        ("retention.ms", "-2"),
        ("retention.ms", "a week"),
        ("retention.ms", "1_000"),
        ("retention.ms", "٣"),
        ("retention.ms", ""),
        ("retention.ms", str(2**63)),
        ("max.message.bytes", str(2**31)),
        ("max.message.bytes", "-1"),
        ("compression.gzip.level", "0"),
        ("compression.lz4.level", "18"),
        ("compression.type", "brotli"),
        ("message.timestamp.type", "createtime"),
        ("min.cleanable.dirty.ratio", "1.1"),
        ("min.cleanable.dirty.ratio", "nan"),
        ("min.insync.replicas", "0"),
        ("preallocate", "yes"),
        ("leader.replication.throttled.replicas", "0"),
        ("segment.bytes", "1000"),
        ("no.such.config", "1"),
    ],
)
def test_what_kafka_refuses_is_refused_by_name(name: str, text: str) -> None:
    with pytest.raises(InvalidInputError, match=name):
        check_configs({"max.message.bytes": "100", name: text})


def test_nothing_is_no_value() -> None:
    with pytest.raises(InvalidInputError, match=r"retention\.ms"):
        check_configs({"retention.ms": None})


def test_the_least_lag_is_not_above_the_most() -> None:
    with pytest.raises(InvalidInputError, match=r"min\.compaction\.lag\.ms"):
        check_configs({"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "4"})


@given(st.sampled_from(KAFKAS), st.text(max_size=100_000))
def test_any_text_is_taken_or_refused_in_few_words(name: str, text: str) -> None:
    try:
        check_configs({name: text})
    except InvalidInputError as error:
        assert len(str(error)) < 1000  # noqa: PT017
    with pytest.raises(InvalidInputError) as refused:
        check_configs({"x" + text: "1"})
    assert len(str(refused.value)) < 1000


# ---------------------------------------------------------------------------- acting


def test_a_topic_without_configs_has_kafkas_defaults() -> None:
    typed = TopicConfigs.of({})
    assert typed == TopicConfigs(
        is_compacted=False,
        is_deleted=True,
        retention_ms=604_800_000,
        retention_bytes=-1,
        max_message_bytes=1_048_588,
        timestamp_type=TimestampType.CREATE_TIME,
        timestamp_before_max_ms=2**63 - 1,
        timestamp_after_max_ms=3_600_000,
    )


def test_what_is_stored_counts_and_is_typed_once() -> None:
    stored = {"cleanup.policy": "compact, delete", "message.timestamp.type": "LogAppendTime"}
    typed = TopicConfigs.of(stored)
    assert typed.is_compacted
    assert typed.is_deleted
    assert typed.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert TopicConfigs.of(dict(stored)) is typed


def test_what_a_later_version_stored_is_left_alone() -> None:
    assert TopicConfigs.of({"a.later.one": "1"}) == TopicConfigs.of({})


def test_a_value_that_nobody_should_have_stored_is_not_taken_for_a_default() -> None:
    with pytest.raises(InvalidInputError, match="soon"):
        TopicConfigs.of({"retention.ms": "soon"})
    assert config_value({"retention.ms": "soon"}, "retention.bytes") == -1


# ---------------------------------------------------------------------------- telling


def test_every_config_is_described_with_where_its_value_comes_from() -> None:
    given = {"retention.ms": "5", "segment.bytes": "2000000"}
    rows = {row.name: row for row in describe_configs(given)}
    assert sorted(rows) == sorted(KAFKAS)
    set_, default = rows["segment.bytes"], rows["retention.bytes"]
    assert (set_.value, set_.type, set_.source) == ("2000000", ConfigType.INT, ConfigSource.TOPIC)
    assert not set_.is_default
    assert set_.synonyms == (
        ("segment.bytes", "2000000", ConfigSource.TOPIC),
        ("log.segment.bytes", "1073741824", ConfigSource.DEFAULT),
    )
    # Kafka has no default in milliseconds, but one in hours.
    assert rows["retention.ms"].synonyms == (("retention.ms", "5", ConfigSource.TOPIC),)
    assert default.is_default
    assert default.synonyms == (("log.retention.bytes", "-1", ConfigSource.DEFAULT),)


def test_only_those_that_are_asked_for_are_described() -> None:
    rows = describe_configs({}, ["flush.ms", "no.such.config"])
    assert [row.name for row in rows] == ["flush.ms"]
    assert "No effect here" in rows[0].documentation


def test_the_pages_are_made_of_the_tables() -> None:
    assert set(GENERATED) >= {"docs/reference/configs.md"}
    assert stale() == [], "run python -m tests.generated"


def test_no_topic_may_take_batches_that_no_reader_takes() -> None:
    name, most = "max.message.bytes", BATCH_BYTES_MAX
    assert check_configs({name: str(most)}) == {name: str(most)}
    with pytest.raises(InvalidInputError, match=f"at most {most}"):
        check_configs({name: str(most + 1)})
    stored = {name: str(2**31 - 1)}
    assert config_value(stored, name) == most, "as it may have been stored before"
    assert TopicConfigs.of(stored).max_message_bytes == most
