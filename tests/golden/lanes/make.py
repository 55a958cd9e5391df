"""Makes the golden objects of a lane: ``python tests/golden/lanes/make.py``.

Three bundles of one lane and the checkpoint of the third. Every file here must decode for ever to
the values below. Files are added, never changed.
"""

from pathlib import Path

from lakelog.formats.lanes import (
    BatchRow,
    Bundle,
    Checkpoint,
    End,
    Event,
    EventKind,
    Kept,
    Mark,
    Producer,
    Rolled,
    Slice,
    Write,
    encode_bundle,
    encode_checkpoint,
)
from lakelog.model import Record
from lakelog.records import BatchHeader, NewBatch, decode_header, encode_batch

HERE = Path(__file__).parent
NOON = 1_700_000_000_000
LANE = 7

ORDERS, GONE = b"topic of orders!", b"a deleted topic!"
BROKER, SPARK = b"writer: a broker", b"writer: a query!"
QUERY, COMMITTED, ABORTED = b"the query itself", b"committed write!", b"an aborted write"
NONCES = tuple(b"nonce of bundle%d" % seq for seq in range(3))


def _batch(offset: int, *values: bytes, later_ms: int = 0, sequence: int = -1) -> bytes:
    """A batch as a producer sends it; with a sequence, as an idempotent one does."""
    return encode_batch(
        NewBatch(
            records=tuple(
                Record(offset=offset + at, timestamp=NOON + later_ms, key=None, value=value)
                for at, value in enumerate(values)
            ),
            base_offset=offset,
            producer_id=4001 if sequence >= 0 else -1,
            producer_epoch=2 if sequence >= 0 else -1,
            base_sequence=sequence,
        )
    )


BATCHES = (
    _batch(0, b"one", b"two", sequence=0),
    _batch(0, b"three", later_ms=5, sequence=2),
    _batch(0, b"elsewhere", later_ms=9),
)
PAYLOAD = b"".join(BATCHES)
"""Two batches of partition 0, one of partition 1. Their base offsets are the producer's: 0."""


def _row(header: BatchHeader) -> BatchRow:
    return BatchRow(
        producer_id=header.producer_id,
        crc=header.crc,
        length=header.size,
        last_offset_delta=header.last_offset_delta,
        base_sequence=header.base_sequence,
        producer_epoch=header.producer_epoch,
        attributes=header.attributes,
    )


_FIRST = len(BATCHES[0]) + len(BATCHES[1])

SLICES = (
    Slice(
        topic=ORDERS,
        partition=0,
        batches=2,
        base_offset=1000,
        offsets=3,
        position=8,
        length=_FIRST,
        min_timestamp=NOON,
        max_timestamp=NOON + 5,
    ),
    Slice(
        topic=ORDERS,
        partition=1,
        batches=1,
        base_offset=50,
        offsets=1,
        position=8 + _FIRST,
        length=len(BATCHES[2]),
        min_timestamp=NOON + 9,
        max_timestamp=NOON + 9,
    ),
)

STAGED = tuple(
    Slice(
        topic=ORDERS,
        partition=0,
        batches=0,
        base_offset=1003 + 100 * part,
        offsets=100,
        position=0,
        length=4096 + part,
        min_timestamp=NOON + 1000,
        max_timestamp=NOON + 1999,
        write=1,
        part=part,
    )
    for part in range(2)
)
"""Two staged objects, which continue partition 0."""

EVENTS = (
    Event(EventKind.TOPIC_DELETED, GONE),
    Event(EventKind.WRITE_COMMITTED, COMMITTED, QUERY, 12),
    Event(EventKind.WRITE_ABORTED, ABORTED, QUERY, 11),
)

EMPTY = Bundle(lane=LANE, seq=0, created_ms=NOON, epoch=3, writer=BROKER, nonce=NONCES[0])

DATA = Bundle(
    lane=LANE,
    seq=1,
    created_ms=NOON + 10,
    epoch=3,
    writer=BROKER,
    nonce=NONCES[1],
    previous=NONCES[0],
    slices=SLICES,
    batches=tuple(_row(decode_header(batch)) for batch in BATCHES),
)

BULK = Bundle(
    lane=LANE,
    seq=2,
    created_ms=NOON + 2000,
    checkpoint=1,
    epoch=3,
    writer=SPARK,
    nonce=NONCES[2],
    previous=NONCES[1],
    bulk=True,
    slices=STAGED,
    events=EVENTS,
)

CHECKPOINT = Checkpoint(
    lane=LANE,
    seq=2,
    epoch=3,
    created_ms=NOON + 2000,
    nonce=NONCES[2],
    leader=BROKER,
    first=1,
    ends=(End(ORDERS, 0, 1203), End(ORDERS, 1, 51)),
    producers=(Producer(ORDERS, 0, 4001, 2, NOON + 10, (Kept(0, 1, 1000), Kept(2, 0, 1002))),),
    writes=(Write(QUERY, 12, COMMITTED, NOON + 2000),),
    marks=(
        Mark(EventKind.TOPIC_DELETED, GONE, NOON + 2000),
        Mark(EventKind.WRITE_ABORTED, ABORTED, NOON + 2000),
    ),
    slice_index=(
        Rolled(1, SLICES[0], 3),
        Rolled(2, STAGED[0], 3),
        Rolled(2, STAGED[1], 3),
        Rolled(1, SLICES[1], 3),
    ),
)

BUNDLES = {
    f"{bundle.seq:020}.bundle": (bundle, payload)
    for bundle, payload in ((EMPTY, b""), (DATA, PAYLOAD), (BULK, b""))
}
CHECKPOINTS = {f"{CHECKPOINT.seq:020}.checkpoint": CHECKPOINT}


def goldens() -> dict[str, bytes]:
    """Return the objects as the encoders make them today."""
    bundles = {
        name: encode_bundle(bundle, [payload]) for name, (bundle, payload) in BUNDLES.items()
    }
    return bundles | {name: encode_checkpoint(value) for name, value in CHECKPOINTS.items()}


if __name__ == "__main__":
    for name, data in goldens().items():
        (HERE / name).write_bytes(data)
