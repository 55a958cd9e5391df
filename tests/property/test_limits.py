"""What a writer accepts, a reader accepts: at every limit, and one beyond it.

A row of ``LIMITS`` is a constant by which a reader refuses something for its size, how to write
something of a size, and how to read it. Limits are set low for this: nobody writes a gigabyte to
see that it is refused. A constant that bounds bytes and is not in the table, nor said to be of
another kind, fails the last test: a new limit comes with its row.
"""

import ast
import importlib
import inspect
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakelog
from lakelog.coordination import SHARD_BYTES_MAX, BucketMembership, Member, encode_member
from lakelog.errors import CorruptError, InvalidInputError, UnsupportedError
from lakelog.formats import Files, kafkalog, kafs, kernels, kernels_encode, rustlog, strm
from lakelog.formats import run as drive
from lakelog.formats.batches import Frame
from lakelog.formats.kafkalog.index import read_side_file
from lakelog.formats.kafkalog.producers import ProducerState
from lakelog.formats.kafkalog.transactions import AbortedTxn
from lakelog.formats.kafs.index import read_index
from lakelog.formats.lanes import (
    BUNDLE_BYTES_MAX,
    CHECKPOINT_BYTES_MAX,
    FOOTER_BYTES,
    LEAD_BYTES,
    BatchRow,
    Bundle,
    Checkpoint,
    End,
    Event,
    EventKind,
    Slice,
    bundle,
    bundle_directory_start,
    decode_bundle,
    decode_checkpoint,
    decode_directory,
    directory_bytes,
    encode_bundle,
    encode_checkpoint,
)
from lakelog.formats.rustlog import layout as rustlog_layout
from lakelog.formats.rustlog.checkpoint import CleanerCheckpoint
from lakelog.formats.strm import layout as strm_layout
from lakelog.formats.strm.blocks import seal_block
from lakelog.formats.strm.layout import encode_end
from lakelog.journal import TAIL_BYTES_MAX, Head, decode_head, encode_head
from lakelog.journal.checkpoints import ROLL_ROWS_MAX
from lakelog.journal.fold import MARKS_MAX, PRODUCERS_MAX, WRITES_MAX
from lakelog.log import Staged
from lakelog.log.staging import RUNS_MAX, decode_plan, encode_plan
from lakelog.manifests import (
    PageRow,
    PartitionPath,
    SegmentRow,
    encode_page,
    read_page,
)
from lakelog.model import Record
from lakelog.names import LANES_MAX
from lakelog.records import (
    BATCH_BYTES_MAX,
    DECOMPRESSED_BYTES_MAX,
    Codec,
    NewBatch,
    compression,
    decode_batch,
    decode_header,
    encode_batch,
    header,
)
from lakelog.store import CELL_BYTES_MAX, MemoryStore, PutIfAbsent, change_cell, read_cell, run
from lakelog.store import working as operations
from tests import rustlog_files
from tests.kafka_files import encode_snapshot, encode_txn_index
from tests.segments import Store
from tests.shorthands import encode_columns

ID, WRITE = b"t" * 16, b"w" * 16
LIFTED = 1 << 40


@dataclass(frozen=True, kw_only=True)
class Limit:
    """A constant that both sides keep."""

    name: str
    """Where it stands."""
    most: int
    """What it is set to here."""
    write: Callable[[int], Any]
    read: Callable[[Any], object]
    last: int
    """What is written when it is just reached; one more is too much."""
    also: tuple[str, ...] = ()
    """Modules that import it by name, which have to be told as well."""
    case: str = ""


# ---------------------------------------------------------------------------- lanes


def bulk(slices: int) -> bytes:
    rows = [Slice(ID, at, 0, 0, 1, 0, 61, 0, 0, 0, 0) for at in range(slices)]
    return encode_bundle(
        Bundle(
            lane=0,
            seq=0,
            created_ms=0,
            epoch=0,
            writer=ID,
            nonce=ID,
            bulk=True,
            slices=tuple(rows),
            events=(Event(EventKind.WRITE_COMMITTED, WRITE, ID, 0),),
        )
    )


