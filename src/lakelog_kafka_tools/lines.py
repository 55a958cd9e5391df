"""Lines become records: headers, key and value, and what stands between them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from lakelog_kafka_tools.java import split
from lakelog_kafka_tools.thrown import Thrown

__all__ = ["LineReader", "NewRecord", "line_reader"]

_MARKS = {
    "key.separator": "\t",
    "headers.separator": ",",
    "headers.delimiter": "\t",
    "headers.key.separator": ":",
}
"""What separates the parts of a line, unless properties say otherwise."""


class NewRecord(NamedTuple):
    """What a line stands for."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LineReader:
    """How lines are read."""

    parse_key: bool
    key_separator: str
    parse_headers: bool
    headers_delimiter: str
    headers_separator: str
    headers_key_separator: str
    ignore_error: bool
    null_marker: str | None

    def read(self, line: str, number: int) -> NewRecord:
        """Return the record of a line.

        Raises:
            Thrown: something is missing in it.
        """
        at = 0
        headers = key = None
        if self.parse_headers:
            headers = self._upto(line, 0, self.headers_delimiter, "headers delimiter", number)
            at = 0 if headers is None else len(headers) + len(self.headers_delimiter)
        if self.parse_key:
            key = self._upto(line, at, self.key_separator, "key separator", number)
        value = line[at + (0 if key is None else len(key) + len(self.key_separator)) :]
        pairs: list[tuple[str, bytes | None]] = []
        if headers is not None and headers != self.null_marker:
            pairs = self._pairs(headers, number)
        return NewRecord(self._bytes(key), self._bytes(value), pairs)

    def _upto(self, line: str, start: int, mark: str, what: str, number: int) -> str | None:
        end = line.find(mark, start)
        if end >= 0:
            return line[start:end]
        if self.ignore_error:
            return None
        raise _kafka(f"No {what} found on line number {number}: '{line}'")

    def _bytes(self, text: str | None) -> bytes | None:
        return None if text is None or text == self.null_marker else text.encode()

    def _pairs(self, headers: str, number: int) -> list[tuple[str, bytes | None]]:
        found: list[tuple[str, bytes | None]] = []
        for part in split(headers, self.headers_separator):
            name, mark, value = part.partition(self.headers_key_separator)
            if not mark:
                if not self.ignore_error:
                    raise _kafka(
                        f"No header key separator found in pair '{part}' on line number {number}"
                    )
                found.append((part, None))
                continue
            if name == self.null_marker:
                raise _kafka(
                    f"Header keys should not be equal to the null marker '{name}' as they can't be"
                    " null"
                )
            found.append((name, self._bytes(value)))
        return found


def line_reader(settings: Mapping[str, str]) -> LineReader:
    """Return the reader that properties ask for.

    Raises:
        Thrown: they contradict each other.
    """

    def truth(name: str) -> bool:
        return settings.get(name, "").strip().lower() == "true"

    marks = {name: settings.get(name, default) for name, default in _MARKS.items()}
    null_marker = settings.get("null.marker")
    for one, other in (
        ("headers.delimiter", "headers.separator"),
        ("headers.delimiter", "headers.key.separator"),
        ("headers.separator", "headers.key.separator"),
    ):
        if marks[one] == marks[other]:
            raise _kafka(f"{one} and {other} may not be equal")
    for name, mark in marks.items():
        if mark == null_marker:
            raise _kafka(f"null.marker and {name} may not be equal")
    return LineReader(
        parse_key=truth("parse.key"),
        key_separator=marks["key.separator"],
        parse_headers=truth("parse.headers"),
        headers_delimiter=marks["headers.delimiter"],
        headers_separator=marks["headers.separator"],
        headers_key_separator=marks["headers.key.separator"],
        ignore_error=truth("ignore.error"),
        null_marker=null_marker,
    )


def _kafka(message: str) -> Thrown:
    return Thrown("org.apache.kafka.common.KafkaException", message)
