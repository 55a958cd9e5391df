"""Topic configs, by Kafka's names: what follows from the table.

    check_configs     what a client asks for  -> what is stored in the topic's cell, or a refusal
    TopicConfigs.of   what is stored          -> typed values for those that act
    describe_configs  what is stored          -> a row for every config, as DescribeConfigs answers
    alter_configs     what is stored, changes -> what is stored then

A change sets another value (SET), takes the value away so that the default counts (DELETE), or adds
to a list what it does not have (APPEND) and takes from it what it has (SUBTRACT). A list that was
never set is the default's: whoever appends to it adds to what counted until then.

Every config of Kafka is taken, also what means nothing on object storage: scripts set it, and to
refuse the topic would help nobody. What has no effect says why. A name that Kafka does not know is
refused, as Kafka refuses it.

Checks are for what comes in. What is stored was checked by whoever stored it, maybe by a later
version: a name that is not in this table is then left alone.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import Any, NamedTuple

from lakelog.catalog.config_table import TOPIC_CONFIGS, ConfigType, TopicConfig
from lakelog.errors import InvalidInputError
from lakelog.model import TimestampType
from lakelog.records import Codec

__all__ = [
    "Change",
    "ConfigSource",
    "DescribedConfig",
    "Operation",
    "Synonym",
    "TopicConfigs",
    "alter_configs",
    "check_configs",
    "cleanup_policy",
    "compression_codec",
    "config_value",
    "describe_configs",
]

VALUE_CHARS_MAX = 16 << 10
_NAME_CHARS_SHOWN = 64


class ConfigSource(IntEnum):
    """Where a value comes from, by its number in the protocol."""

    TOPIC = 1
    BROKER = 4
    """Said to a broker when it started."""
    DEFAULT = 5


# ---------------------------------------------------------------------------- coming in


def check_configs(configs: Mapping[str, str | None]) -> dict[str, str]:
    """Return configs as they are stored.

    Raises:
        InvalidInputError: a name is unknown or a value is not allowed; which, it says.
    """
    checked: dict[str, str] = {}
    for name, text in configs.items():
        row = TOPIC_CONFIGS.get(name)
        if row is None:
            shown = name[:_NAME_CHARS_SHOWN]
            raise InvalidInputError(
                f"Unknown topic config name: {shown}: use one of docs/reference/configs.md"
            )
        if text is None:
            raise InvalidInputError(f"Null value not supported for topic config {name}: leave it")
        _check_length(name, text)
        value = row.parse(text)
        if row.most is not None and value > row.most:
            raise InvalidInputError(
                f"Invalid value {value} for configuration {name}: use {row.words}"
            )
        checked[name] = text.strip()
    least, most = "min.compaction.lag.ms", "max.compaction.lag.ms"
    if config_value(checked, least) > config_value(checked, most):
        raise InvalidInputError(f"{least} is above {most}: use a smaller one")
    return checked


def _check_length(name: str, text: str) -> None:
    """Check how long a value is, before anything is made of it.

    Raises:
        InvalidInputError: it is longer.
    """
    if len(text) > VALUE_CHARS_MAX:
        raise InvalidInputError(
            f"The value of {name} has {len(text)} characters: use at most {VALUE_CHARS_MAX}"
        )


# ---------------------------------------------------------------------------- acting


def config_value(configs: Mapping[str, str], name: str) -> Any:
    """Return the value of one config: what is stored, or Kafka's default.

    Raises:
        InvalidInputError: what is stored is not allowed.
    """
    row = TOPIC_CONFIGS[name]
    value = row.parse(configs.get(name, row.default))
    return value if row.most is None else min(value, row.most)


def cleanup_policy(configs: Mapping[str, str]) -> tuple[str, ...]:
    """Return how old records go: "delete", "compact", or both.

    Raises:
        InvalidInputError: what is stored is not allowed.
    """
    policy: tuple[str, ...] = config_value(configs, "cleanup.policy")
    return policy


def compression_codec(configs: Mapping[str, str]) -> Codec | None:
    """Return the codec that ``compression.type`` names; None: batches stay as producers made them.

    Raises:
        InvalidInputError: what is stored is not allowed.
    """
    name = config_value(configs, "compression.type")
    if name == "producer":
        return None
    return Codec.NONE if name == "uncompressed" else Codec[name.upper()]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfigs:
    """The configs of a topic that a broker acts on, typed."""

    is_compacted: bool
    """Whether records need keys."""
    is_deleted: bool
    """Whether retention applies."""
    retention_ms: int
    retention_bytes: int
    max_message_bytes: int
    timestamp_type: TimestampType
    timestamp_before_max_ms: int
    timestamp_after_max_ms: int

    @staticmethod
    def of(configs: Mapping[str, str]) -> "TopicConfigs":
        """Return what is stored with a topic, typed; made once for equal ones.

        Raises:
            InvalidInputError: a value is not allowed.
        """
        return _typed(tuple(configs.items())) if configs else _DEFAULTS

    def refuse_times(self, topic: str, least_ms: int, most_ms: int, now_ms: int) -> str:
        """Say why records with times of producers may not be in a topic; empty: they may.

        Times are from ``least_ms`` to ``most_ms``; a negative one is none.
        """
        before_ms, after_ms = self.timestamp_before_max_ms, self.timestamp_after_max_ms
        is_early = least_ms >= 0 and now_ms - least_ms > before_ms >= 0
        if not is_early and most_ms - now_ms <= after_ms:
            return ""
        return (
            f"Timestamps {least_ms} to {most_ms} of message(s) in topic {topic} are out of range: "
            f"they should be within [{now_ms - before_ms}, {now_ms + after_ms}]; change them, or "
            "the topic's message.timestamp.before.max.ms and message.timestamp.after.max.ms"
        )

    def refuse_keyless(self, topic: str) -> str:
        """Say why records without keys may not be in a topic; empty: they may."""
        if not self.is_compacted:
            return ""
        return (
            f"Compacted topic cannot accept message without key in topic {topic}: give every "
            "record a key, or take compact out of the topic's cleanup.policy"
        )


_CREATED = {
    "CreateTime": TimestampType.CREATE_TIME,
    "LogAppendTime": TimestampType.LOG_APPEND_TIME,
}


@lru_cache(maxsize=1024)
def _typed(items: tuple[tuple[str, str], ...]) -> TopicConfigs:
    configs = dict(items)
    policy = cleanup_policy(configs)
    return TopicConfigs(
        is_compacted="compact" in policy,
        is_deleted="delete" in policy,
        retention_ms=config_value(configs, "retention.ms"),
        retention_bytes=config_value(configs, "retention.bytes"),
        max_message_bytes=config_value(configs, "max.message.bytes"),
        timestamp_type=_CREATED[config_value(configs, "message.timestamp.type")],
        timestamp_before_max_ms=config_value(configs, "message.timestamp.before.max.ms"),
        timestamp_after_max_ms=config_value(configs, "message.timestamp.after.max.ms"),
    )


_DEFAULTS = _typed(())


# ---------------------------------------------------------------------------- telling


class Synonym(NamedTuple):
    """A name under which a value stands somewhere."""

    name: str
    value: str | None
    source: ConfigSource


class DescribedConfig(NamedTuple):
    """One config of a topic or a broker, as DescribeConfigs tells it."""

    name: str
    value: str | None
    """None: it has none, or a secret one."""
    type: ConfigType
    source: ConfigSource
    synonyms: tuple[Synonym, ...]
    """The one that counts first."""
    documentation: str
    is_read_only: bool = False
    is_sensitive: bool = False

    @property
    def is_default(self) -> bool:
        return self.source is ConfigSource.DEFAULT


def describe_configs(
    configs: Mapping[str, str], names: Collection[str] | None = None
) -> list[DescribedConfig]:
    """Return every config of a topic, or those of some names; unknown names are left out."""
    return [
        _described(row, configs.get(name))
        for name, row in TOPIC_CONFIGS.items()
        if names is None or name in names
    ]


_WITHOUT_DEFAULT = {
    "log.flush.interval.ms",
    "log.retention.ms",
    "log.roll.jitter.ms",
    "log.roll.ms",
    "",
}
"""In Kafka these are not set, and a config in a coarser unit counts; or there is none at all."""


def _described(row: TopicConfig, stored: str | None) -> DescribedConfig:
    synonyms = [Synonym(row.synonym, row.default, ConfigSource.DEFAULT)]
    if row.synonym in _WITHOUT_DEFAULT:
        synonyms = []
    if stored is not None:
        synonyms.insert(0, Synonym(row.name, stored, ConfigSource.TOPIC))
    return DescribedConfig(
        name=row.name,
        value=row.default if stored is None else stored,
        type=row.type,
        source=ConfigSource.DEFAULT if stored is None else ConfigSource.TOPIC,
        synonyms=tuple(synonyms),
        documentation=f"{row.doc} No effect here: {row.no_effect}." if row.no_effect else row.doc,
    )


# ---------------------------------------------------------------------------- changing


class Operation(IntEnum):
    """What is done to a config, by its number in the protocol."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Change(NamedTuple):
    """One config that is to be another."""

    name: str
    operation: Operation
    value: str | None = None