def flushed(size: int) -> bytes:
    made = Bundle(
        lane=0,
        seq=0,
        created_ms=0,
        epoch=0,
        writer=ID,
        nonce=ID,
        slices=(Slice(ID, 0, 1, 0, 1, LEAD_BYTES, size, 0, 0),),
        batches=(BatchRow(-1, 0, size, 0, -1, -1, 0),),
    )
    return encode_bundle(made, [bytes(size)])


def read_bundle(data: bytes) -> None:
    errors = []
    for read in (bundle_directory_start, decode_directory, lambda data, _: decode_bundle(data)):
        try:
            read(data, len(data))
        except UnsupportedError as error:
            errors.append(error)
    if errors:
        assert len(errors) == 3, "one reader takes what another refuses"
        raise errors[0]


def checkpoint(ends: int) -> bytes:
    rows = tuple(End(ID, at, 1) for at in range(ends))
    return encode_checkpoint(
        Checkpoint(lane=0, seq=0, epoch=0, created_ms=0, nonce=ID, first=0, ends=rows)
    )


def head(floors: int) -> bytes:
    rows = tuple((at, 10**12 + at) for at in range(floors))
    return encode_head(Head(lane=0, floor=100, checkpoint=100, floors=rows))


# ---------------------------------------------------------------------------- cells, pages, plans


def cell(size: int) -> MemoryStore:
    store = MemoryStore()
    run(change_cell("cell", lambda _: bytes(size), lambda _: False), operations(store.perform))
    return store


def read_the_cell(store: MemoryStore) -> None:
    assert run(read_cell("cell"), operations(store.perform)) is not None


def announced(chars: int) -> MemoryStore:
    store, me = MemoryStore(), BucketMembership(ID, 3_000)
    made = run(me.take(7, 0), operations(store.perform))
    run(me.announce(replace(made, hint="x" * chars)), operations(store.perform))
    return store


def read_the_member(store: MemoryStore) -> None:
    view = run(BucketMembership(WRITE, 3_000).look(0), operations(store.perform))
    for error in view.unreadable.values():
        raise error
    assert 7 in view.living


def page(rows: int) -> bytes:
    return encode_page(
        SegmentRow(f"segment-{at:020}", at, at + 1, 0, 99, 1, 0, 0, 0, 0, 1, 0)
        for at in range(rows)
    )


def read_the_page(body: bytes) -> None:
    store, where = MemoryStore(), PartitionPath(ID, "t", 0)
    rows = len(json.loads(body)["segments"])
    store.perform(PutIfAbsent(f"{where.prefix}page-x.json", body))
    row = PageRow("page-x", 0, rows, rows, 99 * rows, 0, 0, 0)
    run(read_page(where, row), operations(store.perform))


def plan(runs: int) -> list[bytes]:
    return encode_plan([Staged(0, ID, 0, at, 0, 61, 1, 0, 0) for at in range(runs)])


def read_plan(pages: list[bytes]) -> None:
    for number, body in enumerate(pages):
        decode_plan(body, WRITE, number)


# ---------------------------------------------------------------------------- formats


def batch(size: int, codec: Codec = Codec.NONE) -> bytes:
    """Return a batch of one record with a value of so many zeros."""
    record = Record(offset=0, timestamp=0, key=None, value=bytes(size))
    return encode_batch(NewBatch(records=(record,), codec=codec))


def frames(count: int) -> Iterator[Frame]:
    one = decode_header(batch(1))
    for at in range(count):
        now = one._replace(base_offset=at, base_timestamp=at, max_timestamp=at)
        yield Frame(32 + at * one.size, now)


def read_side(suffix: str) -> Callable[[bytes], object]:
    def read(data: bytes) -> object:
        store = Store({suffix: data})
        return drive(read_side_file(Files(base_offset=0, sizes=store.sizes), suffix), store.give)

    return read


def read_kafs_index(data: bytes) -> object:
    store = Store({".index": data})
    return drive(read_index(Files(base_offset=0, sizes=store.sizes)), store.give)


def log_of(size: int) -> bytes:
    records = [rustlog.LogRecord(offset=0, timestamp_us=0, payload=bytes(size))]
    return rustlog.encode_log(records)[".log"]


