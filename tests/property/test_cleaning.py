"""Laws of compaction, against a model of it in plain Python on decoded records."""

import pickle
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from lakelog.errors import CorruptError, UnsupportedError
from lakelog.model import Header, Record, TimestampType
from lakelog.records import (
    CRC_START,
    HEADER_BYTES,
    Batch,
    BatchHeader,
    Codec,
    NewBatch,
    decode_batches,
    decode_header,
    encode_batch,
)
from lakelog.records.cleaning import Cleaned, Cleaner
from lakelog.records.cleaning_rules import CleaningRules, last_batches
from lakelog.records.offset_map import OffsetMap
from tests.shorthands import clean
from tests.strategies import I64_MAX

NOW = 1_600_000_050_000
SMALL = 256
"""Bytes of a map with room for 7 keys."""

keys = (
    st.none()
    | st.sampled_from([b"", b"a", b"b", b"abcdefg", b"abcdefgh", b"key" * 30])
    | (st.binary(max_size=9))
)
values = st.none() | st.binary(max_size=20) | st.binary(max_size=2).map(lambda b: b * 90)
times = st.integers(1_600_000_000_000, 1_600_000_100_000) | st.integers(-1, 1 << 61)
headers = st.sampled_from([(), (), (Header("h", None), Header("", b"v" * 70))])
markers = st.sampled_from([b"\0\0\0\0", b"\0\0\0\1", b"\0\0\0\5", b"\0"])


# ------------------------------------------------------------------------------- what is drawn


@st.composite
def logs(
    draw: st.DrawFn,
    *,
    codec: Codec | None = None,
    transactions: bool = True,
    many_keys: bool = False,
) -> list[bytes]:
    """Batches as they follow one another in a partition, some compacted before."""
    offset, found = draw(st.integers(0, 1000) | st.just(1 << 61)), []
    some_keys = st.integers(0, 99).map(b"%d".__mod__) if many_keys else keys
    for _ in range(draw(st.integers(0, 6))):
        first = offset + draw(st.integers(0, 2))
        offset = first
        rows = []
        is_control = transactions and draw(st.integers(0, 4)) == 0
        for _ in range(draw(st.integers(0, 1 if is_control else 6))):
            offset += draw(st.integers(0, 2))
            key = draw(markers) if is_control else draw(some_keys)
            rows.append(
                Record(
                    offset=offset,
                    timestamp=draw(times),
                    key=key,
                    value=draw(values),
                    headers=draw(headers),
                )
            )
            offset += 1
        offset += draw(st.integers(0, 2))
        offset = max(offset, first + 1)
        kind = draw(st.sampled_from(TimestampType))
        if kind is TimestampType.LOG_APPEND_TIME and rows:
            rows = [replace(row, timestamp=rows[0].timestamp) for row in rows]
        producer = draw(st.integers(-1, 2))
        found.append(
            encode_batch(
                NewBatch(
                    records=rows,
                    base_offset=first,
                    next_offset=offset,
                    codec=draw(st.sampled_from(Codec)) if codec is None else codec,
                    leader_epoch=draw(st.integers(0, 3)),
                    timestamp_type=kind,
                    is_transactional=is_control or (transactions and draw(st.booleans())),
                    is_control=is_control,
                    delete_horizon=draw(st.none() | times) if rows else None,
                    producer_id=producer,
                    producer_epoch=-1 if producer < 0 else draw(st.integers(0, 1)),
                    base_sequence=-1 if producer < 0 or is_control else draw(st.integers(0, 9)),
                )
            )
        )
    return found


@st.composite
def rules(draw: st.DrawFn, log: Sequence[bytes], *, retention_min: int = 0) -> CleaningRules:
    found = [decode_header(batch) for batch in log]
    ends = [-1, *(header.next_offset for header in found)]
    return CleaningRules(
        now_ms=draw(st.just(NOW) | times.filter(lambda time: time >= 0)),
        delete_retention_ms=draw(st.integers(retention_min, 10**8)),
        producers=draw(st.just(last_batches(found)) | st.just({})),
        next_offset=draw(st.sampled_from([-1, ends[-1]])),
    )


# -------------------------------------------------------------------------------------- model


def newest_of(log: Iterable[Batch], offset_from: int = 0) -> dict[bytes, int]:
    return {
        record.key: record.offset
        for batch in log
        if not batch.header.is_control
        for record in batch.records
        if record.key is not None and record.offset >= offset_from
    }


