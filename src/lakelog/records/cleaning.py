"""Compaction of a run of record batches: of each key the newest record stays.

    run --weigh--> per record: stays or goes --> per batch
        all stay             the batch as it is, byte for byte, still compressed
        some stay            a batch of those, of the same codec, between the same offsets
        none stays           a header alone if it must stay (``keeping``), else nothing
        the first tombstone  a batch with a horizon: when its tombstones may go

A record goes if the map knows a newer one of its key, if it has no key, or if it is a tombstone
whose horizon has passed. What the map does not reach stays. No record changes its offset, time,
key, value or headers, and no batch its base offset, last offset, leader epoch, producer or
sequence: as Kafka's cleaner does it, and to the byte what it writes when nothing is compressed.

A map may be used for all segments of a log, in any order and in many places at once. Dropping is
safe in parts: each record that goes is outdated by one that stays in the log, but for tombstones.
A tombstone goes only if what it outdates is gone. So a cleaning whose results are used in part must
not be taken for one that was done: with the next ``now_ms``, tombstones of the part that was done
would leave while older records are there to come back.
"""

from dataclasses import dataclass, field

import numpy as np

from lakelog.errors import CorruptError, UnsupportedError
from lakelog.records.batch import decode_batch
from lakelog.records.bodies import Bodies, Group
from lakelog.records.cleaning_rules import CleaningRules, Transactions, Weight
from lakelog.records.compression import Codec, compressor
from lakelog.records.header import (
    BATCH_BYTES_MAX,
    CONTROL_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Bytes,
    decode_header,
    encode_header,
)
from lakelog.records.kernels import clean as k
from lakelog.records.kernels.fields import DONE, T_BODY, T_BODY_END, T_COUNT, T_POSITION
from lakelog.records.kernels.rewrite import write_kept
from lakelog.records.memory import Array
from lakelog.records.offset_map import OffsetMap

__all__ = ["Cleaned", "Cleaner"]

_SPECIAL = TRANSACTIONAL_BIT | CONTROL_BIT
_GROWTH_BYTES = 16  # By how much a record may grow: its time and its length in their longest forms.


@dataclass(slots=True, kw_only=True)
class Cleaned:
    """What is left of a run; it grows batch by batch."""

    run: bytearray = field(default_factory=bytearray)
    bytes_read: int = 0
    batches_read: int = 0
    batches_kept: int = 0
    records_read: int = 0
    records_kept: int = 0
    tombstones: int = 0
    """Records without a value that stay for now."""
    next_horizon: int | None = None
    """When the first of them, or the first marker, may go."""

    def add(
        self, before: BatchHeader, after: BatchHeader | None, weight: Weight, *pieces: Bytes
    ) -> None:
        """Take what is left of a batch: ``after`` is its header then, None if it is gone."""
        for piece in pieces:
            self.run += piece
        self.bytes_read += before.size
        self.batches_read += 1
        self.records_read += before.count
        if after is not None:
            self.batches_kept += 1
            self.records_kept += after.count
            self.tombstones += 0 if after.is_control else weight.tombstones
            horizon = after.delete_horizon
            if horizon is not None and (weight.tombstones or after.is_control):
                known = horizon if self.next_horizon is None else self.next_horizon
                self.next_horizon = min(horizon, known)