def alter_configs(stored: Mapping[str, str], changes: Iterable[Change]) -> dict[str, str]:
    """Return configs as they are stored after some changes.

    What is stored and not spoken of stays as it is, also what this version does not know.

    Raises:
        InvalidInputError: a name is unknown, a value is not allowed, or something is no list.
    """
    gone: set[str] = set()
    new: dict[str, str | None] = {}
    for name, operation, value in changes:
        if operation is Operation.DELETE:
            gone.add(name)
        elif operation is Operation.SET:
            new[name] = value
        else:
            new[name] = _listed(stored, name, operation, value)
    kept = {name: value for name, value in stored.items() if name not in gone}
    known = {name: value for name, value in kept.items() if name in TOPIC_CONFIGS}
    return {**kept, **check_configs({**known, **new})}


def _listed(
    stored: Mapping[str, str], name: str, operation: Operation, value: str | None
) -> str | None:
    row = TOPIC_CONFIGS.get(name)
    if row is None or value is None:
        return value  # It will be refused for that.
    if row.type is not ConfigType.LIST:
        verb = operation.name.lower()
        raise InvalidInputError(
            f"Config value {verb} is not allowed for config key: {name}: set it instead"
        )
    _check_length(name, value)
    now = row.parse(stored.get(name, row.default))
    given = dict.fromkeys(one for text in value.split(",") if (one := text.strip()))
    if operation is Operation.APPEND:
        return ",".join(dict.fromkeys([*now, *given]))
    return ",".join(one for one in now if one not in given)
