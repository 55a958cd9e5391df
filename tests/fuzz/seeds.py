"""Writes the corpus: ``python -m tests.fuzz.seeds``. A few tiny inputs for each target.

They are what our encoders make, so that a run begins with bytes that are accepted and damages
those. Names begin with ``seed-``; what a run found and kept is called ``crash-`` and stays.
"""

import base64
import struct
from collections.abc import Iterator, Mapping
from dataclasses import fields
from datetime import timedelta
from typing import Any, get_args, get_origin, get_type_hints
from uuid import UUID

from kio.index import load_request_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_writer

from lakelog.catalog.acls import AclCell, encode_acls
from lakelog.catalog.quotas import encode_quotas
from lakelog.catalog.users import encode_users
from lakelog.formats import FORMATS, Format, kafkalog, kafs, rustlog
from lakelog.formats.batches import Frame, frames
from lakelog.model import Header, Record, TimestampType
from lakelog.records import Codec, NewBatch, compress, encode_batch
from lakelog.security import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    Acl,
    Alteration,
    Operation,
    PatternType,
    Permission,
    Quotas,
    ResourceType,
    ScramKeys,
    ScramMechanism,
    Users,
    alter_quotas,
)
from lakelog.wire import APIS
from tests.fuzz.formats import ACTIVE, BASE_OFFSET, LIE, RESEAL, pack
from tests.fuzz.lanes import MISSING_MAX
from tests.fuzz.targets import CORPUS, TARGETS
from tests.fuzz.wire import CONTROL
from tests.golden.lanes.make import goldens
from tests.kafka_files import (
    encode_leader_epochs,
    encode_metadata,
    encode_snapshot,
    encode_txn_index,
)
from tests.plain_encoders import encode, encode_kafka_log, encode_strm
from tests.shorthands import encode_kafs

NOON = 1_700_000_000_000

RECORDS = (
    Record(offset=BASE_OFFSET, timestamp=NOON, key=b"k", value=b"hello"),
    Record(offset=BASE_OFFSET + 1, timestamp=NOON + 5, key=None, value=b""),
    Record(offset=BASE_OFFSET + 5, timestamp=NOON + 3, key=b"", value=b"again " * 6),
)
RICH = Record(
    offset=BASE_OFFSET + 7,
    timestamp=-1,
    key=b"\xff",
    value=None,
    headers=(Header("h", b"1"), Header("n", None)),
)


def _batches() -> Iterator[tuple[str, bytes]]:
    for codec in Codec:
        yield codec.name.lower(), encode_batch(NewBatch(records=RECORDS, codec=codec))
    yield "rich", encode_batch(NewBatch(records=(RICH,), is_transactional=True, producer_id=7))
    yield "empty", encode_batch(NewBatch(records=(), base_offset=1010, next_offset=1020))
    kind = TimestampType.LOG_APPEND_TIME
    yield "append-time", encode_batch(NewBatch(records=RECORDS[:1], timestamp_type=kind))


def _run() -> bytes:
    """Three batches, one behind the other."""
    groups = (RECORDS[:2], RECORDS[2:], (RICH,))
    return b"".join(encode_batch(NewBatch(records=group)) for group in groups)


def _rust_log(index_interval: int) -> dict[str, bytes]:
    log = [
        rustlog.LogRecord(
            offset=record.offset, timestamp_us=(NOON + at) * 1000, payload=record.value or b""
        )
        for at, record in enumerate(RECORDS)
    ]
    return rustlog.encode_log(log, index_interval=index_interval)


def _side_files() -> dict[str, bytes]:
    """The two that the encoder of a Kafka log does not make."""
    aborted = kafkalog.AbortedTxn(
        producer_id=1, first_offset=1000, last_offset=1001, last_stable_offset=1002
    )
    producer = kafkalog.ProducerState(producer_id=1, epoch=0, last_sequence=4, last_offset=998)
    return {
        ".txnindex": encode_txn_index([aborted]),
        ".snapshot": encode_snapshot([producer]),
    }


