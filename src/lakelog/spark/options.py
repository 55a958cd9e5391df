"""Options of the data source: Spark's own words for a Kafka source, and a few more.

    path, layout                         where the log is, and how it lies there
    subscribe | subscribePattern | assign
    startingOffsets, startingTimestamp, startingOffsetsByTimestamp,
    startingOffsetsByTimestampStrategy, endingOffsets, endingTimestamp, endingOffsetsByTimestamp
    failOnDataLoss                       what it means that records are gone
    maxOffsetsPerTrigger, minOffsetsPerTrigger, maxTriggerDelay
    table                                records, or what they lie in
    includeHeaders, columns              what is decoded
    mode                                 what damage means: FAILFAST or PERMISSIVE
    splitBytes, minPartitions, maxRecordsPerPartition
                                         how many tasks
    topicIds                             which incarnations of topics are meant
    store.*                              passed to the store: endpoint, region, credentials
    kafka.*                              meant for a Kafka client, and passed over

Names are not case-sensitive, as everywhere in Spark. A timestamp for all partitions goes before one
for each, and that before offsets. What is refused is refused in the words of Spark's Kafka source,
where it has any. The schema of a query is asked for before it is known whether it is a stream, so
that what only a batch or only a stream may say is judged when one of them is made.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakelog.errors import InvalidInputError
from lakelog.log.tables import NAMESPACE_TABLES
from lakelog.segments import (
    EARLIEST,
    LATEST,
    NAMESPACE,
    SPLIT_BYTES,
    Mode,
    OffsetSpec,
    Selection,
    mode_named,
)
from lakelog.segments.tables import TABLES
from lakelog.store import StoreSpec

__all__ = ["ReadOptions", "is_new_table", "parse_options", "sort_options"]

_STORE_PREFIX = "store."
_KNOWN = {
    name.lower(): name
    for name in (
        "path", "layout", "subscribe", "subscribePattern", "assign", "startingOffsets",
        "startingTimestamp", "startingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy",
        "endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp", "includeHeaders",
        "columns", "splitBytes", "minPartitions", "table", "mode", "failOnDataLoss",
        "maxRecordsPerPartition", "maxOffsetsPerTrigger", "minOffsetsPerTrigger",
        "maxTriggerDelay", "topicIds",
    )
}  # fmt: skip
_PASSED_OVER = ("kafka.", "kafkaconsumer.", "fetchoffset.", "groupidprefix", "partition.metadata.")
"""How to talk to a Kafka broker: none takes part here."""
_REFUSED = {
    "kafka.auto.offset.reset": "Instead set the source option 'startingoffsets' to 'earliest' or "
    "'latest' to specify where to start.",
    "kafka.key.deserializer": "Use DataFrame operations to explicitly deserialize the keys.",
    "kafka.value.deserializer": "Use DataFrame operations to explicitly deserialize the values.",
    "kafka.enable.auto.commit": "The source doesn't commit any offsets.",
    "kafka.interceptor.classes": "The source reads no records by a consumer.",
}
IN_THE_QUERY = "give them in the query: SELECT * FROM t WITH (path = ..., layout = ...)"
"""What Spark hands to the reader of a table in its catalog."""

_RECORDS = "records"
STRATEGIES = ("subscribe", "subscribePattern", "assign")
_ABOUT_RECORDS = ("starting", "ending", "includeHeaders", "mode")
_TRIGGER_DELAY = "15m"
_UNITS_MS = {"us": 0.001, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000,
             "d": 86_400_000}  # fmt: skip
_SPECIAL = frozenset({str(EARLIEST), str(LATEST)})
_JAVA_ALONE = re.compile(r"&&|\[[^\]]*\[|\\[QEpPhHRvVXGzK]|\(\?<[A-Za-z]")
"""Words of Java's patterns that mean nothing, or something else, to Python's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """The options of a read, understood."""

    path: str
    layout: str
    selection: Selection
    starting: OffsetSpec
    ending: OffsetSpec
    include_headers: bool
    columns: tuple[str, ...] | None
    split_bytes: int
    min_partitions: int
    table: str
    mode: Mode
    store_options: Mapping[str, str] = field(repr=False)
    fail_on_data_loss: bool = True
    records_max: int | None = None
    """Of a task."""
    offsets_max: int | None = None
    """Of a trigger."""
    offsets_min: int | None = None
    trigger_delay_ms: int = 0
    topic_ids: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_live(self) -> bool:
        return self.layout == NAMESPACE

    @property
    def store(self) -> StoreSpec:
        return StoreSpec(self.path, dict(self.store_options))