class Cleaner:
    """Cleans the runs of a log, one after another.

    It remembers whose transactions are open from one run to the next, and nothing else: runs
    without transactions may go to different cleaners.
    """

    def __init__(
        self, newest: OffsetMap, rules: CleaningRules, *, batch_bytes_max: int = BATCH_BYTES_MAX
    ) -> None:
        """A batch that would outgrow ``batch_bytes_max``, which readers refuse, stays as it is."""
        self._map, self._rules, self._batch_bytes_max = newest, rules, batch_bytes_max
        self._transactions = Transactions()
        self._compress = {codec: compressor(codec) for codec in Codec}
        self._scratch = np.empty(k.BLOCK * k.BLOCK_WIDTH, np.int64)
        self._memory: Array = np.empty(0, np.uint8)

    def clean(self, run: Bytes, *, where: str = "") -> Cleaned:
        """Return what is left of a run of whole batches.

        Raises:
            CorruptError, UnsupportedError: as the plain codec would; also UnsupportedError if the
                times of a batch lie further apart than its format can say anew.
        """
        bodies, out = Bodies(run, where=where), Cleaned()
        for group in bodies:
            self._clean_group(bodies, group, out)
        return out

    def _clean_group(self, bodies: Bodies, group: Group, out: Cleaned) -> None:
        positions = group.table[:, T_POSITION].tolist()
        headers = [decode_header(bodies.view, at) for at in positions]
        orders, ended = self._orders(bodies.view, positions, headers)
        keep, weights = self._weigh(bodies, group, orders)
        left = [
            self._rules.header_after(header, weight, ends_nothing=index in ended)
            for index, (header, weight) in enumerate(zip(headers, weights, strict=True))
        ]
        is_new = [after is not None and after is not headers[i] for i, after in enumerate(left)]
        chosen = np.array([new and w.kept > 0 for new, w in zip(is_new, weights, strict=True)])
        new_bodies = iter(self._new_bodies(bodies, group, keep, chosen, left))
        for at, header, after, weight in zip(positions, headers, left, weights, strict=True):
            as_it_is = bodies.view[at : at + header.size]
            if after is None or after is header:
                out.add(header, after, weight, as_it_is if after else b"")
                continue
            body = self._compressed(after, next(new_bodies) if after.count else b"")
            head = encode_header(after, body)
            if len(head) + len(body) > self._batch_bytes_max:
                out.add(header, header, weight, as_it_is)  # A horizon makes records longer.
            else:
                out.add(header, after, weight, head, body)

    def _orders(
        self, view: memoryview, positions: list[int], headers: list[BatchHeader]
    ) -> tuple[Array, set[int]]:
        """Say what decides about each batch; also, which are markers that end nothing."""
        orders, ended = np.full(len(headers), k.BY_KEY, np.int64), set()
        for index, header in enumerate(headers):
            if not header.attributes & _SPECIAL:
                continue
            if not header.is_control:
                self._transactions.pass_data(header.producer_id)
                continue
            orders[index] = k.KEEP
            marker = _marker(view[positions[index] :], header)
            if self._transactions.may_go(header.producer_id, marker):
                ended.add(index)
                if self._rules.has_passed(header):
                    orders[index] = k.DROP
        return orders, ended

    def _weigh(self, bodies: Bodies, group: Group, orders: Array) -> tuple[Array, list[Weight]]:
        """Return a flag for each record of a group, whether it stays, and sums for each batch."""
        table = group.table
        keep = np.empty(int(table[:, T_COUNT].sum()), np.uint8)
        weights = np.zeros((len(table), k.WEIGHT_WIDTH), np.int64)
        status = k.weigh_records(
            group.address, table, orders, self._map.numbers, self._rules.now_ms,
            keep.ctypes.data, weights, self._scratch,
        )  # fmt: skip
        if status != DONE:
            bodies.judge(int(table[np.argmin(weights[:, k.W_KEPT]), T_POSITION]))
        return keep, [Weight._make(row) for row in weights.tolist()]

    def _new_bodies(
        self,
        bodies: Bodies,
        group: Group,
        keep: Array,
        chosen: Array,
        headers: list[BatchHeader | None],
    ) -> list[memoryview]:
        """Return new bodies for the batches that are chosen, not compressed yet.

        They are good until the next group: the memory is used again, because fresh memory is slow.
        """
        if not chosen.any():
            return []
        table, counts = np.ascontiguousarray(group.table[chosen]), group.table[:, T_COUNT]
        firsts = (np.cumsum(counts) - counts)[chosen]
        new = [
            header
            for header, is_chosen in zip(headers, chosen.tolist(), strict=True)
            if header and is_chosen
        ]
        base_times = np.array([header.base_timestamp for header in new], np.int64)
        room = int((table[:, T_BODY_END] - table[:, T_BODY]).sum())
        room += _GROWTH_BYTES * sum(header.count for header in new)
        if len(self._memory) < room:
            self._memory = np.empty(room, np.uint8)
        ends = np.zeros(len(table), np.int64)
        status = write_kept(
            group.address, table, base_times, firsts,
            keep.ctypes.data, self._memory.ctypes.data, ends,
        )  # fmt: skip
        if status != DONE:
            at = int(table[int(np.argmin(ends)), T_POSITION])
            raise UnsupportedError(
                "timestamps of a batch lie further than 64 bits apart; leave this log as it is",
                at=at,
                where=bodies.where,
            )
        view, stops = memoryview(self._memory.data), ends.tolist()
        return [view[start:stop] for start, stop in zip([0, *stops], stops, strict=False)]

    def _compressed(self, header: BatchHeader, body: Bytes) -> Bytes:
        return self._compress[header.codec](body) if body and header.codec else body


def _marker(batch: memoryview, header: BatchHeader) -> bytes | None:
    """Return the key of a marker, None if its batch is empty."""
    if not header.count:
        return None
    try:
        return decode_batch(batch).records[0].key or b""
    except (CorruptError, UnsupportedError):
        return b""  # The kernel stops there too, and then it is said what is wrong.
