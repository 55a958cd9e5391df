"""What compaction keeps besides the newest record of each key, and for how long.

    tombstones   a key without a value outdates what is before it, and must be seen by those who
                 read the log before it goes: it stays for ``delete_retention_ms`` after the first
                 cleaning that met it. That cleaning writes the moment into the batch, in place of
                 its base timestamp (attribute bit 6), so that nothing else has to remember it.
    markers      the end of a transaction stays while there are batches of it, and then as long as
                 a tombstone.
    producers    the last batch of a producer says which sequence comes next. It stays, if need be
                 without its records.
    the last     so does the last batch of what is cleaned, for its offsets.

These are Kafka's rules (org.apache.kafka.storage.internals.log.Cleaner, KIP-534), without a
transaction index: there are no aborted transactions in a log of ours.
"""

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from lakelog.errors import InvalidInputError
from lakelog.records.header import CODEC_MASK, DELETE_HORIZON_BIT, I64_MAX, I64_MIN, BatchHeader

__all__ = ["CleaningRules", "LastBatch", "Transactions", "Weight", "last_batches"]

_MARKER_KEY = struct.Struct(">hh")
_ABORT, _COMMIT = 0, 1


class Weight(NamedTuple):
    """What is to be kept of a batch, in numbers; times are those that readers see."""

    kept: int
    tombstones: int
    first_time: int
    max_time: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LastBatch:
    """What is known of a producer that may come again."""

    epoch: int
    last_offset: int | None
    """The last offset of its last batch of data in this epoch; None if there is a marker alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningRules:
    """What a cleaning goes by besides its map."""

    now_ms: int
    delete_retention_ms: int = 86_400_000
    producers: Mapping[int, LastBatch] = field(default_factory=dict)
    """The producers of the whole log, also of what is not cleaned: see ``last_batches``."""
    next_offset: int = -1
    """Where what is cleaned ends. The batch that ends there stays, even if it is empty."""

    def __post_init__(self) -> None:
        if not (0 <= self.now_ms <= I64_MAX and 0 <= self.delete_retention_ms <= I64_MAX):
            raise InvalidInputError("times and retention are milliseconds from 0 on, of 63 bits")

    def header_after(
        self, header: BatchHeader, weight: Weight, *, ends_nothing: bool = False
    ) -> BatchHeader | None:
        """Return the header of what is left of a batch, without its length and CRC.

        That is ``header`` itself if the batch stays as it is, and None if it goes. ``ends_nothing``
        says that it is a marker of a transaction that has nothing left.
        """
        attributes, horizon = header.attributes, header.delete_horizon
        if weight.kept == 0:
            bare = attributes & ~(CODEC_MASK | DELETE_HORIZON_BIT)
            empty = header._replace(attributes=bare, base_timestamp=-1, count=0)
            return empty if self.stays_empty(header) else None
        if horizon is None and (weight.tombstones > 0 or ends_nothing):
            horizon = self._horizon()
        if weight.kept == header.count and horizon == header.delete_horizon:
            return header
        attributes &= ~DELETE_HORIZON_BIT
        base_timestamp = weight.first_time
        # A negative horizon is none, Kafka finds. Nobody writes one.
        if horizon is not None and horizon >= 0:
            attributes |= DELETE_HORIZON_BIT
            base_timestamp = horizon
        return header._replace(
            attributes=attributes,
            base_timestamp=base_timestamp,
            max_timestamp=weight.max_time,
            count=weight.kept,
        )

    def has_passed(self, header: BatchHeader) -> bool:
        """Whether the horizon of a batch has passed, if it has one."""
        return header.delete_horizon is not None and header.delete_horizon <= self.now_ms

    def stays_empty(self, header: BatchHeader) -> bool:
        """Whether a batch without records stays."""
        if header.next_offset == self.next_offset:
            return True
        last = self.producers.get(header.producer_id) if header.producer_id >= 0 else None
        if last is None:
            return False
        if last.last_offset is not None:
            return header.next_offset - 1 == last.last_offset
        return header.is_control and header.producer_epoch == last.epoch

    def _horizon(self) -> int | None:
        """When what is met now may go; None for a retention that is meant to be for ever."""
        moment = self.now_ms + self.delete_retention_ms
        return moment if moment <= I64_MAX else None


class Transactions:
    """Whether markers may go: a cleaning asks of every batch of a transaction, in order."""

    def __init__(self) -> None:
        self._open: set[int] = set()

    def pass_data(self, producer_id: int) -> None:
        """Note a batch of data that is part of a transaction."""
        self._open.add(producer_id)

    def may_go(self, producer_id: int, marker: bytes | None) -> bool:
        """Whether the marker with this key (None: of a batch already emptied) ends nothing."""
        if marker is None:
            return True
        if len(marker) < _MARKER_KEY.size:
            return False
        _, kind = _MARKER_KEY.unpack_from(marker)
        if kind not in (_ABORT, _COMMIT):
            return False
        was_open = producer_id in self._open
        self._open.discard(producer_id)
        return not was_open


def last_batches(
    headers: Iterable[BatchHeader], *, active_since_ms: int = I64_MIN
) -> dict[int, LastBatch]:
    """Return the last batch of every producer of a log, given all its headers in order.

    Who has written nothing since ``active_since_ms`` is forgotten, as a broker forgets it.
    """
    found: dict[int, tuple[LastBatch, int]] = {}
    for header in headers:
        if header.producer_id < 0 or (header.is_control and not header.count):
            continue
        epoch, offset = header.producer_epoch, header.next_offset - 1
        if header.is_control:
            before = found.get(header.producer_id)
            same = before is not None and before[0].epoch == epoch
            last = before[0] if before and same else LastBatch(epoch=epoch, last_offset=None)
        else:
            last = LastBatch(epoch=epoch, last_offset=offset)
        found[header.producer_id] = last, header.max_timestamp
    return {who: last for who, (last, time) in found.items() if time >= active_since_ms}