def _segments(fmt: Format) -> Iterator[tuple[str, Mapping[str, bytes]]]:
    for codec in sorted(fmt.carries.codecs) if fmt.carries.keys else ():
        yield codec.name.lower(), encode(fmt, (*RECORDS, RICH), codec)
    match fmt.name:
        case "kafs":
            run = _run()
            placed = [Frame(kafs.HEADER_BYTES + at, header) for at, header in frames(run)]
            segment = encode_kafs(run, created_ms=NOON)
            yield "pieces", {".kfs": segment, ".index": kafs.encode_index(placed, interval=1)}
        case "strm":
            yield "pieces", {".seg": encode_strm(RECORDS, block_bytes=1)}
        case "rustlog":
            yield "dense", _rust_log(1)
            yield "sparse", _rust_log(2)
        case "kafkalog":
            yield "pieces", encode_kafka_log(_run(), interval_bytes=0) | _side_files()


def _formats() -> Iterator[tuple[str, str, bytes]]:
    for fmt in FORMATS.values():
        for label, files in _segments(fmt):
            yield f"{fmt.name}-walk", label, pack(fmt, files, RESEAL)
            yield f"{fmt.name}-lookup", label, b"\x08\x09" + pack(fmt, files, RESEAL)
            if f"{fmt.name}-scan" in TARGETS:
                yield f"{fmt.name}-scan", label, b"\x3f\x22" + pack(fmt, files, RESEAL)
        cut = {**files, fmt.suffix: files[fmt.suffix][:-3]}
        yield f"{fmt.name}-walk", "cut", pack(fmt, cut, ACTIVE | RESEAL)
        yield f"{fmt.name}-walk", "lie", pack(fmt, files, LIE | 9 << 3)
        if f"{fmt.name}-scan" in TARGETS:
            yield f"{fmt.name}-scan", "cut", b"\x3f\x22" + pack(fmt, cut, ACTIVE | RESEAL)
        yield f"{fmt.name}-lookup", "lie", b"\x08\x09" + pack(fmt, files, LIE | 9 << 3)


