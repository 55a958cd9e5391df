"""What went wrong with requests elsewhere, by the numbers of CVEs; it must not go wrong here.

docs/explanation/cves.md lists all that we know of, and why some of them cannot be ours.
"""

import struct
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import cramjam
import lz4.frame
import pytest
from kio.schema.errors import ErrorCode

from lakelog.broker import Limits
from lakelog.errors import CorruptError, LakelogError, UnsupportedError
from lakelog.model import Record
from lakelog.records import Codec, NewBatch, compress, decompress, encode_batch
from lakelog.records.compression import decompress_pieces
from lakelog.security import AclFilter, Operation, Permission, ResourceType
from lakelog.store import PutIfAbsent
from lakelog.wire import (
    ADVERTISED,
    APIS,
    ApiKey,
    decode_fetch,
    decode_produce,
    decode_request,
    decode_request_header,
)
from tests.hostile import attacks
from tests.patience import until
from tests.unit.broker.site import (
    Site,
    batch,
    broker,
    connect,
    records,
    request_frame,
    story,
)
from tests.unit.broker.test_authorizer import (
    ADMIN,
    ALICE,
    DENIED,
    NONE,
    STRANGER,
    admin,
    allow,
    create,
    delete,
    given,
    served,
)

MIB = 1 << 20


@contextmanager
def within(bytes_max: int) -> Iterator[None]:
    """Let no more memory be taken meanwhile, whatever else is wrong."""
    tracemalloc.start()
    try:
        yield
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak <= bytes_max, f"{peak} bytes"


# ---------------------------------------------------------------------------- who may do what


@story
async def test_cve_2018_1288_a_client_that_fetches_as_a_replica_is_sent_away() -> None:
    """Kafka believed any client that a fetch was of a replica, and took what it had fetched for
    replicated. Here there are no replicas, and whoever says to be one is cut off.
    """
    site = Site()
    site.create("t")
    async with broker(site) as running:
        honest = await connect(running)
        await honest.produce("t", 0, batch(b"a"))
        await honest.metadata("t")
        old = await connect(running)
        old.send_fetch({("t", 0): 0}, version=12, replica=1)
        assert await old.is_closed()
        new = await connect(running)
        new.writer.write(
            request_frame(
                1,
                15,
                replica_state={"replica_id": 1, "replica_epoch": 1},
                max_wait=0,
                min_bytes=1,
                max_bytes=MIB,
                isolation_level=0,
                session_id=0,
                session_epoch=-1,
                topics=[],
                forgotten_topics_data=[],
                rack_id="",
            )
        )
        assert await new.is_closed()
        assert records((await honest.fetch_one("t", 0, 0)).records) == [(0, b"a")]
        for client in (honest, old, new):
            await client.close()


def transactional(value: bytes) -> bytes:
    record = Record(offset=0, timestamp=0, key=b"k", value=value)
    made = NewBatch(
        records=(record,),
        is_transactional=True,
        producer_id=7,
        producer_epoch=0,
        base_sequence=0,
    )
    return encode_batch(made)


@story
async def test_cve_2018_17196_a_batch_of_a_transaction_needs_more_than_the_right_to_write() -> None:
    """Kafka looked for a transactional id in the request, and took a transaction's batch without
    one from whoever may write to the topic. Here the batch itself is looked at.
    """
    site = Site()
    site.create("orders")
    given(site, allow(ALICE, Operation.WRITE))
    async with served(site, ALICE) as (_, alice):
        found = await alice.produce("orders", 0, transactional(b"without an id"))
        assert found.error_code not in (NONE, ErrorCode.request_timed_out)
        found = await alice.produce("orders", 0, transactional(b"x"), transactional_id="mine")
        assert found.error_code is ErrorCode.transactional_id_authorization_failed
        assert (await alice.produce("orders", 0, batch(b"plain"))).error_code is NONE
    assert site.stored("orders") == [b"plain"]


