"""The transactions that were aborted in a segment of a Kafka log directory.

    {base offset:020}.txnindex => entry*
         0  version             i16   0
         2  producer id         i64
        10  first offset        i64   of the transaction
        18  last offset         i64   of its abort marker
        26  last stable offset  i64   below it nothing was open when the marker came

Integers are big-endian. The file is there only when something was aborted, and it is not set aside
in advance. A transaction is listed in the segment that holds its marker; its records may lie in
earlier ones. Specification: docs/reference/formats/kafka-log-directory.md
"""

import struct
from dataclasses import dataclass

from lakelog.errors import CorruptError, UnsupportedError
from lakelog.formats.contract import Bytes

__all__ = ["TXN_INDEX_SUFFIX", "AbortedTxn", "decode_txn_index"]

TXN_INDEX_SUFFIX = ".txnindex"
VERSION = 0

_ENTRY = struct.Struct(">hqqqq")


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortedTxn:
    """One aborted transaction."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def decode_txn_index(data: Bytes, *, base_offset: int) -> tuple[AbortedTxn, ...]:
    """Return the aborted transactions of the segment that begins at ``base_offset``.

    Raises:
        UnsupportedError: another version.
        CorruptError: no Kafka wrote this.
    """
    if len(data) % _ENTRY.size:
        what = f"{len(data)} bytes are not a multiple of {_ENTRY.size}"
        at = len(data) - len(data) % _ENTRY.size
        raise CorruptError(what, at=at, where=TXN_INDEX_SUFFIX)
    aborted: list[AbortedTxn] = []
    due = base_offset
    for number, fields in enumerate(_ENTRY.iter_unpack(data)):
        version, producer_id, first, last, stable = fields
        at = number * _ENTRY.size
        if version != VERSION:
            raise UnsupportedError(
                f"version {version}, this reader knows {VERSION}", at=at, where=TXN_INDEX_SUFFIX
            )
        if last < due or not 0 <= first <= last:
            raise CorruptError(
                f"offsets {first} to {last} where {due} or more is due",
                at=at,
                where=TXN_INDEX_SUFFIX,
            )
        due = last + 1
        aborted.append(
            AbortedTxn(
                producer_id=producer_id,
                first_offset=first,
                last_offset=last,
                last_stable_offset=stable,
            )
        )
    return tuple(aborted)
