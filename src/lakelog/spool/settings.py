"""What a spool is told when it is opened."""

import re
from dataclasses import dataclass
from enum import StrEnum

from lakelog.errors import InvalidInputError

__all__ = ["EVERY_WRITE", "NEVER", "SpoolSettings", "Sync", "WhenFull", "parse_sync"]

SEGMENT_BYTES_MAX = 1 << 30
"""Of a segment: kernels count positions in one with 32 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    """When what was written is made durable: after so many records or so many milliseconds.

    Whichever comes first. ``records=1`` is every write: an append returns when its records are on
    the disk. With neither, the disk is left to the kernel, but for segments that are sealed.
    """

    records: int | None = None
    ms: int | None = None

    def __post_init__(self) -> None:
        for number in (self.records, self.ms):
            if number is not None and number < 1:
                raise InvalidInputError(f"sync after {number}: use a number from 1 on")

    def __str__(self) -> str:
        if self.records == 1:
            return "every-write"
        parts = [
            f"{name}={number}" for name in ("records", "ms") if (number := getattr(self, name))
        ]
        return ",".join(parts) or "never"


EVERY_WRITE = Sync(records=1)
NEVER = Sync()


def parse_sync(text: str) -> Sync:
    """Return the policy that is called so: every-write, records=N, ms=M, records=N,ms=M, never.

    Raises:
        InvalidInputError: nothing is called so.
    """
    named = {"every-write": EVERY_WRITE, "never": NEVER}
    if text in named:
        return named[text]
    if not re.fullmatch(r"(records=[0-9]{1,9})?,?(ms=[0-9]{1,9})?", text) or not text.strip(","):
        raise InvalidInputError(
            f"sync {text!r}: use every-write, records=N, ms=M, records=N,ms=M or never"
        )
    parts = dict(part.split("=") for part in text.split(",") if part)
    return Sync(**{name: int(number) for name, number in parts.items()})


class WhenFull(StrEnum):
    """What becomes of an append for which ``bytes_max`` leaves no room."""

    REFUSE = "refuse"
    """It raises FullError, and nothing is written."""
    BLOCK = "block"
    """It waits until something was shipped and can be deleted."""
    DROP = "drop"
    """The oldest sealed segments are deleted, though they were not shipped; that is counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolSettings:
    """How a spool writes, and what it keeps."""

    sync: Sync = EVERY_WRITE

    segment_bytes: int = 100 << 20
    """A segment that would become larger is sealed, and the next one begun."""

    segment_ms: int = 3_600_000
    """A segment is sealed when its first record is so old."""

    bytes_max: int | None = None
    """Of all segments in the folder."""

    when_full: WhenFull = WhenFull.REFUSE

    block_ms_max: int = 60_000
    """How long an append waits for room before it raises FullError."""

    retention_ms: int | None = None
    """Sealed segments whose last record is older may be deleted."""

    retention_bytes: int | None = None
    """The oldest sealed segments of a partition that has more may be deleted."""

    keep_unshipped: bool = True
    """Whether retention deletes only what was shipped and confirmed."""

    open_files_max: int = 128
    """How many segments are held open for writing."""

    def __post_init__(self) -> None:
        if not 1 <= self.segment_bytes <= SEGMENT_BYTES_MAX:
            raise InvalidInputError(
                f"segments of {self.segment_bytes} bytes: use 1 to {SEGMENT_BYTES_MAX}"
            )
        least = {"segment_ms": 1, "block_ms_max": 0, "open_files_max": 1}
        for name, number in least.items():
            if getattr(self, name) < number:
                raise InvalidInputError(f"{name} is {getattr(self, name)}: use {number} or more")
        for name in ("bytes_max", "retention_ms", "retention_bytes"):
            if (getattr(self, name) or 0) < 0:
                raise InvalidInputError(f"{name} is {getattr(self, name)}: use 0 or more")