def log_index(records: int) -> dict[str, bytes]:
    rows = [rustlog.LogRecord(offset=at, timestamp_us=0, payload=b"") for at in range(records)]
    return rustlog.encode_log(rows, index_interval=1)


def open_log(files: dict[str, bytes]) -> object:
    store = Store(files)
    flow = rustlog.FORMAT.open(Files(base_offset=0, sizes=store.sizes))
    return drive(flow, store.give)


def strm_block(size: int) -> bytes:
    block_header, _ = seal_block(bytes(size), lambda raw: raw[:9], count=1, base_offset=0)
    return block_header


def wide_block(size: int) -> bytes:
    block_header, _ = seal_block(bytes(99), lambda _: bytes(size), count=1, base_offset=0)
    return block_header


def read_block(data: bytes) -> object:
    return strm_layout.decode_block_header(data, at=0, room=1 << 30)


def strm_end(blocks: int) -> bytes:
    position = strm_layout.HEADER.size + 100 * blocks
    entries = [
        strm_layout.IndexEntry(offset=at, position=strm_layout.HEADER.size + 100 * at)
        for at in range(blocks)
    ]
    return bytes(position) + encode_end(entries, position, 0)


def read_strm_end(data: bytes) -> object:
    return strm_layout.decode_footer(data[-strm_layout.FOOTER.size :], size=len(data))


def read_batch(data: bytes) -> object:
    """With the limits as they are now: as defaults they were taken when this was imported."""
    return decode_batch(
        data,
        size_max=header.BATCH_BYTES_MAX,
        decompressed_bytes_max=compression.DECOMPRESSED_BYTES_MAX,
    )


def columns(size: int, codec: Codec = Codec.NONE) -> bytes:
    """Return the same by the compiled encoder."""
    values = pa.array([bytes(size)], pa.large_binary())
    times = pa.array([0], pa.timestamp("us"))
    rows = pa.RecordBatch.from_arrays([times, values], ["timestamp", "value"])
    return bytes(encode_columns(rows, base_offset=0, codec=codec))


def state(text: str) -> CleanerCheckpoint:
    return CleanerCheckpoint(last_cleaned_offset=1, retention_horizon_ms=2, compaction_state=text)


ABORTED = AbortedTxn(producer_id=1, first_offset=2, last_offset=3, last_stable_offset=4)
F = "lakelog.formats"
RAW = len(batch(1000)) - 61  # What the records of a batch with such a value take.

