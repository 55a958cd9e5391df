"""Every config of a topic that Kafka 4 knows: a row for each.

A row says of which type a config is, what is allowed, what Kafka's default is, what it is for, and,
if it does nothing here, why. The page docs/reference/configs.md is made of it.
"""

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from lakelog.errors import InvalidInputError
from lakelog.records import BATCH_BYTES_MAX

__all__ = ["TOPIC_CONFIGS", "ConfigType", "TopicConfig", "parse_config"]

_TEXT_CHARS_SHOWN = 64
_INT_MAX = 2**31 - 1
_LONG_MAX = 2**63 - 1


class ConfigType(IntEnum):
    """The types of configs, by their numbers in the protocol."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7
    PASSWORD = 9


class _Valid(NamedTuple):
    """Which values are allowed, and how to say it."""

    holds: Callable[[Any], bool]
    words: str


_ANY = _Valid(lambda _: True, "")


def _from(low: float) -> _Valid:
    return _Valid(lambda value: bool(value >= low), f"from {low}")


def _between(low: float, high: float) -> _Valid:
    return _Valid(lambda value: bool(low <= value <= high), f"{low} to {high}")


def _one_of(*words: str) -> _Valid:
    return _Valid(lambda value: value in words, ", ".join(words))


def _is_policy(value: tuple[str, ...]) -> bool:
    return bool(value) and set(value) <= {"compact", "delete"} and len(set(value)) == len(value)


def _is_replicas(value: tuple[str, ...]) -> bool:
    return value == ("*",) or all(
        all(part.isdecimal() for part in one.split(":")) and one.count(":") == 1 for one in value
    )


_POLICY = _Valid(_is_policy, "delete, compact, or both")
_GZIP = _Valid(lambda value: value == -1 or 1 <= value <= 9, "1 to 9, or -1")
_REPLICAS = _Valid(_is_replicas, "partition:broker,..., or *")
_CODEC = _one_of("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")
_TIMES = _one_of("CreateTime", "LogAppendTime")


class TopicConfig(NamedTuple):
    """One row of the table."""

    name: str
    type: ConfigType
    default: str
    valid: _Valid
    synonym: str
    """The name that a Kafka broker has for its default; empty: it has none."""
    doc: str
    """What it is for, in a sentence or two."""
    no_effect: str = ""
    """Why it does nothing here; empty if it acts."""
    most: int | None = None
    """What Kafka allows and no reader here would take: a greater value is refused, and where one is
    stored all the same it counts as this one."""

    @property
    def words(self) -> str:
        """What may be given."""
        kind = _KINDS[self.type]
        most = "" if self.most is None else f"at most {self.most}"
        return ", ".join(filter(None, (kind, self.valid.words, most)))

    def parse(self, text: str) -> Any:
        """Return the value that a text stands for.

        Raises:
            InvalidInputError: it is not of this type, or not allowed.
        """
        value = parse_config(self.type, text)
        if value is None or not self.valid.holds(value):
            shown = text[:_TEXT_CHARS_SHOWN]
            raise InvalidInputError(
                f"Invalid value {shown!r} for configuration {self.name}: use {self.words}"
            )
        return value


def parse_config(kind: ConfigType, text: str) -> Any:
    """Return the value that a text stands for; None: it is not of this type."""
    try:
        return _PARSE[kind](text.strip())
    except ValueError:
        return None


def _whole(text: str, most: int) -> int:
    # Java's digits: int() would take underscores as well.
    if not text.lstrip("+-").isdecimal() or not text.isascii() or len(text) > 20:
        raise ValueError(text[:_TEXT_CHARS_SHOWN])
    value = int(text)
    if not -most - 1 <= value <= most:
        raise ValueError(text)
    return value


_PARSE: dict[ConfigType, Callable[[str], Any]] = {
    ConfigType.BOOLEAN: lambda text: {"true": True, "false": False}.get(text.lower()),
    ConfigType.STRING: str,
    ConfigType.INT: lambda text: _whole(text, _INT_MAX),
    ConfigType.LONG: lambda text: _whole(text, _LONG_MAX),
    ConfigType.DOUBLE: float,
    ConfigType.LIST: lambda text: tuple(one.strip() for one in text.split(",")) if text else (),
}

_KINDS = {
    ConfigType.BOOLEAN: "true or false",
    ConfigType.STRING: "",
    ConfigType.INT: "whole numbers of 32 bits",
    ConfigType.LONG: "whole numbers of 64 bits",
    ConfigType.DOUBLE: "numbers",
    ConfigType.LIST: "",
}

_DURABLE = "what is acknowledged is in the object store"
_SEALED = "segments are cut when the journal is sealed, by size"
_INDEXED = "an index is made with its segment"
_COPIES = "the object store keeps the copies"
_BUCKET = "everything is in the object store"

_ROWS = (
    TopicConfig(
        "cleanup.policy", ConfigType.LIST, "delete", _POLICY, "log.cleanup.policy",
        "How old records go: by retention, by compaction, or by both. Records of a topic that is"
        " compacted must have keys. Compaction is done by lakelog pipeline.",
    ),
    TopicConfig(
        "compression.gzip.level", ConfigType.INT, "-1", _GZIP, "compression.gzip.level",
        "The level of gzip.",
    ),
    TopicConfig(
        "compression.lz4.level", ConfigType.INT, "9", _between(1, 17), "compression.lz4.level",
        "The level of lz4.",
    ),
    TopicConfig(
        "compression.type", ConfigType.STRING, "producer", _CODEC, "compression.type",
        "How lakelog pipeline merge compresses batches when it packs small ones together;"
        " producer: as they came. A broker stores and serves them as they came.",
    ),
    TopicConfig(
        "compression.zstd.level", ConfigType.INT, "3", _between(-131072, 22),
        "compression.zstd.level", "The level of zstd.",
    ),
    TopicConfig(
        "delete.retention.ms", ConfigType.LONG, "86400000", _from(0),
        "log.cleaner.delete.retention.ms", "How long a tombstone outlives compaction.",
    ),
    TopicConfig(
        "file.delete.delay.ms", ConfigType.LONG, "60000", _from(0), "log.segment.delete.delay.ms",
        "How long a segment that was taken out stays.", "the grace of the namespace says so",
    ),
    TopicConfig(
        "flush.messages", ConfigType.LONG, str(_LONG_MAX), _from(1), "log.flush.interval.messages",
        "Records between two syncs of the disk.", _DURABLE,
    ),
    TopicConfig(
        "flush.ms", ConfigType.LONG, str(_LONG_MAX), _from(0), "log.flush.interval.ms",
        "Time between two syncs of the disk.", _DURABLE,
    ),
    TopicConfig(
        "follower.replication.throttled.replicas", ConfigType.LIST, "", _REPLICAS,
        "", "Followers that copy slowly.", _COPIES,
    ),
    TopicConfig(
        "index.interval.bytes", ConfigType.INT, "4096", _from(0), "log.index.interval.bytes",
        "Bytes between two entries of an index.", _INDEXED,
    ),
    TopicConfig(
        "leader.replication.throttled.replicas", ConfigType.LIST, "", _REPLICAS,
        "", "Leaders that are copied from slowly.", _COPIES,
    ),
    TopicConfig(
        "local.retention.bytes", ConfigType.LONG, "-2", _from(-2),
        "log.local.retention.bytes", "Bytes kept on the disk of a broker.", _BUCKET,
    ),
    TopicConfig(
        "local.retention.ms", ConfigType.LONG, "-2", _from(-2), "log.local.retention.ms",
        "Time that records stay on the disk of a broker.", _BUCKET,
    ),
    TopicConfig(
        "max.compaction.lag.ms", ConfigType.LONG, str(_LONG_MAX), _from(1),
        "log.cleaner.max.compaction.lag.ms", "The longest that a record waits for compaction.",
    ),
    TopicConfig(
        "max.message.bytes", ConfigType.INT, "1048588", _from(0), "message.max.bytes",
        "The largest batch that is taken, as it was compressed.", most=BATCH_BYTES_MAX,
    ),
    TopicConfig(
        "message.timestamp.after.max.ms", ConfigType.LONG, "3600000", _from(0),
        "log.message.timestamp.after.max.ms",
        "How far the time of a record may be ahead of the broker's clock. Not with LogAppendTime.",
    ),
    TopicConfig(
        "message.timestamp.before.max.ms", ConfigType.LONG, str(_LONG_MAX), _from(0),
        "log.message.timestamp.before.max.ms",
        "How far the time of a record may be behind the broker's clock. Not with LogAppendTime.",
    ),
    TopicConfig(
        "message.timestamp.type", ConfigType.STRING, "CreateTime", _TIMES,
        "log.message.timestamp.type",
        "Whose time records have: the producer's, or the broker's when it stored them.",
    ),
    TopicConfig(
        "min.cleanable.dirty.ratio", ConfigType.DOUBLE, "0.5", _between(0, 1),
        "log.cleaner.min.cleanable.ratio", "How much must be worth compacting.",
    ),
    TopicConfig(
        "min.compaction.lag.ms", ConfigType.LONG, "0", _from(0),
        "log.cleaner.min.compaction.lag.ms", "The least time before a record is compacted.",
    ),
    TopicConfig(
        "min.insync.replicas", ConfigType.INT, "1", _from(1), "min.insync.replicas",
        "Copies that must exist before a record is acknowledged.", _COPIES,
    ),
    TopicConfig(
        "preallocate", ConfigType.BOOLEAN, "false", _ANY, "log.preallocate",
        "Whether files are made at their full size.", _BUCKET,
    ),
    TopicConfig(
        "remote.log.copy.disable", ConfigType.BOOLEAN, "false", _ANY, "",
        "Whether copying to an object store is off.", _BUCKET,
    ),
    TopicConfig(
        "remote.log.delete.on.disable", ConfigType.BOOLEAN, "false", _ANY,
        "", "Whether turning it off deletes what was copied.", _BUCKET,
    ),
    TopicConfig(
        "remote.storage.enable", ConfigType.BOOLEAN, "false", _ANY,
        "", "Whether older segments go to an object store.", _BUCKET,
    ),
    TopicConfig(
        "retention.bytes", ConfigType.LONG, "-1", _ANY, "log.retention.bytes",
        "What a partition keeps, in whole segments; -1: everything.",
    ),
    TopicConfig(
        "retention.ms", ConfigType.LONG, "604800000", _from(-1), "log.retention.ms",
        "How long records are kept, in whole segments; -1: for ever.",
    ),
    TopicConfig(
        "segment.bytes", ConfigType.INT, "1073741824", _from(1 << 20), "log.segment.bytes",
        "How large a segment becomes.", _SEALED,
    ),
    TopicConfig(
        "segment.index.bytes", ConfigType.INT, "10485760", _from(4), "log.index.size.max.bytes",
        "How large an index becomes.", _INDEXED,
    ),
    TopicConfig(
        "segment.jitter.ms", ConfigType.LONG, "0", _from(0), "log.roll.jitter.ms",
        "By how much the age of segments differs.", _SEALED,
    ),
    TopicConfig(
        "segment.ms", ConfigType.LONG, "604800000", _from(1), "log.roll.ms",
        "How old a segment becomes.", _SEALED,
    ),
    TopicConfig(
        "unclean.leader.election.enable", ConfigType.BOOLEAN, "false", _ANY,
        "unclean.leader.election.enable", "Whether a replica that is behind may lead.", _COPIES,
    ),
)  # fmt: skip

TOPIC_CONFIGS: Mapping[str, TopicConfig] = {row.name: row for row in _ROWS}
