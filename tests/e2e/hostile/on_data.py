"""Attacks by what is produced, fetched and asked about records."""

import struct
import time
from collections.abc import Iterator
from functools import cache
from itertools import count
from random import Random  # noqa: TID251 (seeded)
from uuid import UUID

from lakelog.model import Header, Record
from lakelog.records import Codec, NewBatch, encode_batch
from tests.e2e.hostile.target import Target, storm
from tests.hostile import attacks
from tests.hostile.attacks import fetch_frame, frame, produce_frame
from tests.unit.broker.site import batch, request_frame

__all__ = [
    "bombs_by_time",
    "codec_bombs",
    "described_producers",
    "fetch_sessions",
    "flood",
    "one_bad_offset",
    "patient_fetches",
    "times",
    "topics_without_partitions",
    "unknown_ids",
    "unread_fetches",
    "waiting_fetches",
    "wrong_checksums",
]

VICTIM, BIG, COMPACTED, EMPTY = "victim", "big", "compacted", "empty"
HEADERS = 300_000
BOMB_BYTES = 64 << 20


@cache
def _header_bomb() -> bytes:
    """One record of 300,000 empty headers, in a few bytes of zstd."""
    headers = (Header(key="", value=None),) * HEADERS
    one = Record(offset=0, timestamp=_now_ms(), key=b"k", value=b"", headers=headers)
    return encode_batch(NewBatch(records=(one,), codec=Codec.ZSTD))


@cache
def _value_bomb(codec: Codec) -> bytes:
    """One record of 64 MiB of zeros."""
    one = Record(offset=0, timestamp=_now_ms(), key=b"k", value=bytes(BOMB_BYTES))
    return encode_batch(NewBatch(records=(one,), codec=codec))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _listing(topic: str, timestamp: int, times: int = 1) -> bytes:
    part = {"partition_index": 0, "timestamp": timestamp, "current_leader_epoch": -1}
    rows = [{"name": topic, "partitions": [part] * times}]
    return request_frame(2, 7, replica_id=-1, isolation_level=0, topics=rows)


def bombs_by_time(target: Target, until_s: float) -> None:
    """Produce records of many headers in few bytes, and ask for them by time."""
    frames = [produce_frame(VICTIM, _header_bomb()), _listing(VICTIM, _now_ms() - 1_000)]
    storm(target, until_s, frames, connections=2, burst=2, rate=20)


def codec_bombs(target: Target, until_s: float) -> None:
    """Produce batches that become 64 MiB, of every codec, to a topic that looks at keys."""
    codecs = (Codec.ZSTD, Codec.GZIP, Codec.LZ4, Codec.SNAPPY)
    # Without those that are larger than a topic takes: these are no bombs.
    made = [one for one in map(_value_bomb, codecs) if len(one) < 1_000_000]
    frames = [produce_frame(topic, one) for one in made for topic in (COMPACTED, VICTIM)]
    storm(target, until_s, frames, connections=2, burst=1, rate=20)


def wrong_checksums(target: Target, until_s: float) -> None:
    """Produce batches of 100 kB whose checksum is wrong."""
    data = bytearray(batch(bytes(100_000)))
    data[-1] ^= 1
    storm(target, until_s, [produce_frame(VICTIM, bytes(data))], rate=300)


def flood(target: Target, until_s: float) -> None:
    """Produce as much as the broker takes, on many connections, and never wait."""
    data = produce_frame(VICTIM, batch(Random(1).randbytes(200_000)), acks=1)
    storm(target, until_s, [data], connections=16, burst=4, rate=150)


def topics_without_partitions(target: Target, until_s: float) -> None:
    """Ask to produce and to fetch 300,000 topics of no name and without partitions: 600 kB."""
    many = 300_000
    rows = attacks.uvarint(many + 1) + b"\x01\x01\x00" * many
    produced = frame(0, 9, b"\0" + struct.pack(">hi", 1, 1_000) + rows + b"\0")
    fetched = struct.pack(">iiiibii", -1, 0, 1, 1 << 20, 0, 0, -1) + rows + b"\x01\x01\x00"
    storm(target, until_s, [produced, frame(1, 12, fetched)], connections=2, burst=1, rate=20)


def waiting_fetches(target: Target, until_s: float) -> None:
    """Let fetches wait for five minutes, padded with what nobody needs."""
    for pad in ({"rack": bytes(30_000)}, {"tag": bytes(900_000)}):
        made = attacks.waiting_fetches(
            target.host,
            target.port,
            EMPTY,
            connections=40,
            requests=8,
            source=target.source,
            **pad,
        )
        time.sleep(max(until_s - time.monotonic(), 0) / 2)  # noqa: TID251 (they wait)
        attacks.hang_up(made)


def unread_fetches(target: Target, until_s: float) -> None:
    """Fetch 20 MB again and again on 12 connections, and read nothing of it."""
    made = attacks.unread_fetches(
        target.host,
        target.port,
        BIG,
        connections=12,
        requests=4,
        max_bytes=20 << 20,
        source=target.source,
    )
    time.sleep(max(until_s - time.monotonic(), 0))  # noqa: TID251 (not to read is the attack)
    attacks.hang_up(made)


def patient_fetches(target: Target, until_s: float) -> None:
    """Wait on 500 connections for more bytes than there will be."""
    ask = fetch_frame(EMPTY, wait_ms=300_000, min_bytes=(1 << 31) - 1)
    with target.connected(500) as links:
        for link in links:
            attacks.send_all(link, ask * 2, within_s=0.5)
        time.sleep(max(until_s - time.monotonic(), 0))  # noqa: TID251 (they wait)


def fetch_sessions(target: Target, until_s: float) -> None:
    """Open sessions and never come back."""
    storm(target, until_s, [fetch_frame(EMPTY, session_epoch=0)], rate=1_000)


def one_bad_offset(target: Target, until_s: float) -> None:
    """Fetch one partition a thousand times in a request, at an offset that is not there."""
    part = {"partition": 0, "fetch_offset": 1 << 40, "partition_max_bytes": 1 << 20}
    ask = request_frame(
        1,
        12,
        replica_id=-1,
        max_wait=0,
        min_bytes=1,
        topics=[{"topic": VICTIM, "partitions": [part] * 1_000}],
        forgotten_topics_data=[],
        rack_id="",
    )
    storm(target, until_s, [ask], connections=2, burst=1, rate=20)


def unknown_ids(target: Target, until_s: float) -> None:
    """Ask for 300 topics by ids that nobody has, other ones each time."""
    chance = Random(1)

    def frames() -> Iterator[bytes]:
        while True:
            ids = [UUID(bytes=chance.randbytes(16)) for _ in range(300)]
            yield request_frame(
                3,
                12,
                topics=[{"topic_id": one, "name": None} for one in ids],
                allow_auto_topic_creation=False,
                include_topic_authorized_operations=False,
            )

    storm(target, until_s, frames(), connections=2, burst=1, rate=20)


def described_producers(target: Target, until_s: float) -> None:
    """Ask for the producers of one partition, again and again, often in one request."""
    rows = [{"name": VICTIM, "partition_indexes": [0] * 100}]
    storm(target, until_s, [request_frame(61, 0, topics=rows)], rate=200)


def times(target: Target, until_s: float) -> None:
    """Ask where a topic was at other times, a hundred in a request."""
    now_ms = _now_ms()
    frames = (_listing(BIG, now_ms - number, 100) for number in count(1))
    storm(target, until_s, frames, connections=2, burst=1, rate=30)
