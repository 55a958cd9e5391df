"""The newest offset of every key in a stretch of a log, in a fixed amount of memory.

    key --hash, 122 bits--> slot   | hash 1 | hash 2 | offset + 1 |   24 bytes, 0 0 0 when empty

Compaction reads a log twice. The first time it notes here where each key was written last, the
second time it drops every record that is not the last of its key (``cleaning``). Keys themselves
are not kept, only their hashes, so a key takes 24 bytes however long it is; slots are filled to
three quarters, which makes it **32 bytes of memory a key**, and a pickled map 24.

Taking one key for another would lose a record. With m keys of up to n bytes in a log, chosen
without knowledge of the seed, the chance that it happens anywhere is at most
``m^2 / 2 * ((n / 7 + 1) / 2^61)^2``: for a hundred million keys of 100 bytes, 2^-62. The seed must
therefore not be known to those who write the keys. Keys are found again only under the same seed.

A map that is full stops where it is and says so. What is before ``end`` can be cleaned with it, and
the next cleaning begins there.
"""

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from lakelog.errors import InvalidInputError
from lakelog.records.bodies import Bodies
from lakelog.records.header import Bytes
from lakelog.records.kernels import clean as k
from lakelog.records.kernels.fields import BAD, DONE, FULL, T_POSITION
from lakelog.records.memory import Array

__all__ = ["BYTES_PER_KEY", "MEMORY_BYTES", "Noted", "OffsetMap"]

MEMORY_BYTES = 128 * 1024 * 1024
"""What a map may take unless the caller says otherwise: room for four million keys."""

_SLOT_BYTES = 8 * k.SLOT_WIDTH
_LOAD_NUMERATOR, _LOAD_DENOMINATOR = 3, 4
BYTES_PER_KEY = _SLOT_BYTES * _LOAD_DENOMINATOR // _LOAD_NUMERATOR
_MEMORY_BYTES_MIN, _MEMORY_BYTES_MAX = 64, 1 << 40
_SEED_BITS = 128
_PRIME = (1 << 61) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """What became of a run."""

    records: int
    """Records whose keys are in the map now."""
    is_full: bool
    """Whether there was no room for all of them: the map ends before the first that is missing."""


class OffsetMap:
    """The newest offset by key. Room is taken as it is needed: an empty map is small."""

    def __init__(self, memory_bytes: int = MEMORY_BYTES, *, seed: int) -> None:
        """``seed`` is a number of up to 128 bits, drawn at random.

        Raises:
            InvalidInputError: no room for a few keys, or a seed that is too large.
        """
        if not _MEMORY_BYTES_MIN <= memory_bytes <= _MEMORY_BYTES_MAX:
            raise InvalidInputError(
                f"a map of {memory_bytes} bytes; give it {_MEMORY_BYTES_MIN} or more"
            )
        if not 0 <= seed < 1 << _SEED_BITS:
            raise InvalidInputError(f"a seed is a number of up to {_SEED_BITS} bits")
        self._begin(memory_bytes, seed)

    def _begin(self, memory_bytes: int, seed: int) -> None:
        self.seed, self._memory_bytes = seed, memory_bytes
        slots = memory_bytes // _SLOT_BYTES
        self._slots = np.zeros((slots, k.SLOT_WIDTH), np.int64)
        self._scratch = np.empty(k.BLOCK * k.BLOCK_WIDTH, np.int64)
        self.numbers = np.zeros(k.MAP_WIDTH, np.int64)
        """The map as kernels see it; it is theirs, and lives no longer than the map."""
        self.numbers[k.M_POINT_1], self.numbers[k.M_POINT_2] = _points(seed)
        self.numbers[k.M_ADDRESS], self.numbers[k.M_SLOTS] = self._slots.ctypes.data, slots
        self.numbers[k.M_KEYS_MAX] = slots * _LOAD_NUMERATOR // _LOAD_DENOMINATOR
        self.is_full = False
        """Whether a key was refused. Nothing more is noted then: there would be a gap."""

    def __len__(self) -> int:
        """Return the number of keys."""
        return int(self.numbers[k.M_KEYS])

    @property
    def room(self) -> int:
        """How many keys there can be."""
        return int(self.numbers[k.M_KEYS_MAX])

    @property
    def end(self) -> int:
        """The offset before which everything is noted; records from there on are not judged."""
        return int(self.numbers[k.M_END])

    def get(self, key: bytes) -> int | None:
        """Return the newest offset of ``key``, if it was noted."""
        padded = np.frombuffer(key + b"\0\0", np.uint8)
        offset = int(k.find_key(padded.ctypes.data, len(key), self.numbers))
        return None if offset < 0 else offset

    def note(self, run: Bytes, *, offset_from: int = 0, where: str = "") -> Noted:
        """Note the keys of a run of whole batches, from ``offset_from`` on.

        Runs are given in the order of the log. Control batches and records without a key are
        passed over; values are checked to be there and not looked at.

        Raises:
            CorruptError, UnsupportedError: as the plain codec would.
        """
        out = np.zeros(2, np.int64)
        if self.is_full:
            return Noted(records=0, is_full=True)
        bodies = Bodies(run, where=where)
        for group in bodies:
            status = k.note_keys(
                group.address, group.table, self.numbers, offset_from, self._scratch, out
            )
            if status == BAD:
                bodies.judge(int(group.table[int(out[0]), T_POSITION]))
            if status == FULL:
                self.is_full = True
                break
        return Noted(records=int(out[1]), is_full=self.is_full)

    def overlay(self, slots: bytes) -> bool:
        """Take newer offsets of keys, as ``filled`` gave them; return whether they fitted."""
        self.is_full |= k.put_slots(_unpacked(slots), self.numbers) != DONE
        return not self.is_full

    def advance(self, end: int) -> None:
        """Say that nothing is missing before ``end``: batches at the end of a run may be gone."""
        if not self.is_full:
            self.numbers[k.M_END] = max(self.end, end)

    def filled(self) -> Array:
        """Return the slots that hold a key."""
        return np.ascontiguousarray(self._slots[self._slots[:, 2] != 0])

    def __getstate__(self) -> tuple[int, int, int, bool, bytes]:
        return self._memory_bytes, self.seed, self.end, self.is_full, self.filled().tobytes()

    def __setstate__(self, state: tuple[int, int, int, bool, bytes]) -> None:
        memory_bytes, seed, end, is_full, filled = state
        self._begin(memory_bytes, seed)
        k.put_slots(_unpacked(filled), self.numbers)
        self.advance(end)
        self.is_full = is_full


def _unpacked(slots: bytes) -> Array:
    return np.frombuffer(slots, np.int64).reshape(-1, k.SLOT_WIDTH)


def _points(seed: int) -> tuple[int, int]:
    """Return two points of the field that look independent, also for seeds that do not."""
    drawn = blake2b(seed.to_bytes(_SEED_BITS // 8, "big"), digest_size=32).digest()
    return int.from_bytes(drawn[:16], "big") % _PRIME, int.from_bytes(drawn[16:], "big") % _PRIME