@story
async def test_cve_2023_50976_nobody_gets_at_transactions() -> None:
    """Redpanda did not ask for any right in the requests of transactions. Here there are none, and
    the one request that could begin one is refused to everybody.
    """
    keys = {24, 25, 26, 27, 28, 65, 66}
    assert not keys & set(ADVERTISED)
    site = Site()
    site.create("orders")
    async with served(site, ADMIN) as (running, client):
        found = await client.ask(
            22, 4, transactional_id="mine", transaction_timeout=1000, producer_id=-1,
            producer_epoch=-1,
        )  # fmt: skip
        assert found.error_code is ErrorCode.transactional_id_authorization_failed
        for key in sorted(keys):
            other = await connect(running)
            other.writer.write(attacks.frame(key, 0, bytes(64), flexible=False))
            assert await other.is_closed()
            await other.close()


@story
async def test_cve_2024_27309_what_is_left_of_the_acls_of_a_topic_counts_when_one_is_removed() -> (
    None
):
    """Kafka could forget all ACLs of a resource but one when one was removed, and denials with
    them.
    """
    site = Site()
    site.create("orders")
    everybody = allow("*", Operation.READ)
    denial = allow(ALICE, Operation.READ, permission=Permission.DENY)
    spare = allow(STRANGER, Operation.DESCRIBE)
    given(site, admin(), everybody, denial, spare, allow("*", Operation.WRITE))
    async with served(site, ADMIN, ALICE, STRANGER) as (_, boss, alice, stranger):
        assert (await alice.fetch_one("orders", 0, 0)).error_code is DENIED
        (gone,) = await delete(boss, AclFilter(name="orders", host=STRANGER))
        assert len(gone.matching_acls) == 1
        assert (await alice.fetch_one("orders", 0, 0)).error_code is DENIED
        assert (await stranger.fetch_one("orders", 0, 0)).error_code is NONE
        assert (await alice.produce("orders", 0, batch(b"a"))).error_code is NONE
        assert await create(boss, spare) == [NONE]
        assert (await alice.fetch_one("orders", 0, 0)).error_code is DENIED


@story
async def test_cve_2026_41115_a_group_is_described_to_whom_that_was_allowed() -> None:
    """Kafka's documents named another right than its code asked for. It is DESCRIBE of the group,
    and DESCRIBE of its topics; docs/reference/acls.md is made of what a real Kafka answers.
    """
    site = Site()
    kind = ResourceType.GROUP
    given(site, allow(ALICE, Operation.DESCRIBE, "ours", kind))
    async with served(site, ALICE, STRANGER) as (_, alice, stranger):
        answers = [
            (await one.ask(69, 1, group_ids=["ours"], include_authorized_operations=False)).groups
            for one in (alice, stranger)
        ]
        assert [one[0].error_code for one in answers] == [
            ErrorCode.group_id_not_found,
            ErrorCode.group_authorization_failed,
        ]


@story
async def test_cve_2026_35554_what_waits_for_the_store_is_not_written_over() -> None:
    """Kafka's producer used the memory of a batch again while it was still being sent, and so sent
    a batch to another topic. Here it is the broker's memory of a request that must stay while the
    store is slow, though its client has gone and others send.
    """
    site = Site()
    for name in ("one", "two"):
        site.create(name)
    async with broker(site, limits=Limits(drain_ms=5_000)) as running:
        gone, other = await connect(running), await connect(running)
        await other.produce("two", 0, batch(b"warm"))
        site.freezes = lambda op: isinstance(op, PutIfAbsent)
        site.open.clear()
        sent = [bytes([65 + at]) * 60_000 for at in range(8)]
        metrics = running.services.metrics
        read = metrics.bytes_in + 8 * 60_000
        for value in sent:
            gone.send_produce({("one", 0): batch(value)}, timeout_ms=100)
        await until(lambda: metrics.bytes_in >= read)
        await gone.close()
        await until(lambda: running.connections == 1)
        read = metrics.bytes_in + 8 * 60_000
        for at in range(8):
            other.send_produce({("two", 0): batch(bytes([97 + at]) * 60_000)})
        await until(lambda: metrics.bytes_in >= read)
        site.open.set()
        for _ in range(8):
            _, found = await other.answer()
            assert found.responses[0].partition_responses[0].error_code is NONE
        await other.close()
    assert sent[0] in site.stored("one")
    assert set(site.stored("one")) <= set(sent)
    assert site.stored("two") == [b"warm", *(bytes([97 + at]) * 60_000 for at in range(8))]


