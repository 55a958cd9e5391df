"""Runs of record batches opened: headers read, checksums compared, bodies unpacked, for kernels.

    run --scan--> a table, a row per header --CRC, decompress--> groups of rows, and their bodies

A group is as many batches as have about a mebibyte of records, so that one call of a kernel has
enough to do and one buffer is enough for what was compressed. Bodies that were not compressed stay
where they are, in the run.

Kernels do not judge. What they stop at, the plain codec reads again, and raises what it raises.
"""

from collections.abc import Iterator
from typing import NamedTuple, NoReturn

import numpy as np
from crc32c import crc32c

from lakelog.errors import CorruptError, InvalidInputError, UnsupportedError
from lakelog.records.batch import decode_batch
from lakelog.records.compression import DECOMPRESSED_BYTES_MAX, Codec, decompress
from lakelog.records.header import (
    BATCH_BYTES_MAX,
    CODEC_MASK,
    CRC_START,
    RECORD_BYTES_MIN,
    Bytes,
)
from lakelog.records.kernels import fields as k
from lakelog.records.kernels.decode import scan_batches
from lakelog.records.memory import Array

__all__ = ["Bodies", "Group"]

_TABLE_ROWS = 4096
_GROUP_BYTES = 1024 * 1024
_RUN_BYTES_MAX = (1 << 31) - 1


class Group(NamedTuple):
    """Batches that follow one another, and where their bodies lie."""

    table: Array
    """A row per batch, as ``kernels.decode.scan_batches`` fills it; bodies lie in ``body``."""
    body: Array

    @property
    def address(self) -> int:
        return int(self.body.ctypes.data)


class Bodies:
    """The batches of one run, in groups, in order."""

    def __init__(
        self,
        run: Bytes,
        *,
        at: int = 0,
        where: str = "",
        batch_bytes_max: int = BATCH_BYTES_MAX,
        decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX,
    ) -> None:
        """``at`` is where the run stands in its file, which errors name ``where``."""
        self.view = memoryview(run).cast("B")
        if len(self.view) > _RUN_BYTES_MAX:
            raise InvalidInputError(
                f"a run of {len(self.view)} bytes; give at most {_RUN_BYTES_MAX} at a time"
            )
        self.at, self.where = at, where
        self._batch_bytes_max = batch_bytes_max
        self._decompressed_bytes_max = decompressed_bytes_max

    def __iter__(self) -> Iterator[Group]:
        """Yield groups; a group's table is good until the next one is asked for.

        Raises:
            CorruptError, UnsupportedError: as the plain codec would, after what is before it.
        """
        data = np.frombuffer(self.view, np.uint8)
        table, out = np.empty((_TABLE_ROWS, k.TABLE_WIDTH), np.int64), np.zeros(2, np.int64)
        position = 0
        while position < len(data):
            status = scan_batches(
                data.ctypes.data, position, len(data), self._batch_bytes_max, table, out
            )
            count, position = int(out[0]), int(out[1])
            yield from self._groups(data, table[:count])
            if status == k.BAD:
                self.judge(position)

    def _groups(self, data: Array, table: Array) -> Iterator[Group]:
        rows = table.tolist()
        first = 0
        while first < len(rows):
            last, held, bodies = first, 0, []
            compressed = bool(rows[first][k.T_ATTRIBUTES] & CODEC_MASK)
            while last < len(rows) and held < _GROUP_BYTES:
                row = rows[last]
                if bool(row[k.T_ATTRIBUTES] & CODEC_MASK) != compressed:
                    break
                end, size = row[k.T_BODY_END], row[k.T_BODY_END] - row[k.T_BODY]
                if crc32c(self.view[row[k.T_POSITION] + CRC_START : end]) != row[k.T_CRC]:
                    break  # What is before the damage still counts, and is handed out first.
                if compressed:
                    body = self._decompressed(row)
                    if body is None:
                        break
                    bodies.append(body)
                    size = len(body)
                    table[last, k.T_BODY], table[last, k.T_BODY_END] = held, held + size
                if row[k.T_COUNT] * RECORD_BYTES_MIN > size:
                    break  # It cannot hold so many: nothing is allocated on its word.
                held += size
                last += 1
            if last == first:
                self.judge(rows[first][k.T_POSITION])
            body_array = np.frombuffer(b"".join(bodies), np.uint8) if compressed else data
            yield Group(table[first:last], body_array)
            first = last

    def _decompressed(self, row: list[int]) -> bytes | None:
        """Return the body of a compressed batch; None if something is wrong with it."""
        if not row[k.T_COUNT]:
            return b""  # A header alone, whatever codec it names.
        codec = Codec(row[k.T_ATTRIBUTES] & CODEC_MASK)
        body = self.view[row[k.T_BODY] : row[k.T_BODY_END]]
        try:
            return decompress(codec, body, size_max=self._decompressed_bytes_max)
        except (CorruptError, UnsupportedError):
            return None

    def judge(self, position: int) -> NoReturn:
        """Let the plain codec say what is wrong with the batch at ``position``."""
        try:
            decode_batch(
                self.view[position:],
                where=self.where,
                size_max=self._batch_bytes_max,
                decompressed_bytes_max=self._decompressed_bytes_max,
            )
        except (CorruptError, UnsupportedError) as error:
            at = self.at + position + error.at
            raise type(error)(error.what, at=at, where=error.where) from error
        raise AssertionError(
            f"the compiled and the plain codec disagree at byte {self.at + position}"
        )