def parse_options(options: Mapping[str, str], *, query: str = "batch") -> ReadOptions:
    """Return what the options of a read mean; ``query`` is batch, stream, or not known yet: any.

    Raises:
        InvalidInputError: one is missing, unknown, or cannot be understood.
    """
    if not options:
        raise InvalidInputError(
            "Spark passed no options: for a table in its catalog it keeps them to itself; "
            f"{IN_THE_QUERY}"
        )
    given, store_options = sort_options(
        options, known=_KNOWN, refused=_REFUSED, passed_over=_PASSED_OVER
    )
    if "path" not in given:
        raise InvalidInputError("option 'path' is missing: .option(\"path\", ...)")
    layout = given.get("layout", NAMESPACE).lower()
    table = _table(given, (_RECORDS, *(NAMESPACE_TABLES if layout == NAMESPACE else TABLES)))
    columns = given.get("columns")
    default = LATEST if query == "stream" else EARLIEST
    parsed = ReadOptions(
        path=given["path"],
        layout=layout,
        selection=_selection(given, required=layout == NAMESPACE and table == _RECORDS),
        starting=_starting(given, default),
        ending=_offset_spec(given, "ending", LATEST, or_latest=True),
        include_headers=_boolean(given, "includeHeaders"),
        columns=None if columns is None else tuple(c.strip() for c in columns.split(",")),
        split_bytes=_number(given, "splitBytes", SPLIT_BYTES),
        min_partitions=_positive(given, "minPartitions") or 1,
        table=table,
        mode=mode_named(given.get("mode", Mode.FAILFAST)),
        store_options=StoreSpec(given["path"], store_options).options,
        fail_on_data_loss=_boolean(given, "failOnDataLoss", "true"),
        records_max=_positive(given, "maxRecordsPerPartition"),
        offsets_max=_positive(given, "maxOffsetsPerTrigger"),
        offsets_min=_positive(given, "minOffsetsPerTrigger"),
        trigger_delay_ms=_duration_ms(given, "maxTriggerDelay", _TRIGGER_DELAY),
        topic_ids={name: str(id_) for name, id_ in _json(given, "topicIds", "{}").items()},
    )
    if query == "batch":
        _check_batch(parsed)
    elif query == "stream":
        _check_stream(parsed, given)
    if parsed.is_live and parsed.mode is not Mode.FAILFAST:
        raise InvalidInputError("mode PERMISSIVE is for segments alone: use layout kafs")
    return parsed


def _check_batch(parsed: ReadOptions) -> None:
    starting, ending = parsed.starting, parsed.ending
    if starting.offset == LATEST and not starting.is_by_time:
        raise InvalidInputError("starting offset can't be latest for batch queries on Kafka")
    if ending.offset == EARLIEST and not ending.is_by_time:
        raise InvalidInputError("ending offset can't be earliest for batch queries on Kafka")
    for (topic, partition), offset in (starting.offsets or {}).items():
        if offset == LATEST:
            raise InvalidInputError(
                f"startingOffsets for {topic}-{partition} can't be latest for batch queries on "
                "Kafka"
            )
    for (topic, partition), offset in (ending.offsets or {}).items():
        if offset == EARLIEST:
            raise InvalidInputError(
                f"ending offset for {topic}-{partition} can't be -2, which stands for earliest, "
                "for batch queries on Kafka"
            )


