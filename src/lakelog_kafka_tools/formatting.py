"""Records become text: what Apache's DefaultMessageFormatter prints of them."""

import struct
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lakelog_kafka_tools.java import decimal
from lakelog_kafka_tools.thrown import kafka_error

__all__ = ["Formatter", "Seen", "formatter"]

Deserialize = Callable[[bytes], str]
_PACKAGE = "org.apache.kafka.common.serialization"
_FIXED = {
    "Short": struct.Struct(">h"),
    "Integer": struct.Struct(">i"),
    "Long": struct.Struct(">q"),
    "Float": struct.Struct(">f"),
    "Double": struct.Struct(">d"),
    "Boolean": struct.Struct(">?"),
}


class Seen(NamedTuple):
    """A record as a consumer sees it."""

    partition: int
    offset: int
    timestamp_type: str | None
    """CreateTime or LogAppendTime; None: it has no time."""
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Formatter:
    """What of a record is printed, and how."""

    shown: frozenset[str] = frozenset({"value"})
    key_separator: bytes = b"\t"
    line_separator: bytes = b"\n"
    headers_separator: bytes = b","
    null_literal: bytes = b"null"
    deserializers: Mapping[str, Deserialize] = field(default_factory=dict)

    def format(self, record: Seen) -> bytes:
        """Return the text of a record.

        Raises:
            Thrown: it is not what a deserializer takes.
        """
        parts: list[bytes] = []
        if "timestamp" in self.shown:
            kind, at = record.timestamp_type, record.timestamp
            parts.append(b"NO_TIMESTAMP" if kind is None else f"{kind}:{at}".encode())
        if "partition" in self.shown:
            parts.append(b"Partition:%d" % record.partition)
        if "offset" in self.shown:
            parts.append(b"Offset:%d" % record.offset)
        if "delivery" in self.shown:
            parts.append(b"Delivery:NOT_PRESENT")
        if "epoch" in self.shown:
            # The console consumer drops what it knows of epochs before it prints.
            parts.append(b"Epoch:NOT_PRESENT")
        if "headers" in self.shown:
            pairs = [
                f"{name}:".encode("utf-8", "surrogateescape") + self._text("headers", value)
                for name, value in record.headers
            ]
            parts.append(self.headers_separator.join(pairs) if pairs else b"NO_HEADERS")
        if "key" in self.shown:
            parts.append(self._text("key", record.key))
        if "value" in self.shown:
            parts.append(self._text("value", record.value))
        return self.key_separator.join(parts) + self.line_separator if parts else b""

    def _text(self, what: str, data: bytes | None) -> bytes:
        given = self.null_literal if data is None else data
        deserialize = self.deserializers.get(what)
        return given if deserialize is None else deserialize(given).encode()


def formatter(settings: Mapping[str, str], warn: Callable[[str], None]) -> Formatter:
    """Return the formatter that properties ask for; ``warn`` gets what is missing."""
    shown = {"value"}
    for name in (
        "timestamp",
        "key",
        "offset",
        "delivery",
        "epoch",
        "partition",
        "headers",
        "value",
    ):
        given = settings.get(f"print.{name}")
        if given is not None:
            (shown.add if given.strip().lower() == "true" else shown.discard)(name)
    deserializers: dict[str, Deserialize] = {}
    for what in ("key", "value", "headers"):
        kind = settings.get(f"{what}.deserializer")
        if kind is None:
            continue
        found = _deserializer(kind)
        if found is None:
            warn(f"Unable to instantiate a deserializer from {kind}")
        else:
            deserializers[what] = found
    return Formatter(
        shown=frozenset(shown),
        key_separator=settings.get("key.separator", "\t").encode(),
        line_separator=settings.get("line.separator", "\n").encode(),
        headers_separator=settings.get("headers.separator", ",").encode(),
        null_literal=settings.get("null.literal", "null").encode(),
        deserializers=deserializers,
    )


def _deserializer(kind: str) -> Deserialize | None:
    package, _, name = kind.rpartition(".")
    name = name.removesuffix("Deserializer")
    if package != _PACKAGE:
        return None
    if name == "String":
        return lambda data: data.decode("utf-8", "replace")
    if name == "UUID":
        return lambda data: str(uuid.UUID(data.decode()))
    form = _FIXED.get(name)
    if form is None:
        return None

    def fixed(data: bytes) -> str:
        if len(data) != form.size:
            message = f"Size of data received by {name}Deserializer is not {form.size}"
            raise kafka_error("Serialization", message)
        (value,) = form.unpack(data)
        if isinstance(value, bool):
            return str(value).lower()
        return decimal(value) if isinstance(value, float) else str(value)

    return fixed
