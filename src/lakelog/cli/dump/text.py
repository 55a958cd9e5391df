"""Text: the lines that kafka-dump-log prints, to the letter.

    Dumping {path}
    Log starting offset: {base offset}
    baseOffset: ... isvalid: true                  a batch
    | offset: ... key: ... payload: ...            each of its records

Scripts read these lines, so they are Kafka 4's, down to "OptionalLong.empty"; a block of a format
that has no batches gets a line with those of the same fields that it has. Bytes are shown as Java
shows them: UTF-8, and U+FFFD for what is not.
"""

import codecs

from lakelog.cli.dump.control import Control, Voter, read_control
from lakelog.cli.dump.files import SegmentFile
from lakelog.cli.dump.reading import Fault, Shown
from lakelog.cli.dump.side import Entry
from lakelog.model import Header, Record, TimestampType
from lakelog.records import BatchHeader
from lakelog_kafka_tools.java import optional_long

__all__ = ["TIME_NAMES", "TextLines", "java_text"]

TIME_NAMES = {
    TimestampType.CREATE_TIME: "CreateTime",
    TimestampType.LOG_APPEND_TIME: "LogAppendTime",
}
_ERRORS = "lakelog.java"


def _replace(error: UnicodeError) -> tuple[str, int]:
    """Replace what is not UTF-8, as much at a time as Java does.

    Java and Python agree but for one: Java takes an encoded surrogate as one piece.
    """
    assert isinstance(error, UnicodeDecodeError)
    data, start = error.object, error.start
    if data[start] == 0xED and 0xA0 <= int.from_bytes(data[start + 1 : start + 2]) <= 0xBF:
        is_whole = 0x80 <= int.from_bytes(data[start + 2 : start + 3]) <= 0xBF
        return "\ufffd", start + (3 if is_whole else 2)
    return "\ufffd", error.end


codecs.register_error(_ERRORS, _replace)


def java_text(data: bytes) -> str:
    """Return bytes as Java's ``new String(data, UTF_8)`` does."""
    return data.decode("utf-8", _ERRORS)


class TextLines:
    """Makes the lines of a dump. Every method returns whole lines, or nothing."""

    def __init__(self, *, contents: bool = True, metadata: bool = True) -> None:
        self._contents = contents
        """Whether keys and values are shown."""
        self._metadata = metadata
        """Whether offsets, times and sizes of records are shown."""

    def begin(self, path: str) -> str:
        return f"Dumping {path}\n"

    def begin_segment(self, file: SegmentFile) -> str:
        return f"Dumping {file.path}\nLog starting offset: {file.base_offset}\n"

    def batch(self, shown: Shown) -> str:
        header = shown.header
        if header is None:
            return (
                f"baseOffset: {shown.base_offset} lastOffset: {shown.next_offset - 1} "
                f"count: {shown.count} position: {shown.position} size: {shown.size}\n"
            )
        return (
            f"baseOffset: {header.base_offset} lastOffset: {header.next_offset - 1} "
            f"count: {header.count} baseSequence: {header.base_sequence} "
            f"lastSequence: {header.last_sequence} producerId: {header.producer_id} "
            f"producerEpoch: {header.producer_epoch} "
            f"partitionLeaderEpoch: {header.leader_epoch} "
            f"isTransactional: {_truth(header.is_transactional)} "
            f"isControl: {_truth(header.is_control)} "
            f"deleteHorizonMs: {optional_long(header.delete_horizon)} "
            f"position: {shown.position} "
            f"{TIME_NAMES[header.timestamp_type]}: {header.max_timestamp} "
            f"size: {header.size} magic: 2 compresscodec: {header.codec.name.lower()} "
            f"crc: {header.crc} isvalid: {_truth(shown.is_valid)}\n"
        )

    def records(self, shown: Shown) -> str:
        header = shown.header
        if not self._contents or not self._metadata:
            return "".join(f"{self._part(record, header)}\n" for record in shown.records)
        if header is not None and header.is_control:
            return "".join(
                f"{_meta(record, header)}{_control(read_control(record))}\n"
                for record in shown.records
            )
        if header is not None and header.base_sequence >= 0:
            return "".join(f"{_meta(record, header)}{_data(record)}\n" for record in shown.records)
        # Most records by far; so this is written out, in one piece.
        time = "CreateTime" if header is None else TIME_NAMES[header.timestamp_type]
        return "".join(f"{_bare(record, time)}{_data(record)}\n" for record in shown.records)

    def _part(self, record: Record, header: BatchHeader | None) -> str:
        """Return the line of a record of which not everything is shown."""
        is_control = header is not None and header.is_control
        if not self._metadata:
            data = _data(record) if self._contents and not is_control else ""
            return f"|{data}" if data else ""
        if header is None:
            return _bare(record)
        control = _control(read_control(record)) if is_control else ""
        return f"{_meta(record, header)}{control}"

    def entry(self, entry: Entry, file: str) -> str:  # noqa: ARG002 (JSON names the file)
        return f"{entry.text}\n" if entry.text else ""

    def trailing(self, size: int, name: str) -> str:
        return f"Found {size} invalid bytes at the end of {name}\n"

    def fault(self, fault: Fault) -> str:  # noqa: ARG002 (people find it on stderr)
        return ""


def _truth(value: bool) -> str:
    return "true" if value else "false"


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _bare(record: Record, time: str = "CreateTime") -> str:
    return (
        f"| offset: {record.offset} {time}: {record.timestamp} "
        f"keySize: {_size(record.key)} valueSize: {_size(record.value)} "
        f"sequence: -1 headerKeys: [{_keys(record.headers) if record.headers else ''}]"
    )


def _meta(record: Record, header: BatchHeader) -> str:
    sequence = header.base_sequence
    if sequence >= 0:
        sequence = (sequence + record.offset - header.base_offset) & 0x7FFFFFFF
    return (
        f"| offset: {record.offset} {TIME_NAMES[header.timestamp_type]}: {record.timestamp} "
        f"keySize: {_size(record.key)} valueSize: {_size(record.value)} "
        f"sequence: {sequence} headerKeys: [{_keys(record.headers)}]"
    )


def _keys(headers: tuple[Header, ...]) -> str:
    # Keys that are not UTF-8 carry surrogate escapes; Java saw their bytes.
    return ",".join(java_text(key.encode("utf-8", "surrogateescape")) for key, _ in headers)


def _data(record: Record) -> str:
    key, value = record.key, record.value
    if key is None:
        return "" if value is None else f" payload: {value.decode('utf-8', _ERRORS)}"
    text = f" key: {key.decode('utf-8', _ERRORS)}"
    return text if value is None else f"{text} payload: {value.decode('utf-8', _ERRORS)}"


def _control(control: Control) -> str:
    if control.coordinator_epoch is not None:
        return f" endTxnMarker: {control.type} coordinatorEpoch: {control.coordinator_epoch}"
    if control.leader is not None:
        voters, granting = _voters(control.voters), _voters(control.granting)
        return (
            f' LeaderChange: {{"version":{control.version},"leaderId":{control.leader},'
            f'"voters":[{voters}],"grantingVoters":[{granting}]}}'
        )
    return f" controlType: {control.type}({control.type_id})"


def _voters(voters: tuple[Voter, ...]) -> str:
    return ",".join(
        f'{{"voterId":{voter.id}}}'
        if voter.directory_id is None
        else f'{{"voterId":{voter.id},"voterDirectoryId":"{voter.directory_id}"}}'
        for voter in voters
    )