def _check_stream(parsed: ReadOptions, given: Mapping[str, str]) -> None:
    if not parsed.is_live or parsed.table != _RECORDS:
        raise InvalidInputError(
            f"a stream reads records of a namespace: {parsed.table} of layout {parsed.layout} can "
            "be read as a batch"
        )
    for name in ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"):
        if name in given:
            raise InvalidInputError("ending offset not valid in streaming queries")
    low, high = parsed.offsets_min, parsed.offsets_max
    if low is not None and high is not None and low > high:
        raise InvalidInputError(
            f"The value of minOffsetPerTrigger({low}) is higher than the "
            f"maxOffsetsPerTrigger({high})"
        )


def is_new_table(options: Mapping[str, str]) -> bool:
    """Whether Spark asks on behalf of CREATE TABLE: then it passes the table's properties.

    Raises:
        InvalidInputError: there are options among them, which no reader of the table would see.
    """
    if "provider" not in options:
        return False
    lost = [name for name in options if name.startswith("option.") or name == "location"]
    if lost:
        name = lost[0].removeprefix("option.")
        raise InvalidInputError(
            f"Spark would keep {name!r} to itself and not tell the reader of this table; "
            f"create the table without it, and {IN_THE_QUERY}"
        )
    return True


def sort_options(
    options: Mapping[str, str],
    *,
    known: Mapping[str, str],
    refused: Mapping[str, str],
    passed_over: tuple[str, ...],
    of: str = "",
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the options by their right names, and those of the store; by lower case, as Spark's.

    Raises:
        InvalidInputError: one is refused, or nobody knows it.
    """
    given: dict[str, str] = {}
    store_options: dict[str, str] = {}
    for name, value in options.items():
        lower = name.lower()
        if lower in refused:
            short = lower.removeprefix("kafka.")
            raise InvalidInputError(f"Kafka option '{short}' is not supported. {refused[lower]}")
        if lower.startswith(_STORE_PREFIX):
            store_options[name[len(_STORE_PREFIX) :]] = value
        elif lower in known:
            given[known[lower]] = value
        elif not lower.startswith(passed_over):
            # What is meant for a Kafka client has no meaning here, and does no harm.
            raise InvalidInputError(
                f"no option {name!r}{of}; there are {', '.join(known.values())}"
            )
    return given, store_options


def _selection(given: Mapping[str, str], *, required: bool) -> Selection:
    chosen = [name for name in STRATEGIES if name in given]
    if len(chosen) > 1:
        raise InvalidInputError(
            "Only one of the following options can be specified for Kafka source: "
            f"{', '.join(STRATEGIES)}. See the docs for more details: only one of "
            f"{', '.join(chosen)} may be given"
        )
    if "subscribe" in given:
        topics = frozenset(filter(None, map(str.strip, given["subscribe"].split(","))))
        if not topics:
            raise InvalidInputError(
                "No topics to subscribe to as specified value for option 'subscribe' is "
                f"'{given['subscribe']}'"
            )
        return Selection(topics=topics)
    if "subscribePattern" in given:
        return Selection(pattern=_pattern(given["subscribePattern"]))
    if "assign" in given:
        return Selection(partitions=_assigned(given))
    if required:
        raise InvalidInputError(
            "One of the following options must be specified for Kafka source: "
            f"{', '.join(STRATEGIES)}. See the docs for more details."
        )
    return Selection()


def _pattern(pattern: str) -> str:
    if not pattern.strip():
        raise InvalidInputError(
            f"Pattern to subscribe is empty as specified value for option 'subscribePattern' is "
            f"'{pattern}'"
        )
    found = _JAVA_ALONE.search(pattern)
    if found:
        raise InvalidInputError(
            f"subscribePattern {pattern!r}: {found[0]!r} means something to Java's patterns and "
            "not to Python's, which are used here: say it in another way"
        )
    return pattern.strip()


def _assigned(given: Mapping[str, str]) -> frozenset[tuple[str, int]]:
    named = _json(given, "assign")
    try:
        return frozenset((topic, _whole(p)) for topic, numbers in named.items() for p in numbers)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f'Expected e.g. {{"topicA":[0,1],"topicB":[0,1]}}, got {given["assign"]}'
        ) from error


def _table(given: Mapping[str, str], tables: tuple[str, ...]) -> str:
    table = given.get("table", tables[0]).lower()
    if table not in tables:
        raise InvalidInputError(f"no table {table!r}; there are {', '.join(tables)}")
    if table != tables[0]:
        for name in given:
            if name.startswith(_ABOUT_RECORDS):
                raise InvalidInputError(f"option {name} is about records, not {table}")
    return table


def _starting(given: Mapping[str, str], default: int) -> OffsetSpec:
    strategy = given.get("startingOffsetsByTimestampStrategy", "error").lower()
    if strategy not in ("error", "latest"):
        raise InvalidInputError(f"startingOffsetsByTimestampStrategy {strategy!r}: error or latest")
    return _offset_spec(given, "starting", default, or_latest=strategy == "latest")


def _offset_spec(
    given: Mapping[str, str], side: str, default: int, *, or_latest: bool
) -> OffsetSpec:
    if f"{side}Timestamp" in given:
        text = given[f"{side}Timestamp"]
        timestamp = int(text) if text in _SPECIAL else _number(given, f"{side}Timestamp", 0)
        return OffsetSpec(timestamp=timestamp, or_latest=or_latest)
    if f"{side}OffsetsByTimestamp" in given:
        times = _by_partition(given, f"{side}OffsetsByTimestamp")
        if any(time < EARLIEST for time in times.values()):
            raise InvalidInputError(
                f"option {side}OffsetsByTimestamp: a time is in milliseconds since 1970, -1 for "
                f"the latest record or -2 for the earliest, got {min(times.values())}"
            )
        return OffsetSpec(timestamps=times, or_latest=or_latest)
    text = given.get(f"{side}Offsets", "").strip().lower()
    words = {"earliest": EARLIEST, "latest": LATEST}
    if f"{side}Offsets" not in given or text in words:
        return OffsetSpec(offset=words.get(text, default))
    return OffsetSpec(offset=default, offsets=_by_partition(given, f"{side}Offsets"))


# ---------------------------------------------------------------------------- values


def _by_partition(given: Mapping[str, str], name: str) -> dict[tuple[str, int], int]:
    named = _json(given, name)
    try:
        return {
            (topic, int(partition)): _whole(value)
            for topic, partitions in named.items()
            for partition, value in partitions.items()
        }
    except (AttributeError, TypeError, ValueError) as error:
        raise InvalidInputError(
            f'option {name}: like {{"topicA":{{"0":23,"1":-1}},"topicB":{{"0":-2}}}}, got '
            f"{given[name]}"
        ) from error


def _whole(value: object) -> int:
    """Return a number of JSON, which a text or a truth is not."""
    if type(value) is not int:
        raise TypeError(f"{value!r} is no whole number")
    return value


def _json(given: Mapping[str, str], name: str, default: str = "") -> dict[str, Any]:
    try:
        found = json.loads(given.get(name, default))
    except ValueError as error:
        raise InvalidInputError(f"option {name} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise InvalidInputError(f"option {name} is not a JSON object")
    return found


def _boolean(given: Mapping[str, str], name: str, default: str = "false") -> bool:
    text = given.get(name, default).lower()
    if text not in ("true", "false"):
        raise InvalidInputError(f"option {name} is {text!r}, not true or false")
    return text == "true"


def _number(given: Mapping[str, str], name: str, default: int) -> int:
    text = given.get(name, str(default))
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise InvalidInputError(f"option {name} is {text!r}, not a number")
    return int(text)


def _positive(given: Mapping[str, str], name: str) -> int | None:
    if name not in given:
        return None
    number = _number(given, name, 0)
    if number < 1:
        raise InvalidInputError(f"{name} must be positive")
    return number


def _duration_ms(given: Mapping[str, str], name: str, default: str) -> int:
    """Return milliseconds, as Spark reads times: 15m, 10s, or a number of milliseconds."""
    text = given.get(name, default).strip().lower()
    found = re.fullmatch(r"([0-9]{1,15})\s*([a-z]*)", text)
    unit = _UNITS_MS.get(found[2] or "ms") if found else None
    if found is None or unit is None:
        raise InvalidInputError(f"option {name} is {text!r}: use a time like 15m or 500ms")
    return int(int(found[1]) * unit)
