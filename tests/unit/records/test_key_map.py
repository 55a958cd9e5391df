"""Compaction of many records, against a dictionary; of millions by night.

Rounds of random operations on many keys: a value, or a deletion. After each round the log is
cleaned, with a map that holds all keys or only a part of them. What is left must be what a
dictionary says: of every key its newest record, at its offset, with its value.
"""

import os

import numpy as np
import pyarrow as pa
import pytest

from lakelog.records.cleaning import Cleaner
from lakelog.records.cleaning_rules import CleaningRules
from lakelog.records.columns import BatchDecoder
from lakelog.records.encoder import BatchEncoder
from lakelog.records.offset_map import BYTES_PER_KEY, OffsetMap

OPERATIONS = int(os.environ.get("LAKELOG_KEY_MAP_OPERATIONS", "500000"))  # noqa: TID251
ROUNDS = 5
KEYS = 100_000
TIME_MS = 1_700_000_000_000


class Log:
    """A log that grows and is cleaned, and what a dictionary says of it."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.run = b""
        self.end = self.cleaned_end = 0
        self.newest: dict[int, tuple[int, bool]] = {}
        """Where each key was written last, and whether that says that it is deleted."""

    def grow(self, count: int) -> None:
        keys = (self.random.zipf(1.2, count) % KEYS).astype(np.int64)
        deleted = self.random.random(count) < 0.1
        offsets = np.arange(self.end, self.end + count)
        encoder = BatchEncoder(records_max=700)
        rows = pa.record_batch(
            {
                "offset": pa.array(offsets),
                "timestamp": pa.array((offsets + TIME_MS) * 1000).cast(pa.timestamp("us", "UTC")),
                "key": pa.array(keys).cast(pa.string()),
                "value": pa.array(offsets, mask=deleted).cast(pa.string()),
            }
        )
        self.run += bytes(encoder.encode(rows))
        self.end += count
        for key, offset, gone in zip(keys.tolist(), offsets.tolist(), deleted, strict=True):
            self.newest[key] = offset, bool(gone)

    def clean(self, map_keys: int, now_ms: int) -> bool:
        """Clean as far as a map reaches; return whether that was all."""
        newest = OffsetMap(map_keys * BYTES_PER_KEY, seed=self.end)
        newest.advance(self.cleaned_end)
        noted = newest.note(self.run, offset_from=self.cleaned_end)
        if not noted.is_full:
            newest.advance(self.end)
        rules = CleaningRules(now_ms=now_ms, delete_retention_ms=0)
        self.run = bytes(Cleaner(newest, rules).clean(self.run).run)
        self.cleaned_end = newest.end
        return not noted.is_full

    def left(self) -> dict[int, tuple[int, int | None]]:
        """Every record that is left: offset -> key and value."""
        decoder = BatchDecoder(("offset", "key", "value"))
        found: dict[int, tuple[int, int | None]] = {}
        for batch in (*decoder.feed(self.run), *decoder.flush()):
            offsets, keys, values = (batch.column(at).to_pylist() for at in range(3))
            for offset, key, value in zip(offsets, keys, values, strict=True):
                found[offset] = int(key), None if value is None else int(value)
        return found


@pytest.mark.parametrize("map_keys", [KEYS * 2, KEYS // 20], ids=["all keys", "some keys"])
def test_what_is_left_is_what_a_dictionary_says(map_keys: int) -> None:
    log, runs = Log(7), 0
    for number in range(ROUNDS):
        log.grow(OPERATIONS // ROUNDS // 2)
        whole = False
        while not whole:
            whole = log.clean(map_keys, TIME_MS + number)
            runs += 1
    left = log.left()
    for key, (offset, gone) in log.newest.items():
        if not gone:
            assert left[offset] == (key, offset)
    newest = {offset for offset, _ in log.newest.values()}
    assert left.keys() <= newest, "something outdated is left"
    # A deletion goes when it is cleaned once more, all of what it deletes being gone.
    log.clean(map_keys, TIME_MS + 10 * ROUNDS)
    log.clean(map_keys, TIME_MS + 20 * ROUNDS)
    values = {offset for offset, gone in log.newest.values() if not gone}
    assert log.left().keys() == values
    assert runs >= ROUNDS * (1 if map_keys > KEYS else 2)
