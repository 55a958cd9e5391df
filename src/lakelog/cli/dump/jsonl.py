"""JSON lines: one object per line, each complete in itself.

    {"kind": "batch", "file": ..., "position": ..., "base_offset": ..., ...}
    {"kind": "record", "file": ..., "offset": ..., "key": ..., "value": ..., "headers": [...], ...}

Bytes are a string where they are UTF-8 and {"base64": "..."} where they are not; no string ever
stands for base64, so the two cannot be taken for each other. Null is null. Names are lakelog's own
(``next_offset`` is the first that is not in the batch), times are in milliseconds.
"""

import json
from base64 import b64encode

from lakelog.cli.dump.control import read_control
from lakelog.cli.dump.files import SegmentFile
from lakelog.cli.dump.reading import Fault, Shown
from lakelog.cli.dump.side import Entry
from lakelog.cli.dump.text import TIME_NAMES
from lakelog.model import Record
from lakelog.records import BatchHeader

__all__ = ["JsonLines", "as_json", "json_bytes"]

_encode = json.JSONEncoder(ensure_ascii=False, separators=(", ", ": ")).encode
_encode_ascii = json.JSONEncoder(separators=(", ", ": ")).encode


def as_json(fields: dict[str, object]) -> str:
    """Return one line of JSON, in UTF-8 that is always valid."""
    text = _encode(fields)
    try:
        text.encode()
    except UnicodeEncodeError:
        # A path that is not UTF-8: its surrogate escapes are spelled out.
        text = _encode_ascii(fields)
    return f"{text}\n"


def json_bytes(data: bytes | None) -> object:
    """Return bytes as JSON has them."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}


class JsonLines:
    """Makes the lines of a dump. Every method returns whole lines, or nothing."""

    def __init__(self) -> None:
        self._file = ""

    def begin(self, path: str) -> str:
        self._file = path
        return ""

    def begin_segment(self, file: SegmentFile) -> str:
        self._file = file.path
        return as_json(
            {
                "kind": "segment",
                "file": file.path,
                "format": file.format.name,
                "base_offset": file.base_offset,
            }
        )

    def batch(self, shown: Shown) -> str:
        fields: dict[str, object] = {
            "kind": "block" if shown.header is None else "batch",
            "file": self._file,
            "position": shown.position,
            "size": shown.size,
            "base_offset": shown.base_offset,
            "next_offset": shown.next_offset,
            "count": shown.count,
            "is_valid": not shown.is_damaged,
        }
        if shown.header is not None:
            fields |= _header_fields(shown.header)
        return as_json(fields)

    def records(self, shown: Shown) -> str:
        return "".join(as_json(self._record(record, shown)) for record in shown.records)

    def _record(self, record: Record, shown: Shown) -> dict[str, object]:
        header = shown.header
        fields: dict[str, object] = {
            "kind": "record",
            "file": self._file,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "key": json_bytes(record.key),
            "value": json_bytes(record.value),
            "headers": [
                {
                    "key": json_bytes(key.encode("utf-8", "surrogateescape")),
                    "value": json_bytes(value),
                }
                for key, value in record.headers
            ],
        }
        if header is not None and header.base_sequence >= 0:
            delta = record.offset - header.base_offset
            fields["sequence"] = (header.base_sequence + delta) & 0x7FFFFFFF
        if header is not None and header.is_control:
            control = read_control(record)
            fields["control"] = control.type
            if control.coordinator_epoch is not None:
                fields["coordinator_epoch"] = control.coordinator_epoch
        if shown.is_damaged:
            fields["is_valid"] = False
        return fields

    def entry(self, entry: Entry, file: str) -> str:
        if not entry.fields:
            return ""
        return as_json({"kind": entry.kind, "file": file, **entry.fields})

    def trailing(self, size: int, name: str) -> str:  # noqa: ARG002 (reported as damage)
        return ""

    def fault(self, fault: Fault) -> str:
        return as_json(
            {
                "kind": "damage",
                "file": fault.path,
                "position": fault.position,
                "size": fault.size,
                "what": fault.what,
            }
        )


def _header_fields(header: BatchHeader) -> dict[str, object]:
    return {
        "codec": header.codec.name.lower(),
        "timestamp_type": TIME_NAMES[header.timestamp_type],
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "last_sequence": header.last_sequence,
        "leader_epoch": header.leader_epoch,
        "is_transactional": header.is_transactional,
        "is_control": header.is_control,
        "delete_horizon": header.delete_horizon,
        "crc": header.crc,
    }
