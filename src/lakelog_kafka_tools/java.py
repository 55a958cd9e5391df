"""What Apache's text owes to Java: the order of hash maps, numbers, ids, durations and dates.

Where a tool prints the contents of a hash map, the rows come in the order of that map, which
follows from the hashes and the size of the table. These functions compute the same order.
"""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Hashable, Iterable
from datetime import UTC, datetime, timedelta, timezone
from typing import TypeVar

from lakelog_kafka_tools.thrown import Thrown, illegal

__all__ = [
    "HASH_CAPACITY",
    "decimal",
    "described_order",
    "hash_order",
    "id_bytes",
    "id_text",
    "int_hash",
    "null_text",
    "optional_long",
    "parse_int",
    "partition_hash",
    "read_datetime",
    "read_duration_ms",
    "split",
    "text_hash",
    "trie_order",
]

K = TypeVar("K", bound=Hashable)
HASH_CAPACITY = 16
_WORD = 0xFFFFFFFF
_INT = re.compile(r"[+-]?[0-9]+")
_ID_BYTES = 16
_DURATION = re.compile(
    r"([-+]?)P(?:([-+]?[0-9]+)D)?"
    r"(T(?:([-+]?[0-9]+)H)?(?:([-+]?[0-9]+)M)?(?:([-+]?[0-9]+)(?:[.,]([0-9]{0,9}))?S)?)?",
    re.IGNORECASE,
)
_DATE = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})T(\d{2}):(\d{2}):(\d{2})\.(\d{1,3})(?:(Z)|([-+]\d{2}):?(\d{2})?)?"
)


def text_hash(text: str) -> int:
    """Return what ``String.hashCode`` does, as a number without a sign."""
    value = 0
    units = text.encode("utf-16-be")
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] << 8 | units[at + 1])) & _WORD
    return value


def int_hash(number: int) -> int:
    """Return what ``Integer.hashCode`` does."""
    return number & _WORD


def partition_hash(partition: tuple[str, int]) -> int:
    """Return what ``TopicPartition.hashCode`` does."""
    topic, number = partition
    return (31 * (31 + number) + text_hash(topic)) & _WORD


def hash_order(
    keys: Iterable[K], hashed: Callable[[K], int], capacity: int = HASH_CAPACITY
) -> list[K]:
    """Return keys in the order of a ``HashMap`` into which they were put one after the other.

    ``capacity`` is what the map was made with. A table grows when three quarters of it are taken,
    and a bucket keeps the order in which it was filled.
    """
    unique = list(dict.fromkeys(keys))
    size = 1
    while size < capacity:
        size *= 2
    while len(unique) > size * 3 // 4:
        size *= 2

    def bucket(key: K) -> int:
        value = hashed(key)
        return (value ^ value >> 16) & (size - 1)

    return sorted(unique, key=bucket)


def described_order(names: Iterable[str]) -> list[str]:
    """Return topics in the order in which Java's admin client hands out what it knows of them.

    It keeps what it waits for in a map, copies that, and puts what has come into a third one. The
    copy may be larger than the others, and then it tells how their buckets are filled.
    """
    given = list(dict.fromkeys(names))
    waiting = hash_order(given, text_hash, len(given))
    copied = hash_order(waiting, text_hash, int(len(given) / 0.75 + 1))
    return hash_order(copied, text_hash, len(given))


def trie_order(keys: Iterable[K], hashed: Callable[[K], int]) -> list[K]:
    """Return keys in the order of an immutable set of Scala's.

    Up to four stay as they came. More stand in a trie of five bits a level, in which a node tells
    the keys that it holds itself before those below it.
    """
    unique = list(dict.fromkeys(keys))
    return unique if len(unique) <= 4 else _trie(unique, hashed, 0)


def _mixed(value: int) -> int:
    """Return a hash as Scala mixes it before use."""
    value = value + (~(value << 9) & _WORD) & _WORD
    value ^= value >> 14
    value = value + (value << 4) & _WORD
    return value ^ value >> 10


