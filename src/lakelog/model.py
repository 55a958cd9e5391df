"""The nouns of the house: values that every floor above speaks of.

Times are integers in the unit the wire uses (milliseconds since 1970, unless the name says
otherwise); -1 means that the writer gave none. Ranges are half-open: ``base_offset`` belongs to
it, ``next_offset`` does not.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

__all__ = ["Header", "Record", "TimestampType"]


class TimestampType(IntEnum):
    """Who set a record's timestamp."""

    CREATE_TIME = 0
    """The producer, when it made the record."""

    LOG_APPEND_TIME = 1
    """The broker, when it stored the batch: one time for all of its records."""


class Header(NamedTuple):
    """One header of a record. Keys may repeat, and their order is kept.

    The key is text, but the wire does not promise UTF-8: bytes that are not UTF-8 are kept as
    surrogate escapes, so that writing the header again gives the same bytes.
    """

    key: str
    value: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record of a partition, as a consumer sees it."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