# ---------------------------------------------------------------------------- what is only claimed


@story
async def test_cve_2026_10142_a_frame_is_as_long_as_may_be_before_there_is_room_for_it() -> None:
    """kafka-python made room for whatever length stood before a frame, or broke at a negative one
    and hung.
    """
    site = Site()
    site.create("t")
    async with broker(site) as running:
        honest = await connect(running)
        for size in (-1, -(1 << 31), (1 << 31) - 1, 0, 3, 200 << 20):
            client = await connect(running)
            client.writer.write(struct.pack(">ihh", size, 0, 9))
            assert await client.is_closed()
            await client.close()
        assert running.buffers.used == 0
        assert (await honest.produce("t", 0, batch(b"a"))).error_code is NONE
        await honest.close()


def decode(key: int, version: int, body: bytes) -> None:
    view = memoryview(body)
    if key == ApiKey.PRODUCE:
        decode_produce(view, 0, version)
    elif key == ApiKey.FETCH:
        decode_fetch(view, 0, version)
    else:
        decode_request(key, version, view)


@pytest.mark.parametrize("key", sorted(APIS), ids=lambda key: ApiKey(key).name)
def test_cve_2026_111108_an_array_is_no_longer_than_the_bytes_that_are_there(key: int) -> None:
    """Kafka made room for as many elements as an array said that it had, of bytes that were not
    there.
    """
    api = APIS[key]
    for version in range(api.min_version, api.max_version + 1):
        with suppress(LakelogError):  # The first time a schema is loaded, which takes memory.
            decode(key, version, b"\xff" * 5)
        # However many fields stand before it, an array begins at one of these places.
        for before in range(12):
            for claim in (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07", b"\x40\0\0\0", b"\x80" * 4):
                body = bytes(before) + claim + bytes(64)
                with within(2 * MIB), suppress(CorruptError, UnsupportedError):
                    decode(key, version, body)


def test_cve_2026_111108_elements_that_take_a_byte_each_are_counted_and_refused() -> None:
    """The same, of bytes that are there: each became an object of a hundred bytes and more."""
    count = 2 * MIB
    size = bytes(
        (0x80 | (count + 1) & 0x7F, 0x80 | (count + 1) >> 7 & 0x7F, 0x80 | (count + 1) >> 14)
    )
    names = size + b"\x01" + b"\x01" * count
    with pytest.raises(CorruptError), within(16 * MIB):
        decode_request(ApiKey.DESCRIBE_GROUPS, 5, memoryview(names))
    old = struct.pack(">i", count) + bytes(2 * count)
    with pytest.raises(CorruptError), within(16 * MIB):
        decode_request(ApiKey.DESCRIBE_GROUPS, 0, memoryview(old))


def test_cve_2026_111115_tags_that_nobody_knows_are_few_and_are_not_kept() -> None:
    """Kafka kept every tagged field that it did not know, and there could be as many as a request
    had bytes for.
    """
    many = b"\xff\xff\xff\xff\x07"
    tags = b"".join(bytes((0x80 | at & 0x7F, at >> 7, 0)) for at in range(128, 5_128))
    count = bytes((0x80 | 5_000 & 0x7F, 5_000 >> 7))
    start = struct.pack(">hhih", 18, 3, 1, -1)
    for given_tags in (many, many + bytes(100_000), count + tags):
        with pytest.raises(CorruptError), within(MIB):
            decode_request_header(memoryview(start + given_tags))
        with pytest.raises(CorruptError), within(MIB):
            decode_request(ApiKey.API_VERSIONS, 3, memoryview(b"\x02a\x02b" + given_tags))
        with pytest.raises(CorruptError), within(MIB):
            decode_request(ApiKey.DESCRIBE_GROUPS, 5, memoryview(b"\x02\x02a\x00" + given_tags))


# ---------------------------------------------------------------------------- compressed bytes

XERIAL = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)