LIMITS = (
    Limit(
        name=f"{F}.lanes.bundle.DIRECTORY_BYTES_MAX",
        most=directory_bytes(slices=3, events=1),
        write=bulk, read=read_bundle, last=3,
    ),
    Limit(
        name=f"{F}.lanes.bundle.PAYLOAD_BYTES_MAX", most=200,
        write=flushed, read=read_bundle, last=200,
    ),
    Limit(
        name=f"{F}.lanes.checkpoint.CHECKPOINT_BYTES_MAX", most=len(checkpoint(3)),
        write=checkpoint, read=decode_checkpoint, last=3,
    ),
    Limit(
        name="lakelog.journal.head.HEAD_BYTES_MAX", most=len(head(3)),
        write=head, read=lambda data: decode_head(data, 0), last=3,
    ),
    Limit(
        name="lakelog.store.cells.CELL_BYTES_MAX", most=1000,
        write=cell, read=read_the_cell, last=1000,
    ),
    Limit(
        name="lakelog.store.cells.CELL_BYTES_MAX", most=len(page(3)), case="page",
        write=page, read=read_the_page, last=3,
        also=("lakelog.manifests.manifest", "lakelog.manifests.cells"),
    ),
    Limit(
        name="lakelog.coordination.members.MEMBER_BYTES_MAX",
        most=len(encode_member(Member(node=7, run=ID, hint="x" * 100))),
        write=announced, read=read_the_member, last=100,
        also=("lakelog.coordination.membership",),
    ),
    Limit(
        name="lakelog.log.staging.PLAN_BYTES_MAX", most=len(plan(3)[0]),
        write=plan, read=read_plan, last=3,
    ),
    Limit(
        name="lakelog.log.staging.PAGES_MAX", most=3,
        write=lambda pages: plan(pages * RUNS_MAX), read=read_plan, last=3,
    ),
    Limit(
        name=f"{F}.kafs.index.INDEX_BYTES_MAX", most=len(kafs.encode_index(frames(3), interval=1)),
        write=lambda count: kafs.encode_index(frames(count), interval=1),
        read=read_kafs_index, last=3,
    ),
    Limit(
        name=f"{F}.kafkalog.index.INDEX_BYTES_MAX", case="offsets", most=3 * 8,
        write=lambda count: kafkalog.encode_indexes(
            (frame._replace(header=frame.header._replace(max_timestamp=-1))
             for frame in frames(count + 1)),
            base_offset=0, interval_bytes=0,
        )[0],
        read=read_side(".index"), last=3,
    ),
    Limit(
        name=f"{F}.kafkalog.index.INDEX_BYTES_MAX", case="times", most=3 * 12,
        write=lambda count: kafkalog.encode_indexes(
            frames(count + 1), base_offset=0, interval_bytes=0
        )[1],
        read=read_side(".timeindex"), last=3,
    ),
    Limit(
        name=f"{F}.kafkalog.index.INDEX_BYTES_MAX", case="producers",
        most=len(encode_snapshot([ProducerState(producer_id=at, epoch=0) for at in range(3)])),
        write=lambda count: encode_snapshot(
            [ProducerState(producer_id=at, epoch=0) for at in range(count)]
        ),
        read=read_side(".snapshot"), last=3,
    ),
    Limit(
        name=f"{F}.kafkalog.index.INDEX_BYTES_MAX", case="transactions",
        most=len(encode_txn_index([ABORTED] * 3)),
        write=lambda count: encode_txn_index([ABORTED] * count),
        read=read_side(".txnindex"), last=3,
    ),
    Limit(
        name=f"{F}.rustlog.layout.PAYLOAD_BYTES_MAX", most=100,
        write=log_of, read=lambda data: rustlog_files.build_index(data, 0), last=100,
    ),
    Limit(
        name=f"{F}.rustlog.layout.INDEX_BYTES_MAX", most=3 * rustlog_layout.ENTRY.size,
        write=log_index, read=open_log, last=3, also=(f"{F}.rustlog.lookup",),
    ),
    Limit(
        name=f"{F}.rustlog.checkpoint.CHECKPOINT_BYTES_MAX",
        most=len(rustlog.encode_checkpoint(state("x" * 30))),
        write=lambda size: rustlog.encode_checkpoint(state("x" * size)),
        read=rustlog.decode_checkpoint, last=30,
    ),
    Limit(
        name=f"{F}.strm.layout.BLOCK_BYTES_MAX", most=200,
        write=strm_block, read=read_block, last=200, also=(f"{F}.strm.blocks",),
    ),
    Limit(
        name=f"{F}.strm.layout.COMPRESSED_BYTES_MAX", most=200,
        write=wide_block, read=read_block, last=200, also=(f"{F}.strm.blocks",),
    ),
    Limit(
        name="lakelog.records.header.BATCH_BYTES_MAX", most=len(batch(1000)),
        write=batch, read=read_batch, last=1000, also=("lakelog.records.batch",),
    ),
    Limit(
        name="lakelog.records.header.BATCH_BYTES_MAX", most=len(batch(1000)), case="columns",
        write=columns, read=read_batch, last=1000, also=("lakelog.records.batch",),
    ),
    Limit(
        name="lakelog.records.compression.DECOMPRESSED_BYTES_MAX", most=RAW,
        write=lambda size: batch(size, Codec.ZSTD), read=read_batch, last=1000,
        also=("lakelog.records.batch",),
    ),
    Limit(
        name="lakelog.records.compression.DECOMPRESSED_BYTES_MAX", most=RAW, case="columns",
        write=lambda size: columns(size, Codec.LZ4), read=read_batch, last=1000,
        also=("lakelog.records.batch",),
    ),
)  # fmt: skip