def _trie(keys: list[K], hashed: Callable[[K], int], shift: int) -> list[K]:
    slots: dict[int, list[K]] = {}
    for key in keys:
        slots.setdefault(_mixed(hashed(key)) >> shift & 31, []).append(key)
    own = [slots[slot][0] for slot in sorted(slots) if len(slots[slot]) == 1]
    shared = (slots[slot] for slot in sorted(slots) if len(slots[slot]) > 1)
    return own + [
        key
        for below in shared
        for key in (_trie(below, hashed, shift + 5) if shift < 30 else below)
    ]


def parse_int(text: str, bits: int = 32) -> int | None:
    """Return a number as ``Integer.parseInt`` reads it; None if it is none."""
    if not _INT.fullmatch(text):
        return None
    value = int(text)
    return value if -(1 << bits - 1) <= value < 1 << bits - 1 else None


def decimal(value: float) -> str:
    """Return a double as ``Double.toString`` does, between a thousandth and ten million."""
    if value != 0 and not 1e-3 <= abs(value) < 1e7:
        digits, _, power = f"{value:.17e}".partition("e")
        for places in range(1, 18):
            digits, _, power = f"{value:.{places}e}".partition("e")
            if float(f"{digits}e{power}") == value:
                break
        digits = digits.rstrip("0")
        return f"{digits}0E{int(power)}" if digits.endswith(".") else f"{digits}E{int(power)}"
    return repr(float(value))


def split(text: str, separator: str) -> list[str]:
    """Return the parts of a text as ``String.split`` does: empty ones at the end are left out.

    ``separator`` is a regular expression.
    """
    parts = re.split(separator, text)
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return parts


def null_text(value: str | None) -> str:
    """Return a text as Java prints it."""
    return "null" if value is None else value


def optional_long(value: int | None) -> str:
    """Return what ``OptionalLong.toString`` does."""
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"


def id_text(topic_id: bytes) -> str:
    """Return a topic id as Kafka writes it."""
    return urlsafe_b64encode(topic_id).rstrip(b"=").decode()


def id_bytes(text: str) -> bytes:
    """Return the topic id that a text stands for.

    Raises:
        Thrown: it stands for none.
    """
    if len(text) > 24:
        raise illegal(
            f"Input string with prefix `{text[:24]}` is too long to be decoded as a base64 UUID"
        )
    try:
        data = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        raise illegal(f"Illegal base64 character in `{text}`") from None
    if len(data) != _ID_BYTES:
        raise illegal(
            f"Input string `{text}` decoded as {len(data)} bytes, which is not equal to the"
            " expected 16 bytes of a base64-encoded UUID"
        )
    return data


def read_duration_ms(text: str) -> int:
    """Return a duration such as PT1H30M in milliseconds.

    Raises:
        Thrown: it is none.
    """
    found = _DURATION.fullmatch(text)
    days, time = (found[2], found[3]) if found else (None, None)
    if not found or (days is None and time is None) or time in ("T", "t"):
        raise Thrown(
            "java.time.format.DateTimeParseException", "Text cannot be parsed to a Duration"
        )
    hours, minutes, seconds = (int(found[at] or 0) for at in (4, 5, 6))
    fraction = int((found[7] or "").ljust(9, "0")) // 1_000_000
    whole = ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds
    value = whole * 1000 + (-fraction if (found[6] or "").startswith("-") else fraction)
    return -value if found[1] == "-" else value


def read_datetime(text: str) -> int:
    """Return a time such as 2026-01-02T03:04:05.678 in milliseconds; without a zone it is UTC.

    Raises:
        Thrown: it is none.
    """
    if "T" not in text:
        raise Thrown(
            "java.text.ParseException",
            "Error parsing timestamp. It does not contain a 'T' according to ISO8601 format",
        )
    found = _DATE.fullmatch(text)
    zone: timezone = UTC
    if found and found[9]:
        hours, minutes = int(found[9]), int(found[10] or 0)
        zone = timezone(timedelta(hours=hours, minutes=-minutes if hours < 0 else minutes))
    try:
        assert found is not None
        parts = [int(found[at]) for at in range(1, 7)]
        at = datetime(parts[0], *parts[1:6], tzinfo=zone)  # type: ignore[arg-type, misc]
    except (AssertionError, ValueError):
        zoned = text if re.search(r"T.*[-+Z]", text) else f"{text}Z"
        raise Thrown("java.text.ParseException", f'Unparseable date: "{zoned}"') from None
    return int(at.timestamp()) * 1000 + int(found[7])