def _sides() -> Iterator[tuple[str, str, bytes]]:
    run = _run()
    placed = [Frame(kafs.HEADER_BYTES + at, header) for at, header in frames(run)]
    yield "kafs-index", "three", b"\0" + kafs.encode_index(placed, interval=1)
    log = encode_kafka_log(run, interval_bytes=0) | _side_files()
    for name in ("index", "timeindex", "txnindex"):
        yield f"kafka-{name}", "some", b"\0" + log[f".{name}"]
        yield f"kafka-{name}", "odd", b"\0" + log[f".{name}"] + b"\1"
    yield "kafka-snapshot", "one", b"\1" + log[".snapshot"]
    epochs = (kafkalog.EpochStart(0, 0), kafkalog.EpochStart(3, 1042))
    yield "kafka-leader-epochs", "two", b"\0" + encode_leader_epochs(epochs)
    yield "kafka-metadata", "one", b"\0" + encode_metadata(UUID(int=1 << 100))
    yield "rustlog-index", "three", b"\x0e" + _rust_log(1)[".index"]
    checkpoint = rustlog.CleanerCheckpoint(last_cleaned_offset=5, retention_horizon_ms=NOON)
    yield "rustlog-checkpoint", "json", b"\0" + rustlog.encode_checkpoint(checkpoint)
    yield "rustlog-checkpoint", "binary", b"\0" + struct.pack(">QQ", 5, NOON)
    segment = encode_strm(RECORDS, block_bytes=1)
    (at,) = struct.unpack_from(">Q", segment, len(segment) - 32)
    yield "strm-header", "one", b"\0" + segment[:64]
    yield "strm-footer", "one", bytes((len(segment) - 100,)) + segment[-32:]
    yield "strm-index", "three", bytes((-(-(at - 64) // 8),)) + segment[at:-32]


def _lanes() -> Iterator[tuple[str, str, bytes]]:
    """The golden objects, each with its checksums made right again."""
    for name, data in goldens().items():
        label = str(int(name.partition(".")[0]))
        if name.endswith(".checkpoint"):
            yield "lane-checkpoint", label, b"\1" + data
            continue
        yield "lane-bundle", label, b"\1" + data
        start = int.from_bytes(data[-24:-16], "big")
        missing = min(start, MISSING_MAX)
        yield "lane-directory", label, bytes((1 | missing << 1,)) + data[missing:]
    for target in ("lane-bundle", "lane-directory", "lane-checkpoint"):
        yield target, "bad", b"\0no such thing"


def _wire() -> Iterator[tuple[str, str, bytes]]:
    """A request of each API in its oldest and its newest version, as kio writes them."""
    stream = b""
    for api in APIS.values():
        for version in sorted({api.min_version, api.max_version}):
            kind: Any = load_request_schema(int(api.key), version)
            header = kind.__header_schema__(
                request_api_key=int(api.key),
                request_api_version=version,
                correlation_id=1,
                client_id="c",
            )
            start, body = _message(header), _message(_plain(kind))
            label = f"{api.name.lower()}-{version}"
            if len(stream) < 300:
                stream += struct.pack(">i", len(start + body)) + start + body
            if (int(api.key), version) in CONTROL:
                at = CONTROL.index((int(api.key), version))
                yield "wire-request", label, at.to_bytes(2, "big") + body
            else:
                at = version - api.min_version
                yield f"wire-{api.name.lower()}", label, bytes((at,)) + body
    yield "wire-frames", "some", stream
    for target in ("wire-frames", "wire-request", "wire-produce", "wire-fetch"):
        yield target, "bad", b"\0no such thing"


CERTIFICATE = base64.b64decode(
    "MIIBLDCB06ADAgECAhRWVBkDcc/tCYbfbMtrSI3fnxzHuTAKBggqhkjOPQQDAjAMMQowCAYDVQQDDAFhMB4XDTI2MT"
    "ExNzExMTI0NloXDTI2MTIxODExMTI0NlowDDEKMAgGA1UEAwwBYTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABK7r"
    "iK0W4zjTZPaCuorbKN21TLH46zBkuurbSuUxcedJCsJMJSKXorxaB03k0D6CkAGO364XW2EkhjFQ7EF26mSjEzARMA"
    "8GA1UdEwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDSAAwRQIgM2WUj6+XADnBvh3ruXbMhUIOdUFcADFxNrobrJczTikC"
    "IQDOtpHeQFQuTmCwFIXnnJuuYGfGt+XbBjLML8jPXoQLuQ=="
)
"""One of an authority, which has expired long since when this is read."""


def _logins() -> Iterator[tuple[str, str, bytes]]:
    """A login by each mechanism, of nobody; the cell of one user; a certificate."""
    proof = base64.b64encode(bytes(64))
    final = b"c=biws,r=abcSERVER,p=" + proof
    for at, label, messages in (
        (0, "scram", (b"n,,n=alice,r=abc", final)),
        (1, "scram-acting", (b"n,a=alice,n=alice,r=abc", b"c=biws,r=abc,p=AAAA")),
        (2, "token", (b"n,,\x01auth=Bearer a.b.c\x01\x01", b"\x01")),
        (3, "plain", (b"\0alice\0wonderland",)),
    ):
        yield "login", label, bytes((at,)) + b"\xff".join(messages)
    mechanism = ScramMechanism.SHA_512
    users = Users({"alice": {mechanism: ScramKeys(b"salt", 4096, bytes(64), bytes(64))}}, bytes(32))
    yield "users-cell", "one", encode_users(users, ("w",))
    yield "certificate", "authority", CERTIFICATE
    for target in ("login", "users-cell", "certificate"):
        yield target, "bad", b"\0no such thing"


def _rights() -> Iterator[tuple[str, str, bytes]]:
    """Cells of ACLs and of quotas: none, and one of each kind."""
    acls = (
        Acl(
            kind,
            PatternType.PREFIXED if kind is ResourceType.GROUP else PatternType.LITERAL,
            CLUSTER_NAME if kind is ResourceType.CLUSTER else "orders",
            "User:alice",
            "*" if kind is ResourceType.TOPIC else "::1",
            Operation.DESCRIBE,
            Permission.DENY if kind is ResourceType.GROUP else Permission.ALLOW,
        )
        for kind in SUPPORTED_OPERATIONS
        if Operation.DESCRIBE in SUPPORTED_OPERATIONS[kind]
    )
    yield "acls-cell", "none", encode_acls(AclCell())
    yield "acls-cell", "some", encode_acls(AclCell(version=3, acls=tuple(acls), writers=("w",)))
    yield "quotas-cell", "none", encode_quotas(Quotas())
    alterations = [
        Alteration(entity, [("producer_byte_rate", 1024.0), ("request_percentage", 7.0)])
        for entity in ([("user", "alice"), ("client-id", None)], [("user", None)])
    ]
    alterations.append(Alteration([("ip", "::1")], [("connection_creation_rate", 9.0)]))
    yield "quotas-cell", "some", encode_quotas(alter_quotas(Quotas(), alterations)[0])
    huge = b'{"format": 1, "version": 1, "quotas": [{"user": null, "values": {"x": 1%s}}]}'
    yield "quotas-cell", "huge", huge % (b"0" * 400)
    for target in ("acls-cell", "quotas-cell"):
        yield target, "bad", b"\0no such thing"


class _Written(bytearray):
    write = bytearray.extend


def _message(message: Any) -> bytes:
    out = _Written()
    entity_writer(type(message))(out, message)  # type: ignore[arg-type]
    return bytes(out)


def _plain(kind: Any) -> Any:
    """A message of a class, with one element in each array."""
    hints = get_type_hints(kind)
    values: dict[str, Any] = {"string": "t", "bytes": b"b", "records": _run(), "bool": True}
    values |= {"uuid": UUID(int=7), "error_code": ErrorCode.none, "datetime_i64": None}
    values |= {"timedelta_i32": timedelta(seconds=1), "timedelta_i64": timedelta(seconds=1)}
    made: dict[str, Any] = {}
    for one in fields(kind):
        wire = one.metadata.get("kafka_type", "")
        inner = [part for part in (hints[one.name], *get_args(hints[one.name])) if get_args(part)]
        arrays = [part for part in inner if get_origin(part) is tuple]
        if arrays:
            element = get_args(arrays[0])[0]
            made[one.name] = (values.get(wire, 1) if wire else _plain(element),)
        elif wire:
            made[one.name] = values.get(wire, 1)
        else:
            hint = hints[one.name]  # A class, or one that may be absent.
            made[one.name] = _plain(hint if isinstance(hint, type) else get_args(hint)[0])
    return kind(**made)


def seeds() -> Iterator[tuple[str, str, bytes]]:
    """Yield target, label and bytes of every seed."""
    for label, batch in _batches():
        yield "record-batch", label, b"\1" + batch
        yield "columns", label, b"\1\x3f\xff" + batch
    yield "record-batch", "run", b"\1" + _run()
    yield "columns", "run", b"\1\x3f\x12" + _run()
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
        for label, plain in (("empty", b""), ("word", b"hello"), ("again", b"again " * 40)):
            yield codec.name.lower(), label, compress(codec, plain)
    yield from _formats()
    yield from _sides()
    yield from _lanes()
    yield from _wire()
    yield from _logins()
    yield from _rights()
    for target in ("gzip", "snappy", "lz4", "zstd", "kafka-snapshot", "kafka-metadata",
                   "kafka-leader-epochs", "kafs-index", "strm-header", "strm-footer",
                   "strm-index", "rustlog-index", "rustlog-checkpoint"):  # fmt: skip
        yield target, "bad", b"\0no such thing"


def main() -> None:
    for old in CORPUS.glob("*/seed-*"):
        old.unlink()
    for target, label, data in seeds():
        (CORPUS / target).mkdir(parents=True, exist_ok=True)
        (CORPUS / target / f"seed-{label}").write_bytes(data)


if __name__ == "__main__":
    main()
