"""The file ``.cleaner_checkpoint``: how far retention has come in one partition.

    {                                            or 16 bytes, u64 big-endian each, as the RustLog
      "last_cleaned_offset": 1000,               program writes them:
      "retention_horizon_ms": 1700000000000,        0  last compacted offset
      "compaction_state": "Idle",                   8  when retention last ran, milliseconds
      "created_at": {
        "secs_since_epoch": 1700000000,
        "nanos_since_epoch": 0
      }
    }

Both are read, the first is written. The field names and the shape of ``created_at`` are what serde
makes of the documented structure. The states of compaction are documented nowhere, so any name is
kept as it is. A file of 16 bytes is the binary one: the JSON is always longer.
"""

import json
import struct
from dataclasses import dataclass
from typing import Any

from lakelog.errors import CorruptError, InvalidInputError, UnsupportedError
from lakelog.formats.contract import Bytes
from lakelog.formats.limits import fitting

__all__ = ["CHECKPOINT_NAME", "CleanerCheckpoint", "decode_checkpoint", "encode_checkpoint"]

CHECKPOINT_NAME = ".cleaner_checkpoint"
CHECKPOINT_BYTES_MAX = 64 * 1024

U64_MAX = (1 << 64) - 1
_NS_PER_S = 10**9
_NS_PER_MS = 10**6
_BINARY = struct.Struct(">QQ")


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerCheckpoint:
    """How far retention has come."""

    last_cleaned_offset: int
    retention_horizon_ms: int
    """Older records may be gone; 0 when it is not known."""

    compaction_state: str = "Idle"
    created_at_ns: int = 0
    """Nanoseconds, because the file has them."""


def encode_checkpoint(state: CleanerCheckpoint) -> bytes:
    """Return the JSON form. Equal checkpoints give equal bytes.

    Raises:
        InvalidInputError: a number that does not fit 64 bits without a sign, or a compaction state
            of more than 64 KiB.
    """
    seconds, nanos = divmod(state.created_at_ns, _NS_PER_S)
    offset, horizon = state.last_cleaned_offset, state.retention_horizon_ms
    if not all(0 <= number <= U64_MAX for number in (offset, horizon, seconds)):
        raise InvalidInputError(f"a number does not fit 64 bits: {state}")
    fields = {
        "last_cleaned_offset": offset,
        "retention_horizon_ms": horizon,
        "compaction_state": state.compaction_state,
        "created_at": {"secs_since_epoch": seconds, "nanos_since_epoch": nanos},
    }
    data = json.dumps(fields, indent=2).encode()
    return fitting(data, CHECKPOINT_BYTES_MAX, "a checkpoint", "use a shorter compaction state")


def decode_checkpoint(data: Bytes) -> CleanerCheckpoint:
    """Return the checkpoint in either form.

    Raises:
        CorruptError: neither form.
        UnsupportedError: over the limit of 64 KiB, or a compaction state that is no name.
    """
    if len(data) > CHECKPOINT_BYTES_MAX:
        raise UnsupportedError(
            f"{len(data)} bytes, over the limit of {CHECKPOINT_BYTES_MAX}",
            at=0,
            where=CHECKPOINT_NAME,
        )
    if len(data) == _BINARY.size:
        return _decode_binary(data)
    try:
        fields = json.loads(bytes(data))
    except (ValueError, RecursionError) as error:
        raise CorruptError(f"not JSON: {error}", at=0, where=CHECKPOINT_NAME) from error
    created = _field(fields, "created_at")
    state = _field(fields, "compaction_state")
    if not isinstance(state, str):
        raise UnsupportedError(
            f"compaction state {state!r:.100}, this reader knows names only",
            at=0,
            where=CHECKPOINT_NAME,
        )
    nanos = _number(created, "nanos_since_epoch", _NS_PER_S - 1)
    return CleanerCheckpoint(
        last_cleaned_offset=_number(fields, "last_cleaned_offset"),
        retention_horizon_ms=_number(fields, "retention_horizon_ms"),
        compaction_state=state,
        created_at_ns=_number(created, "secs_since_epoch") * _NS_PER_S + nanos,
    )


def _decode_binary(data: Bytes) -> CleanerCheckpoint:
    offset, ran_ms = _BINARY.unpack(data)
    if offset == U64_MAX:
        raise CorruptError(f"offset {offset}", at=0, where=CHECKPOINT_NAME)
    # The program notes when retention ran, which says nothing of how far back it reached.
    return CleanerCheckpoint(
        last_cleaned_offset=offset, retention_horizon_ms=0, created_at_ns=ran_ms * _NS_PER_MS
    )


def _field(fields: Any, name: str) -> Any:
    if not isinstance(fields, dict) or name not in fields:
        raise CorruptError(f"there is no {name}", at=0, where=CHECKPOINT_NAME)
    return fields[name]


def _number(fields: Any, name: str, number_max: int = U64_MAX) -> int:
    number = _field(fields, name)
    if type(number) is not int or not 0 <= number <= number_max:
        raise CorruptError(f"{name} is {number!r:.100}", at=0, where=CHECKPOINT_NAME)
    return number
