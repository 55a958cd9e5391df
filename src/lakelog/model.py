"""The nouns: values that every package speaks of.

Times are integers in the unit the wire uses (milliseconds since 1970, unless the name says
otherwise); -1 means that the writer gave none. Ranges are half-open: ``base_offset`` belongs to
it, ``next_offset`` does not.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from lakelog.errors import InvalidInputError

__all__ = ["Header", "Record", "Rules", "TimestampType"]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What every process of a namespace must agree on. Fixed when the namespace is made."""

    lanes: int = 4
    """For new topics. Four per expected broker; it may grow later."""

    grace_ms: int = 3_600_000
    """How long deleters wait after a floor was raised. Whoever sleeps less than a quarter of it
    between looking and acting needs not look again."""

    checkpoint_every: int = 64
    """Bundles from one checkpoint to the next."""

    def __post_init__(self) -> None:
        if not 1 <= self.lanes <= 1024 or self.grace_ms < 4 or self.checkpoint_every < 1:
            raise InvalidInputError(f"{self}: use 1 to 1024 lanes, a grace from 4 ms")