@pytest.mark.parametrize("limit", LIMITS, ids=lambda one: " ".join((one.name[8:], one.case)))
def test_what_a_writer_accepts_a_reader_accepts(
    limit: Limit, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, _, constant = limit.name.rpartition(".")

    def set_to(value: int) -> None:
        for name in (module, *limit.also):
            found = importlib.import_module(name)
            assert getattr(found, constant) in (declared, limit.most, LIFTED), "two constants"
            monkeypatch.setattr(found, constant, value)

    declared = getattr(importlib.import_module(module), constant)
    if constant == "PAGES_MAX":
        monkeypatch.setattr(module + ".RUNS_MAX", 2)
        monkeypatch.setitem(globals(), "RUNS_MAX", 2)
    set_to(limit.most)
    limit.read(limit.write(limit.last))
    with pytest.raises(InvalidInputError):
        limit.write(limit.last + 1)
    set_to(LIFTED)
    larger = limit.write(limit.last + 1)
    limit.read(larger)
    set_to(limit.most)
    with pytest.raises((UnsupportedError, CorruptError)):
        limit.read(larger)


@pytest.mark.parametrize(
    ("function", "parameter", "limit"),
    [
        (decode_header, "size_max", BATCH_BYTES_MAX),
        (decode_batch, "size_max", BATCH_BYTES_MAX),
        (decode_batch, "decompressed_bytes_max", DECOMPRESSED_BYTES_MAX),
        (compression.decompress, "size_max", DECOMPRESSED_BYTES_MAX),
    ],
)
def test_readers_of_batches_have_the_limits_of_writers(
    function: Callable[..., object], parameter: str, limit: int
) -> None:
    assert inspect.signature(function).parameters[parameter].default == limit


def test_a_segment_has_room_for_no_more_blocks_than_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Writers count entries, and readers bytes."""
    monkeypatch.setattr(f"{F}.strm.layout.INDEX_ENTRIES_MAX", 3)
    size = strm_layout.COUNT.size + 3 * strm_layout.ENTRY.size
    monkeypatch.setattr(strm_layout, "INDEX_BYTES_MAX", size)
    read_strm_end(strm_end(3))
    with pytest.raises(InvalidInputError):
        strm_end(4)
    most = strm.INDEX_ENTRIES_MAX * strm_layout.ENTRY.size
    monkeypatch.undo()
    assert most + strm_layout.COUNT.size == strm_layout.INDEX_BYTES_MAX


# ---------------------------------------------------------------------------- bounded otherwise


def test_what_has_no_limit_of_its_own_is_bounded_by_what_it_is_made_of() -> None:
    sizes = bundle.PAYLOAD_BYTES_MAX, bundle.DIRECTORY_BYTES_MAX
    assert LEAD_BYTES + sum(sizes) + FOOTER_BYTES == BUNDLE_BYTES_MAX
    assert BATCH_BYTES_MAX <= bundle.PAYLOAD_BYTES_MAX, "a flush may be one batch"
    assert len(json.dumps({"checkpoint": (1 << 64) - 1})) <= TAIL_BYTES_MAX
    # A fold, with the partitions of a namespace and a slice index as long as it may be.
    fold = PRODUCERS_MAX * 120 + WRITES_MAX * 48 + MARKS_MAX * 28 + 10_000_000 * 28
    assert fold + (ROLL_ROWS_MAX + RUNS_MAX) * 92 < CHECKPOINT_BYTES_MAX
    assert SHARD_BYTES_MAX < CELL_BYTES_MAX, "who claims a full shard adds his name"
    assert LANES_MAX * 64 < CELL_BYTES_MAX, "a decision names a seq of every lane"
    for kernel in (kernels, kernels_encode):
        assert rustlog.PAYLOAD_BYTES_MAX == kernel._PAYLOAD_BYTES_MAX


OTHERS = {
    "formats.lanes.bundle.BUNDLE_BYTES_MAX": "the sum of its parts",
    "formats.strm.layout.INDEX_BYTES_MAX": "in bytes what INDEX_ENTRIES_MAX is in entries",
    "formats.kernels._PAYLOAD_BYTES_MAX": "RustLog's, for compiled code",
    "formats.kernels_encode._PAYLOAD_BYTES_MAX": "RustLog's, for compiled code",
    "journal.walk.TAIL_BYTES_MAX": "a number takes less",
    "coordination.shards.SHARD_BYTES_MAX": "of writers; readers take what a cell may have",
    # Readers have no such limit: writers keep it because of the format's fields, or of Kafka.
    "formats.kafs.segment.SEGMENT_BYTES_MAX": "of writers",
    "formats.kafkalog.segment.LOG_BYTES_MAX": "of writers",
    "formats.strm.layout.BLOCK_TARGET_BYTES_MAX": "of writers",
    "pipeline.convert.SEGMENT_BYTES_MAX": "of writers",
    # How something is cut or held, and not what is refused.
    "formats.batches.run.SEARCH_BYTES_MAX": "how far a search for the next batch goes",
    "formats.kernels_encode._FRAME_BYTES_MAX": "a bound that is derived",
    "formats.kernels_encode._HEADER_FRAME_BYTES_MAX": "a bound that is derived",
    "records.kernels.encode._FRAME_BYTES_MAX": "a bound that is derived",
    "records.kernels.encode._HEADER_FRAME_BYTES_MAX": "a bound that is derived",
    "records.varint._VARINT_BYTES_MAX": "a bound that is derived",
    "records.varint._VARLONG_BYTES_MAX": "a bound that is derived",
    "records.bodies._RUN_BYTES_MAX": "bytes at a time: the caller cuts",
    "records.filling.BYTES_MAX": "how large an Arrow batch becomes",
    "records.memory._KEPT_BYTES_MAX": "memory that is used again",
    "records.offset_map._MEMORY_BYTES_MAX": "memory of a map",
    "records.compression._ZSTD_WINDOW_BYTES_MAX": "of others' frames; ours are below it",
    # Not ours.
    "formats.kernels_spool.PAYLOAD_BYTES_MAX": "that of the format, which has a row",
    "spool.settings.SEGMENT_BYTES_MAX": "of writers",
    "spool.encoding.BATCH_BYTES_MAX": "of one append: it is refused beyond that",
    "spool.cells.CELL_BYTES_MAX": "of a spool's own small files; the writer keeps it as well",
    "spool.recovery.CHECKPOINT_BYTES_MAX": "that of the format, which has a row",
    "store.remote.PUT_BYTES_MAX": "for how large an object a time-out grows",
    "store.operations.GET_BYTES_MAX": "what a Get fetches that does not say how much",
    "store.keys.KEY_BYTES_MAX": "of a name",
    "store.keys.SEGMENT_BYTES_MAX": "of a name",
    "store.lifecycle.ANSWER_BYTES_MAX": "of a store's answer",
    "store.etcd.ETCD_BYTES_MAX": "of a request to etcd: groups are cut to it",
    "store.etcd_calls.MESSAGE_BYTES_MAX": "of etcd's answer",
    "coordination.keyed_groups.GROUP_BYTES_MAX": "of a group in etcd: it is refused beyond that",
}
FLOORS = (
    "records", "formats", "store", "journal", "manifests", "coordination", "segments", "catalog",
    "log", "maintenance", "pipeline", "spool",
)  # fmt: skip


def bounds() -> Iterator[str]:
    """Yield every constant of the lower floors that bounds bytes, by where it is made."""
    root = Path(lakelog.__file__).parent
    for path in sorted(path for floor in FLOORS for path in (root / floor).rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            targets = node.targets if isinstance(node, ast.Assign) else []
            names = [one for target in targets for one in ast.walk(target)]
            for name in names:
                if isinstance(name, ast.Name) and name.id.endswith("BYTES_MAX"):
                    module = ".".join(path.relative_to(root).with_suffix("").parts)
                    yield f"{module}.{name.id}"


def test_every_limit_has_a_row_or_a_reason() -> None:
    known = {limit.name.removeprefix("lakelog.") for limit in LIMITS} | set(OTHERS)
    found = {name for name in bounds() if not name.startswith("records.kernels.fields.")}
    assert found - known - {"records.kernels.source.E_BYTES_MAX"} == set(), "add a row to LIMITS"
    assert known - found == {"log.staging.PAGES_MAX"}, "it is gone: take out its row"