@dataclass
class Model:
    """Kafka's cleaner, record by record."""

    newest: dict[bytes, int]
    end: int
    rules: CleaningRules

    def __post_init__(self) -> None:
        self.open: set[int] = set()

    def clean(self, batch: Batch) -> Batch | None:
        """Return what is left of a batch; the same object if nothing changes."""
        header, now = batch.header, self.rules.now_ms
        ended = self._ends_nothing(batch)
        horizon = header.delete_horizon
        left = [record for record in batch.records if self._stays(header, record, ended=ended)]
        if not left:
            if not self._stays_empty(header):
                return None
            bare = header.attributes & ~0x47
            return Batch(
                header=header._replace(attributes=bare, base_timestamp=-1, count=0), records=()
            )
        dead = any(record.value is None for record in left)
        if horizon is None and (dead or ended):
            horizon = now + self.rules.delete_retention_ms
        elif len(left) == len(batch.records):
            return batch
        if horizon is not None and horizon < 0:
            horizon = None
        header = header._replace(
            attributes=header.attributes & ~0x40 | (0 if horizon is None else 0x40),
            base_timestamp=left[0].timestamp if horizon is None else horizon,
            max_timestamp=max(record.timestamp for record in left),
            count=len(left),
        )
        return Batch(header=header, records=tuple(left))

    def _ends_nothing(self, batch: Batch) -> bool:
        header = batch.header
        if not header.is_control:
            if header.is_transactional:
                self.open.add(header.producer_id)
            return False
        if not batch.records:
            return True
        if batch.records[0].key not in (b"\0\0\0\0", b"\0\0\0\1"):
            return False
        if header.producer_id in self.open:
            self.open.remove(header.producer_id)
            return False
        return True

    def _stays(self, header: BatchHeader, record: Record, *, ended: bool) -> bool:
        passed = header.delete_horizon is not None and header.delete_horizon <= self.rules.now_ms
        if header.is_control:
            return not (ended and passed)
        if record.offset >= self.end:
            return True
        if record.key is None or self.newest.get(record.key, -1) > record.offset:
            return False
        return record.value is not None or not passed

    def _stays_empty(self, header: BatchHeader) -> bool:
        if header.next_offset == self.rules.next_offset:
            return True
        last = self.rules.producers.get(header.producer_id)
        if header.producer_id < 0 or last is None:
            return False
        if last.last_offset is None:
            return header.is_control and header.producer_epoch == last.epoch
        return header.next_offset == last.last_offset + 1


class Bare(NamedTuple):
    """A batch without what follows from its bytes."""

    header: BatchHeader
    records: tuple[Record, ...]


def bare(batch: Batch) -> Bare:
    return Bare(batch.header._replace(length=0, crc=0), batch.records)


def noted(log: Sequence[bytes], *, offset_from: int = 0, seed: int = 7) -> OffsetMap:
    found = OffsetMap(256 * SMALL, seed=seed)
    found.note(b"".join(log), offset_from=offset_from)
    return found


def batches_of(log: Sequence[bytes]) -> list[Batch]:
    return list(decode_batches(b"".join(log)))


def view_of(batches: Iterable[Batch]) -> dict[bytes, tuple[int, Record]]:
    """What somebody sees who reads the log as a table: the last value of every key."""
    rows = {
        record.key: (record.offset, record)
        for batch in batches
        if not batch.header.is_control
        for record in batch.records
        if record.key is not None
    }
    return {key: row for key, row in rows.items() if row[1].value is not None}


# --------------------------------------------------------------------------------------- laws


@given(st.data())
def test_the_map_holds_the_newest_offset_of_every_key(data: st.DataObject) -> None:
    log = data.draw(logs())
    batches = batches_of(log)
    offset_from = data.draw(st.sampled_from([0, *(b.header.base_offset + 1 for b in batches)]))
    found = noted(log, offset_from=offset_from, seed=data.draw(st.integers(0, (1 << 128) - 1)))

    expected = newest_of(batches, offset_from)

    assert len(found) == len(expected)
    assert {key: found.get(key) for key in expected} == expected
    assert found.get(b"never drawn: it is too long") is None
    assert found.end == max((b.header.next_offset for b in batches), default=0)


@given(st.data())
def test_what_is_left_is_what_the_model_leaves(data: st.DataObject) -> None:
    log = data.draw(logs())
    batches = batches_of(log)
    some = data.draw(st.integers(0, len(log)))
    laws = data.draw(rules(log))
    newest = noted(log[:some])

    found = clean(b"".join(log), newest, laws)

    model = Model(newest_of(batches[:some]), newest.end, laws)
    left = [model.clean(batch) for batch in batches]
    expected = [batch for batch in left if batch is not None]
    assert [bare(b) for b in decode_batches(found.run)] == [bare(b) for b in expected]
    _counts_are_right(found, batches, expected)


def _counts_are_right(found: Cleaned, before: list[Batch], after: list[Batch]) -> None:
    data = [batch for batch in after if not batch.header.is_control]
    assert found.batches_read == len(before)
    assert found.batches_kept == len(after)
    assert found.records_read == sum(len(batch.records) for batch in before)
    assert found.records_kept == sum(len(batch.records) for batch in after)
    assert found.tombstones == sum(row.value is None for batch in data for row in batch.records)


@given(st.data())
def test_a_batch_that_loses_nothing_keeps_its_bytes(data: st.DataObject) -> None:
    log = data.draw(logs())
    laws, newest = data.draw(rules(log)), noted(log)
    model = Model(newest_of(batches_of(log)), newest.end, laws)

    found = clean(b"".join(log), newest, laws).run

    kept = [b for b, batch in zip(log, batches_of(log), strict=True) if model.clean(batch) is batch]
    at = 0
    for batch in kept:
        at = found.index(batch, at) + len(batch)


@pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.name.lower())
@given(st.data())
def test_a_batch_keeps_its_codec(codec: Codec, data: st.DataObject) -> None:
    log = data.draw(logs(codec=codec))
    found = clean(b"".join(log), noted(log), data.draw(rules(log))).run

    assert {b.header.codec for b in decode_batches(found) if b.records} <= {codec}


@given(st.data())
def test_cleaning_twice_is_cleaning_once(data: st.DataObject) -> None:
    """Without transactions: the end of one may go when the batches of it have gone."""
    log = data.draw(logs(transactions=False))
    laws, newest = data.draw(rules(log, retention_min=1)), noted(log)
    once = clean(b"".join(log), newest, laws)

    twice = clean(once.run, newest, laws)

    assert twice.run == once.run
    assert (twice.tombstones, twice.next_horizon) == (once.tombstones, once.next_horizon)


@given(st.data())
def test_a_table_made_of_the_log_is_the_same_after_any_cleanings(data: st.DataObject) -> None:
    """Maps too small for the keys, cleanings at any time: deleted keys never come back."""
    log = data.draw(logs(many_keys=True))
    expected = view_of(batches_of(log))
    run, dirty_from, now = b"".join(log), 0, 0
    for _ in range(data.draw(st.integers(1, 4))):
        now = min(now + data.draw(st.sampled_from([0, 1, 10**6, 1 << 62])), I64_MAX)
        newest = OffsetMap(SMALL, seed=data.draw(st.integers(0, 5)))
        newest.note(run, offset_from=dirty_from)
        laws = CleaningRules(
            now_ms=now, delete_retention_ms=data.draw(st.sampled_from([0, 5, 10**6]))
        )
        run = bytes(clean(run, newest, laws).run)
        dirty_from = newest.end

        assert view_of(decode_batches(run)) == expected


@given(st.data())
def test_small_maps_come_to_what_a_large_one_does(data: st.DataObject) -> None:
    log = data.draw(logs(transactions=False, many_keys=True))
    laws = data.draw(rules(log, retention_min=1))
    at_once = clean(b"".join(log), noted(log), laws).run
    run, dirty_from = b"".join(log), 0
    while True:
        newest = OffsetMap(SMALL, seed=3)
        is_full = newest.note(run, offset_from=dirty_from).is_full
        assert len(newest) <= newest.room == 7
        run, dirty_from = bytes(clean(run, newest, laws).run), newest.end
        if not is_full:
            break

    assert rows_of(run) == rows_of(at_once)


def rows_of(run: bytes | bytearray) -> list[Record]:
    return [record for batch in decode_batches(run) for record in batch.records]


@given(st.data())
def test_runs_may_be_cut_anywhere_between_batches(data: st.DataObject) -> None:
    log = data.draw(logs())
    laws, newest = data.draw(rules(log)), noted(log)
    cut = data.draw(st.integers(0, len(log)))
    cleaner, parts = Cleaner(newest, laws), OffsetMap(256 * SMALL, seed=7)

    pieces = [cleaner.clean(b"".join(part)).run for part in (log[:cut], log[cut:])]
    for part in (log[:cut], log[cut:]):
        parts.note(b"".join(part))

    assert b"".join(pieces) == clean(b"".join(log), newest, laws).run
    assert pickle.dumps(parts) == pickle.dumps(newest)


@given(st.data())
def test_damage_is_found_as_the_plain_codec_finds_it(data: st.DataObject) -> None:
    run = bytearray(b"".join(data.draw(logs())))
    for _ in range(data.draw(st.integers(1, 3)) if run else 0):
        run[data.draw(st.integers(0, len(run) - 1))] = data.draw(st.integers(0, 255))
    del run[data.draw(st.integers(0, len(run))) :]
    newest = OffsetMap(256 * SMALL, seed=1)

    _all_say_the_same(run, newest)


@given(st.data())
def test_damage_behind_a_good_checksum_is_found_likewise(data: st.DataObject) -> None:
    log = [bytearray(batch) for batch in data.draw(logs(codec=Codec.NONE))]
    for batch in log:
        if len(batch) > HEADER_BYTES and data.draw(st.booleans()):
            batch[data.draw(st.integers(CRC_START, len(batch) - 1))] = data.draw(
                st.integers(0, 255)
            )
            batch[CRC_START - 4 : CRC_START] = crc32c(batch[CRC_START:]).to_bytes(4, "big")

    _all_say_the_same(b"".join(log), OffsetMap(256 * SMALL, seed=1))


def _all_say_the_same(run: bytes | bytearray, newest: OffsetMap) -> None:
    said = [
        outcome(lambda: list(decode_batches(run, where="it"))),
        outcome(lambda: newest.note(run, where="it")),
        outcome(lambda: clean(run, newest, CleaningRules(now_ms=NOW), where="it")),
    ]

    assert said == said[:1] * 3


def outcome(act: Callable[[], object]) -> str:
    try:
        act()
    except (CorruptError, UnsupportedError) as error:
        return f"{type(error).__name__}: {error}"
    return "sound"