@pytest.mark.parametrize("length", [0x7FFFFFFF, -1, -0x80000000, 600 << 20])
def test_cve_2023_34455_a_chunk_of_snappy_is_no_longer_than_the_bytes_that_are_there(
    length: int,
) -> None:
    """Kafka's library made room for a chunk by its length, which could be two gigabytes, or
    negative.
    """
    data = XERIAL + struct.pack(">i", length) + bytes(64)
    with pytest.raises(CorruptError), within(MIB):
        decompress(Codec.SNAPPY, data)


def test_cve_2023_43642_a_chunk_of_snappy_holds_no_more_than_it_may() -> None:
    """And its length had no upper bound: neither that of a chunk, nor of what it says to hold."""
    honest = bytes(cramjam.snappy.compress_raw(bytes(1000)))
    for claim in (b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x07", b"\x80\x80\x80\x80\x01"):
        chunk = claim + honest[2:]
        for data in (chunk, XERIAL + struct.pack(">i", len(chunk)) + chunk):
            with pytest.raises((CorruptError, UnsupportedError)), within(MIB):
                decompress(Codec.SNAPPY, data)


def test_cve_2026_42583_a_frame_of_lz4_gets_no_room_by_what_it_says_of_itself() -> None:
    """Netty made room for what 22 bytes said that they held: 32 MiB."""
    honest = lz4.frame.compress(b"x" * 1000, store_size=True)
    lie = honest[:6] + (32 * MIB).to_bytes(8, "little")
    # Its checksum is a byte: one of all fits.
    lies = [lie + bytes([one]) + honest[15:] for one in range(256)]
    (one,) = filter(is_frame, lies)
    with pytest.raises(CorruptError, match="cannot hold"):  # The library would have had the room.
        decompress(Codec.LZ4, one)
    for data in (*lies, *(one[:22] for one in lies)):
        with pytest.raises((CorruptError, UnsupportedError)), within(2 * MIB):
            decompress(Codec.LZ4, data)
        with within(2 * MIB), suppress(CorruptError):
            assert sum(map(len, decompress_pieces(Codec.LZ4, data))) <= 1000


def is_frame(data: bytes) -> bool:
    try:
        return bool(lz4.frame.get_frame_info(data)["content_size"])
    except RuntimeError:
        return False


@story
async def test_cve_2026_111073_what_a_broker_decompresses_costs_it_little_and_harms_nobody() -> (
    None
):
    """Kafka decompressed the metrics that clients push without a limit: a megabyte became a
    gigabyte. Metrics are not taken here. What is decompressed are batches for topics that are
    compacted, a piece at a time.
    """
    assert not {71, 72} & set(ADVERTISED)
    bomb = compress(Codec.GZIP, bytes(50 * MIB))
    with within(4 * MIB):
        assert sum(len(one) for one in decompress_pieces(Codec.GZIP, bomb)) == 50 * MIB
    with pytest.raises(UnsupportedError), within(16 * MIB):
        decompress(Codec.GZIP, bomb, size_max=MIB)
    site = Site()
    site.create("t", cleanup_policy="compact")
    async with broker(site) as running:
        client = await connect(running)
        huge = batch(bytes(30 * MIB), codec=Codec.GZIP)
        assert len(huge) < MIB
        tracemalloc.start()
        found = await client.produce("t", 0, huge)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert found.error_code is NONE
        assert peak < 16 * MIB
        assert (await client.produce("t", 0, batch(b"small"))).error_code is NONE
        client.writer.write(attacks.frame(72, 0, compress(Codec.GZIP, bytes(MIB))))
        assert await client.is_closed()
        await client.close()
