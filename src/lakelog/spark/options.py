"""Options of the data source: Spark's own words for a Kafka source, and a few more.

    path, layout                         where segments are, and how they lie there
    subscribe | subscribePattern | assign
    startingOffsets, startingTimestamp, startingOffsetsByTimestamp,
    startingOffsetsByTimestampStrategy, endingOffsets, endingTimestamp, endingOffsetsByTimestamp
    table                                records, or what they lie in: segments, batches
    includeHeaders, columns              what is decoded
    mode                                 what damage means: FAILFAST or PERMISSIVE
    splitBytes, minPartitions            how many tasks
    store.*                              passed to the store: endpoint, region, credentials

Names are not case-sensitive, as everywhere in Spark. A timestamp for all partitions goes before one
for each, and that before offsets.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lakelog.errors import InvalidInputError
from lakelog.history import EARLIEST, LATEST, SPLIT_BYTES, Mode, Place, Selection, mode_named

__all__ = ["ReadOptions", "is_new_table", "parse_options"]

_STORE_PREFIX = "store."
_KNOWN = {
    name.lower(): name
    for name in (
        "path", "layout", "subscribe", "subscribePattern", "assign", "startingOffsets",
        "startingTimestamp", "startingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy",
        "endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp", "includeHeaders",
        "columns", "splitBytes", "minPartitions", "table", "mode",
    )
}  # fmt: skip
IN_THE_QUERY = "give them in the query: SELECT * FROM t WITH (path = ..., layout = ...)"
"""What Spark hands to the reader of a table in its catalog."""

TABLES = ("records", "segments", "batches")
_ABOUT_RECORDS = ("starting", "ending", "includeHeaders", "mode")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """The options of a read, understood."""

    path: str
    layout: str
    selection: Selection
    starting: Place
    ending: Place
    include_headers: bool
    columns: tuple[str, ...] | None
    split_bytes: int
    min_partitions: int
    table: str
    mode: Mode
    store_options: Mapping[str, str]


def parse_options(options: Mapping[str, str]) -> ReadOptions:
    """Return what the options of a read mean.

    Raises:
        InvalidInputError: one is missing, unknown, or cannot be understood.
    """
    if not options:
        raise InvalidInputError(
            "Spark passed no options: for a table in its catalog it keeps them to itself; "
            f"{IN_THE_QUERY}"
        )
    given, store_options = _sort(options)
    for name in ("path", "layout"):
        if name not in given:
            raise InvalidInputError(f'option {name!r} is missing: .option("{name}", ...)')
    columns = given.get("columns")
    return ReadOptions(
        path=given["path"],
        layout=given["layout"].lower(),
        selection=_selection(given),
        starting=_starting(given),
        ending=_ending(given),
        include_headers=_boolean(given, "includeHeaders"),
        columns=None if columns is None else tuple(c.strip() for c in columns.split(",")),
        split_bytes=_number(given, "splitBytes", SPLIT_BYTES),
        min_partitions=_number(given, "minPartitions", 1),
        table=_table(given),
        mode=mode_named(given.get("mode", Mode.FAILFAST)),
        store_options=store_options,
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


def _sort(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    given: dict[str, str] = {}
    store_options: dict[str, str] = {}
    for name, value in options.items():
        lower = name.lower()
        if lower.startswith(_STORE_PREFIX):
            store_options[name[len(_STORE_PREFIX) :]] = value
        elif lower in _KNOWN:
            given[_KNOWN[lower]] = value
        elif not lower.startswith("kafka."):
            # What is meant for a Kafka client has no meaning here, and does no harm.
            raise InvalidInputError(f"no option {name!r}; there are {', '.join(_KNOWN.values())}")
    return given, store_options


def _selection(given: Mapping[str, str]) -> Selection:
    chosen = [name for name in ("subscribe", "subscribePattern", "assign") if name in given]
    if len(chosen) > 1:
        raise InvalidInputError(f"only one of {', '.join(chosen)} may be given")
    if "subscribe" in given:
        topics = frozenset(filter(None, map(str.strip, given["subscribe"].split(","))))
        return Selection(topics=topics)
    if "subscribePattern" in given:
        return Selection(pattern=given["subscribePattern"])
    if "assign" in given:
        named = _json(given, "assign")
        return Selection(partitions=frozenset((t, int(p)) for t, ps in named.items() for p in ps))
    return Selection()


def _table(given: Mapping[str, str]) -> str:
    table = given.get("table", TABLES[0]).lower()
    if table not in TABLES:
        raise InvalidInputError(f"no table {table!r}; there are {', '.join(TABLES)}")
    if table != TABLES[0]:
        for name in given:
            if name.startswith(_ABOUT_RECORDS):
                raise InvalidInputError(f"option {name} is about records, not {table}")
    return table


def _starting(given: Mapping[str, str]) -> Place:
    strategy = given.get("startingOffsetsByTimestampStrategy", "error").lower()
    if strategy not in ("error", "latest"):
        raise InvalidInputError(f"startingOffsetsByTimestampStrategy {strategy!r}: error or latest")
    if given.get("startingOffsets", "").strip().lower() == "latest":
        raise InvalidInputError("starting offset can't be latest for batch queries")
    return _place(given, "starting", EARLIEST, or_latest=strategy == "latest")


def _ending(given: Mapping[str, str]) -> Place:
    if given.get("endingOffsets", "").strip().lower() == "earliest":
        raise InvalidInputError("ending offset can't be earliest")
    place = _place(given, "ending", LATEST, or_latest=True)
    if place.offsets and EARLIEST in place.offsets.values():
        raise InvalidInputError("ending offset can't be -2, which stands for earliest")
    return place


def _place(given: Mapping[str, str], side: str, default: int, *, or_latest: bool) -> Place:
    if f"{side}Timestamp" in given:
        timestamp = _number(given, f"{side}Timestamp", 0)
        return Place(timestamp=timestamp, or_latest=or_latest)
    if f"{side}OffsetsByTimestamp" in given:
        times = _by_partition(given, f"{side}OffsetsByTimestamp")
        return Place(timestamps=times, or_latest=or_latest)
    text = given.get(f"{side}Offsets", "").strip()
    if text.lower() in ("", "earliest", "latest"):
        return Place(offset=default)
    return Place(offset=default, offsets=_by_partition(given, f"{side}Offsets"))


def _by_partition(given: Mapping[str, str], name: str) -> dict[tuple[str, int], int]:
    named = _json(given, name)
    try:
        return {
            (topic, int(partition)): int(value)
            for topic, partitions in named.items()
            for partition, value in partitions.items()
        }
    except (AttributeError, TypeError, ValueError) as error:
        raise InvalidInputError(f'option {name}: like {{"topic": {{"0": 23}}}}') from error


def _json(given: Mapping[str, str], name: str) -> dict[str, Any]:
    try:
        found = json.loads(given[name])
    except ValueError as error:
        raise InvalidInputError(f"option {name} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise InvalidInputError(f"option {name} is not a JSON object")
    return found


def _boolean(given: Mapping[str, str], name: str) -> bool:
    text = given.get(name, "false").lower()
    if text not in ("true", "false"):
        raise InvalidInputError(f"option {name} is {text!r}, not true or false")
    return text == "true"


def _number(given: Mapping[str, str], name: str, default: int) -> int:
    text = given.get(name, str(default)).strip()
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise InvalidInputError(f"option {name} is {text!r}, not a number")
    return int(text)
