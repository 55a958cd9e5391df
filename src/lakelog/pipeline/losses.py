"""What a conversion would lose, and whether it may.

    loss              what is gone
    keys              the key of every record
    null-values       a null value (a tombstone) becomes an empty one
    headers           the headers of every record
    time-order        a time that goes back is lifted to the one before it
    timestamp-types   log append time is taken for create time
    producers         producer ids, epochs and sequences, by which a broker knows a repeated batch
    transactions      markers, and which records are part of a transaction, aborted ones among them

Nothing is lost silently: a record that has what the target cannot hold is refused, unless that loss
is allowed by name. The last two concern batches: only a copy of whole batches keeps them.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakelog.errors import InvalidInputError
from lakelog.formats import Carries
from lakelog.records import BatchHeader

__all__ = ["LOSSES", "LossGuard", "parse_losses"]

LOSSES = {
    "keys": "keys",
    "null-values": "null values",
    "headers": "headers",
    "time-order": "times that go back",
    "timestamp-types": "log append time",
    "producers": "producer ids",
    "transactions": "transactions",
}
"""Each loss, and how to say what is lost."""

_NO_PRODUCER = -1


def _refusal(loss: str, offset: int, target: str) -> InvalidInputError:
    return InvalidInputError(
        f"offset {offset}: {target} cannot hold {LOSSES[loss]}; allow it with --lose {loss}"
    )


def parse_losses(names: Iterable[str]) -> frozenset[str]:
    """Return losses by name; one name may hold several, with commas.

    Raises:
        InvalidInputError: there is no such loss.
    """
    found = {name.strip() for text in names for name in text.split(",") if name.strip()}
    unknown = sorted(found - set(LOSSES))
    if unknown:
        raise InvalidInputError(f"no loss {unknown[0]!r}; there are {', '.join(LOSSES)}")
    return frozenset(found)


@dataclass(slots=True, kw_only=True)
class LossGuard:
    """Lets through what the target can hold, or what may be lost."""

    target: str
    carries: Carries
    allowed: frozenset[str]
    last_time_us: int | None = None

    def columns(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch without what the target cannot hold.

        Raises:
            InvalidInputError: that is more than may be lost.
        """
        if not self.carries.keys:
            batch = self._without(batch, "key", "keys")
        if not self.carries.headers:
            batch = self._without(batch, "headers", "headers")
        if not self.carries.null_values and batch.column("value").null_count:
            self._refuse("null-values", batch, batch.column("value").is_null())
            filled = batch.column("value").fill_null(b"")
            batch = batch.set_column(batch.schema.get_field_index("value"), "value", filled)
        if not self.carries.timestamp_types:
            types = batch.column("timestampType").to_numpy()
            if types.any():
                self._refuse("timestamp-types", batch, pa.array(types != 0))
        if self.carries.time_order:
            self._check_times(batch)
        return batch

    def header(self, header: BatchHeader) -> None:
        """Look at a batch that is not copied as it is.

        Raises:
            InvalidInputError: what only a whole batch can tell may not be lost.
        """
        if header.producer_id != _NO_PRODUCER and "producers" not in self.allowed:
            raise _refusal("producers", header.base_offset, self.target)
        in_transaction = header.is_transactional or header.is_control
        if in_transaction and "transactions" not in self.allowed:
            raise _refusal("transactions", header.base_offset, self.target)

    @property
    def minds_headers(self) -> bool:
        """Whether ``header`` can refuse anything at all."""
        return not {"producers", "transactions"} <= self.allowed

    def _without(self, batch: pa.RecordBatch, column: str, loss: str) -> pa.RecordBatch:
        values = batch.column(column)
        if values.null_count == len(values):
            return batch
        self._refuse(loss, batch, values.is_valid())
        empty = pa.nulls(len(values), values.type)
        return batch.set_column(batch.schema.get_field_index(column), batch.field(column), empty)

    def _check_times(self, batch: pa.RecordBatch) -> None:
        times = batch.column("timestamp").cast(pa.int64()).to_numpy()
        if not len(times):
            return
        before = times[0] if self.last_time_us is None else self.last_time_us
        steps = np.diff(times, prepend=before)
        if (steps < 0).any():
            self._refuse("time-order", batch, pa.array(steps < 0))
        self.last_time_us = int(times.max())

    def _refuse(self, loss: str, batch: pa.RecordBatch, where: pa.Array) -> None:
        if loss not in self.allowed:
            offset = batch.column("offset")[where.index(True).as_py()].as_py()
            raise _refusal(loss, offset, self.target)
