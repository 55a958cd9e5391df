"""Makes the golden Kafka log directory: ``python -m tests.golden.kafkalog.make``.

Every file here must decode for ever to the records below. Files are added, never changed.
"""

from pathlib import Path
from uuid import UUID

from lakelog.formats.kafkalog import EpochStart
from lakelog.model import Record
from lakelog.records import Codec, NewBatch, decode_batches, encode_batch
from tests.kafka_files import (
    encode_leader_epochs,
    encode_metadata,
    encode_snapshot,
    encode_txn_index,
    fold_producers,
)
from tests.plain_encoders import encode_kafka_log

HERE = Path(__file__).parent
DIRECTORY = "cars-0"
TOPIC_ID = UUID("ddfcfe4d-725b-4d54-90e5-6a7698069b71")
EPOCHS = (EpochStart(0, 0), EpochStart(2, 35))
INTERVAL_BYTES = 200

CARS = (
    (b"2", b"BMW"),
    (b"5", b"Chevrolet"),
    (b"6", b"Porsche"),
    (b"10", b"Jaguar"),
    (b"11", b"Volvo"),
    (b"12", b"Land Rover"),
    (b"15", b"Aston Martin"),
)
FIRST_TIMES = (133, 135, 135, 136, 136, 136, 137)
LAST_TIMES = (821, 823, 823, 824, 825, 825, 827)


def _cars(base: int, second: int, times: tuple[int, ...]) -> NewBatch:
    return NewBatch(
        records=tuple(
            Record(offset=base + i, timestamp=second * 1000 + time, key=key, value=value)
            for i, (time, (key, value)) in enumerate(zip(times, CARS, strict=True))
        )
    )


# The first and the last of these batches are printed in full by a kafka-dump-log of 2020, down to
# their CRCs; of those between only the greatest time of the third is known.
DUMPED = (
    _cars(0, 1586329540, FIRST_TIMES),
    _cars(7, 1586329548, (401, 403, 403, 404, 405, 405, 406)),
    _cars(14, 1586329557, (548, 549, 550, 551, 551, 552, 553)),
    _cars(21, 1586329566, (700, 702, 702, 703, 704, 704, 705)),
    _cars(28, 1586329575, LAST_TIMES),
)


def _one(offset: int, time: int, value: bytes, key: bytes | None = None) -> tuple[Record, ...]:
    return (Record(offset=offset, timestamp=1586329600000 + time, key=key, value=value),)


# An idempotent producer, a transaction that is aborted, and one that is still open.
TRANSACTIONS = (
    NewBatch(records=_one(35, 10, b"idempotent"), producer_id=1000, producer_epoch=0,
             base_sequence=0, leader_epoch=2, codec=Codec.GZIP),
    NewBatch(records=_one(36, 30, b"to be aborted"), producer_id=1001, producer_epoch=4,
             base_sequence=7, leader_epoch=2, is_transactional=True),
    NewBatch(records=_one(37, 20, b"still open"), producer_id=1002, producer_epoch=0,
             base_sequence=0, leader_epoch=2, is_transactional=True, codec=Codec.ZSTD),
    NewBatch(records=_one(38, 40, b"\0\0\0\0\0\5", b"\0\0\0\0"), producer_id=1001,
             producer_epoch=4, leader_epoch=2, is_transactional=True, is_control=True),
    NewBatch(records=_one(39, 35, b"idempotent, too"), producer_id=1000, producer_epoch=0,
             base_sequence=1, leader_epoch=2),
)  # fmt: skip

RECORDS = tuple(record for batch in (*DUMPED, *TRANSACTIONS) for record in batch.records)


def run(batches: tuple[NewBatch, ...]) -> bytes:
    """Return the batches, one behind the other."""
    return b"".join(encode_batch(batch) for batch in batches)


def directory() -> dict[str, bytes]:
    """Return the files of the directory as the encoders make them today."""
    files = {
        "leader-epoch-checkpoint": encode_leader_epochs(EPOCHS),
        "partition.metadata": encode_metadata(TOPIC_ID),
    }
    states, aborted = fold_producers(decode_batches(run(TRANSACTIONS)))
    files["00000000000000000035.txnindex"] = encode_txn_index(aborted)
    files["00000000000000000035.snapshot"] = encode_snapshot(())
    files["00000000000000000040.snapshot"] = encode_snapshot(states.values())
    for base, batches in ((0, DUMPED), (35, TRANSACTIONS)):
        for suffix, data in encode_kafka_log(run(batches), interval_bytes=INTERVAL_BYTES).items():
            files[f"{base:020}{suffix}"] = data
    return files


if __name__ == "__main__":
    (HERE / DIRECTORY).mkdir(exist_ok=True)
    for name, data in directory().items():
        (HERE / DIRECTORY / name).write_bytes(data)
