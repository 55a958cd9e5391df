"""Stories of producers: what is acknowledged is stored, and what is refused is not."""

import asyncio
import struct

import pytest
from crc32c import crc32c
from kio.schema.errors import ErrorCode

from lakelog.catalog import TOPIC_CONFIGS
from lakelog.host import SystemClock
from lakelog.records import BATCH_BYTES_MAX, Codec, decode_batches, decode_header
from lakelog.store import PutIfAbsent
from tests.patience import in_time
from tests.unit.broker.site import NOON, Site, batch, broker, connect, records, story, virtual_story
from tests.virtual_time import pass_time

HOUR_MS = 3_600_000


class Watch:
    """A clock that can be set."""

    def __init__(self) -> None:
        self.ms = SystemClock().now_ms()

    def now_ms(self) -> int:
        return self.ms

    def boot_ms(self) -> int:
        return SystemClock().boot_ms()


@pytest.mark.parametrize("codec", Codec)
def test_a_batch_of_any_codec_is_stored_and_read_as_it_came(codec: Codec) -> None:
    async def run() -> None:
        site = Site()
        site.create("t")
        async with broker(site) as running:
            client = await connect(running)
            body = batch(*[b"value %d" % at for at in range(50)], codec=codec)
            for version in range(3, 13):
                made = await client.produce("t", 0, body, version=version)
                assert (made.error_code, made.base_offset) == (ErrorCode.none, 50 * (version - 3))
            row = await client.fetch_one("t", 0, 60)
            first = decode_header(row.records)
            assert first.codec is codec
            assert first.base_offset == 50
            assert row.records[21:114] == body[21:114]
            await client.close()
        assert len(site.stored("t")) == 500

    asyncio.run(run())


@story
async def test_topics_are_named_by_id_from_version_13_on() -> None:
    site = Site()
    site.create("t")
    async with broker(site) as running:
        client = await connect(running)
        await client.metadata("t")
        made = await client.produce("t", 0, batch(b"a"), version=13)
        assert (made.error_code, made.base_offset) == (ErrorCode.none, 0)
        client.ids["t"] = type(client.ids["t"])(int=5)
        made = await client.produce("t", 0, batch(b"a"), version=13)
        assert made.error_code is ErrorCode.unknown_topic_id
        await client.close()


@story
async def test_acks_0_gets_no_answer_and_is_stored_in_order() -> None:
    site = Site()
    site.create("t")
    async with broker(site) as running:
        client = await connect(running)
        for at in range(20):
            client.send_produce({("t", 0): batch(b"%d" % at)}, acks=0)
        made = await client.produce("t", 0, batch(b"last"), acks=1)
        assert (made.error_code, made.base_offset) == (ErrorCode.none, 20)
        await client.close()
    assert site.stored("t") == [*(b"%d" % at for at in range(20)), b"last"]


@story
async def test_a_retry_is_answered_with_the_first_offset_and_stored_once() -> None:
    site = Site()
    site.create("t")
    async with broker(site) as running:
        client = await connect(running)
        first = batch(b"a", b"b", producer=(7, 0, 0))
        second = batch(b"c", producer=(7, 0, 2))
        offsets = []
        for body in (first, second, first, second):
            made = await client.produce("t", 0, body)
            assert made.error_code is ErrorCode.none
            offsets.append(made.base_offset)
        assert offsets == [0, 2, 0, 2]
        await client.close()
    assert site.stored("t") == [b"a", b"b", b"c"]


@story
async def test_a_retry_is_recognised_by_a_broker_that_has_just_begun() -> None:
    site = Site()
    site.create("t")
    body = batch(b"a", producer=(7, 0, 0))
    for _ in range(2):
        async with broker(site) as running:
            client = await connect(running)
            made = await client.produce("t", 0, body)
            assert (made.error_code, made.base_offset) == (ErrorCode.none, 0)
            await client.close()
    assert site.stored("t") == [b"a"]


@story
async def test_a_gap_in_the_sequence_and_an_old_epoch_are_refused() -> None:
    site = Site()
    site.create("t")
    async with broker(site) as running:
        client = await connect(running)
        await client.produce("t", 0, batch(b"a", producer=(7, 1, 0)))
        made = await client.produce("t", 0, batch(b"z", producer=(7, 1, 5)))
        assert made.error_code is ErrorCode.out_of_order_sequence_number
        made = await client.produce("t", 0, batch(b"z", producer=(7, 0, 1)))
        assert made.error_code is ErrorCode.invalid_producer_epoch
        made = await client.produce("t", 0, batch(b"b", producer=(7, 1, 1)))
        assert made.error_code is ErrorCode.none
        await client.close()
    assert site.stored("t") == [b"a", b"b"]


@story
async def test_a_refusal_is_not_final_before_the_lane_was_looked_at() -> None:
    """Another process may have stored what came before."""
    site = Site()
    site.create("t")
    async with broker(site) as running:
        client = await connect(running)
        await client.produce("t", 0, batch(b"a", producer=(7, 0, 0)))
        site.append("t", 0, batch(b"b", producer=(7, 0, 1)))
        made = await client.produce("t", 0, batch(b"c", producer=(7, 0, 2)))
        assert (made.error_code, made.base_offset) == (ErrorCode.none, 2)
        await client.close()
    assert site.stored("t") == [b"a", b"b", b"c"]


@story
async def test_max_message_bytes_bounds_a_batch_and_not_a_request() -> None:
    site = Site()
    site.create("t", 2, max_message_bytes="200")
    async with broker(site) as running:
        client = await connect(running)
        made = await client.produce("t", 0, batch(b"x" * 300))
        assert made.error_code is ErrorCode.message_too_large
        small = batch(b"x" * 60)
        client.send_produce({("t", 0): small, ("t", 1): small})
        _, found = await client.answer()
        (topic,) = found.responses
        assert {row.error_code for row in topic.partition_responses} == {ErrorCode.none}
        await client.close()
    assert len(site.stored("t")) == 2


def test_a_batch_larger_than_readers_take_is_too_large_whatever_the_topic_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As a topic may that was made before there was a limit."""
    row = TOPIC_CONFIGS["max.message.bytes"]
    assert row.most == BATCH_BYTES_MAX
    monkeypatch.setitem(TOPIC_CONFIGS, "max.message.bytes", row._replace(most=200))

    async def run() -> None:
        site = Site()
        site.create("t", max_message_bytes="2147483646")
        async with broker(site) as running:
            client = await connect(running)
            made = await client.produce("t", 0, batch(b"x" * 300))
            assert made.error_code is ErrorCode.message_too_large
            made = await client.produce("t", 0, batch(b"x" * 60))
            assert (made.error_code, made.base_offset) == (ErrorCode.none, 0)
            await client.close()

    asyncio.run(run())


@story
async def test_a_request_has_exactly_one_batch_for_each_partition() -> None:
    site = Site()
    site.create("t", max_message_bytes="100")
    async with broker(site) as running:
        client = await connect(running)
        for version in (3, 9, 12):
            for copies in (2, 1_000):
                made = await client.produce("t", 0, batch(b"x") * copies, version=version)
                assert made.error_code is ErrorCode.invalid_record
        made = await client.produce("t", 0, batch(b"x"))
        assert (made.error_code, made.base_offset) == (ErrorCode.none, 0)
        await client.close()
    assert site.stored("t") == [b"x"]


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("count", [1, 2**31 - 1])
def test_a_batch_that_cannot_hold_the_records_it_claims_moves_no_offset(
    codec: Codec, count: int
) -> None:
    async def run() -> None:
        site = Site()
        site.create("t")
        body = bytearray(batch(b"x", codec=codec))
        if count == 1:
            body = body[:61]
            struct.pack_into(">i", body, 8, len(body) - 12)
        struct.pack_into(">i", body, 23, count - 1)
        struct.pack_into(">i", body, 57, count)
        struct.pack_into(">I", body, 17, crc32c(bytes(body[21:])))
        async with broker(site) as running:
            client = await connect(running)
            for _ in range(2):  # The second request like one before takes a shorter way.
                made = await client.produce("t", 0, bytes(body))
                assert made.error_code is ErrorCode.invalid_record
            made = await client.produce("t", 0, batch(b"good"))
            assert (made.error_code, made.base_offset) == (ErrorCode.none, 0)
            await client.close()
        assert site.stored("t") == [b"good"]

    asyncio.run(run())


@story
async def test_one_bad_partition_does_not_keep_the_others_from_being_stored() -> None:
    site = Site(lanes=2)
    site.create("t", 2)
    async with broker(site) as running:
        client = await connect(running)
        damaged = bytearray(batch(b"x"))
        damaged[-1] ^= 1
        parts = {
            ("t", 0): bytes(damaged),
            ("t", 1): batch(b"good"),
            ("t", 2): batch(b"nowhere"),
            ("no", 0): batch(b"nowhere"),
            ("no such name!", 0): batch(b"nowhere"),
        }
        client.send_produce(parts)
        _, found = await client.answer()
        codes = [row.error_code for topic in found.responses for row in topic.partition_responses]
        assert codes[:4] == [
            ErrorCode.corrupt_message,
            ErrorCode.none,
            ErrorCode.unknown_topic_or_partition,
            ErrorCode.unknown_topic_or_partition,
        ]
        assert codes[4] is ErrorCode.unknown_topic_or_partition
        await client.close()
    assert site.stored("t") == [b"good"]


@story
async def test_transactions_and_strange_acks_are_refused() -> None:
    site = Site()
    site.create("t")
    async with broker(site) as running:
        client = await connect(running)
        made = await client.produce("t", 0, batch(b"x"), transactional_id="tx")
        assert made.error_code is ErrorCode.transactional_id_authorization_failed
        for _ in range(3):
            made = await client.produce("t", 0, batch(b"x"), acks=2)
            assert made.error_code is ErrorCode.invalid_required_acks
        for flag in (0x10, 0x20):
            body = bytearray(batch(b"x"))
            body[22] |= flag
            body[17:21] = crc32c(body[21:]).to_bytes(4, "big")
            made = await client.produce("t", 0, bytes(body))
            assert made.error_code is ErrorCode.invalid_record
        for empty in (b"", None):
            made = await client.produce("t", 0, empty)  # type: ignore[arg-type]
            assert made.error_code is ErrorCode.invalid_record
        await client.close()
    assert site.stored("t") == []


@story
async def test_log_append_time_stamps_batches_under_a_good_crc_and_never_goes_back() -> None:
    site = Site()
    site.create("t", message_timestamp_type="LogAppendTime")
    watch = Watch()
    async with broker(site, clock=watch) as running:
        client = await connect(running)
        stamps = []
        for step in (0, 5_000, -60_000, 1_000):
            watch.ms += step
            for _ in range(2):
                made = await client.produce("t", 0, batch(b"a", b"b", times=[NOON, NOON - 5]))
                assert made.error_code is ErrorCode.none
                stamps.append(round(made.log_append_time.timestamp() * 1000))
        assert stamps == sorted(stamps)
        row = await client.fetch_one("t", 0, 0)
        times = []
        for one in decode_batches(row.records):  # CRCs are checked here.
            assert one.header.attributes & 0x08
            times += [record.timestamp for record in one.records]
        assert times == [stamp for stamp in stamps for _ in range(2)]
        await client.close()


@virtual_story
async def test_log_append_times_do_not_go_back_within_one_flush() -> None:
    site = Site()
    site.create("t", message_timestamp_type="LogAppendTime")
    watch = Watch()
    async with broker(site, clock=watch) as running:
        client = await connect(running)
        await client.produce("t", 0, batch(b"a"))
        site.open.clear()
        for step in (0, 60_000, -10_000, -10_000, 5_000):
            watch.ms += step
            client.send_produce({("t", 0): batch(b"a")})
            await client.writer.drain()
            await pass_time(0.02)
        site.open.set()
        for _ in range(5):
            await client.answer()
        row = await client.fetch_one("t", 0, 0)
        times = [r.timestamp for one in decode_batches(row.records) for r in one.records]
        assert times == sorted(times)
        await client.close()


@story
async def test_times_too_far_from_now_are_refused() -> None:
    site = Site()
    site.create("t", message_timestamp_before_max_ms=str(HOUR_MS))
    async with broker(site) as running:
        client = await connect(running)
        now_ms = SystemClock().now_ms()
        for time, code in (
            (now_ms - HOUR_MS // 2, ErrorCode.none),
            (now_ms - 2 * HOUR_MS, ErrorCode.invalid_timestamp),
            (now_ms + HOUR_MS // 2, ErrorCode.none),
            (now_ms + 2 * HOUR_MS, ErrorCode.invalid_timestamp),
            (-1, ErrorCode.none),
        ):
            made = await client.produce("t", 0, batch(b"a", times=[time]))
            assert made.error_code is code, time - now_ms
        await client.close()


@story
async def test_a_producer_may_not_say_that_its_times_are_those_of_the_log() -> None:
    site = Site()
    site.create("t")
    async with broker(site) as running:
        client = await connect(running)
        body = bytearray(batch(b"x"))
        body[22] |= 0x08
        body[17:21] = crc32c(body[21:]).to_bytes(4, "big")
        made = await client.produce("t", 0, bytes(body))
        assert made.error_code is ErrorCode.invalid_timestamp
        await client.close()


@story
async def test_records_of_a_compacted_topic_need_keys_and_keep_their_order() -> None:
    site = Site()
    site.create("t", cleanup_policy="compact")
    async with broker(site) as running:
        client = await connect(running)
        made = await client.produce("t", 0, batch(b"a", b"b", b"c", key=None))
        assert made.error_code is ErrorCode.invalid_record
        assert [one.batch_index for one in made.record_errors] == [0, 1, 2]
        made = await client.produce("t", 0, batch(b"a", b"b", keys=[b"k", None]))
        assert [one.batch_index for one in made.record_errors] == [1]
        assert "without key" in made.record_errors[0].batch_index_error_message
        sent = []
        for at in range(40):
            # Large ones take longer to look at.
            codec = Codec.GZIP if at % 3 else Codec.NONE
            values = [b"%d/%d" % (at, i) for i in range(500 if at % 3 else 1)]
            sent += values
            client.send_produce({("t", 0): batch(*values, codec=codec, key=b"k")})
        for _ in range(40):
            _, found = await client.answer()
            assert found.responses[0].partition_responses[0].error_code is ErrorCode.none
        await client.close()
    assert site.stored("t") == sent


@story
async def test_a_frozen_store_is_told_as_a_time_out_and_the_batch_is_not_stored_twice() -> None:
    site = Site()
    site.create("t")
    async with broker(site) as running:
        client = await connect(running)
        body = batch(b"a", producer=(7, 0, 0))
        await client.produce("t", 0, body)
        site.open.clear()
        later = batch(b"b", producer=(7, 0, 1))
        loop = asyncio.get_running_loop()
        began = loop.time()
        made = await client.produce("t", 0, later, timeout_ms=300)
        assert made.error_code is ErrorCode.request_timed_out
        assert loop.time() - began > 0.25
        in_time(loop.time() - began < 2, loop.time() - began)
        site.open.set()
        made = await client.produce("t", 0, later)
        assert (made.error_code, made.base_offset) == (ErrorCode.none, 1)
        await client.close()
    assert site.stored("t") == [b"a", b"b"]


@virtual_story
async def test_what_nobody_waits_for_any_more_is_not_sent() -> None:
    site = Site()
    site.create("t")
    async with broker(site) as running:
        client = await connect(running)
        await client.produce("t", 0, batch(b"first"))
        site.open.clear()
        for value in (b"in flight", b"queued"):
            client.send_produce({("t", 0): batch(value)}, timeout_ms=200)
            await client.writer.drain()
            await pass_time(0.05)
        for _ in range(2):
            _, found = await client.answer()
            row = found.responses[0].partition_responses[0]
            assert row.error_code is ErrorCode.request_timed_out
        site.open.set()
        made = await client.produce("t", 0, batch(b"last"))
        assert made.error_code is ErrorCode.none
        await client.close()
    assert site.stored("t") == [b"first", b"in flight", b"last"]


@virtual_story
async def test_producers_of_many_connections_share_bundles() -> None:
    site = Site()
    site.create("t", 8)
    async with broker(site) as running:
        clients = [await connect(running) for _ in range(20)]
        await clients[0].produce("t", 0, batch(b"x"))
        site.open.clear()
        for at, client in enumerate(clients):
            client.send_produce({("t", at % 8): batch(b"%d" % at)})
        await pass_time(0.1)
        before = site.count(PutIfAbsent, ".bundle")
        site.open.set()
        for client in clients:
            _, found = await client.answer()
            assert found.responses[0].partition_responses[0].error_code is ErrorCode.none
            await client.close()
        assert site.count(PutIfAbsent, ".bundle") - before <= 2


@story
async def test_a_topic_that_another_process_made_can_be_produced_to_at_once() -> None:
    site = Site()
    async with broker(site) as running:
        client = await connect(running)
        site.create("late")
        made = await client.produce("late", 0, batch(b"a"))
        assert (made.error_code, made.base_offset) == (ErrorCode.none, 0)
        made = await client.produce("never", 0, batch(b"a"))
        assert made.error_code is ErrorCode.unknown_topic_or_partition
        await client.close()


@story
async def test_pipelined_batches_to_a_topic_that_must_be_asked_for_keep_their_order() -> None:
    site = Site()
    async with broker(site) as running:
        client = await connect(running)
        site.create("late")
        for at in range(30):
            client.send_produce({("late", 0): batch(b"%d" % at)})
            if at % 4 == 0:
                await client.writer.drain()
                await asyncio.sleep(0)
        for at in range(30):
            _, found = await client.answer()
            row = found.responses[0].partition_responses[0]
            assert (row.error_code, row.base_offset) == (ErrorCode.none, at)
        await client.close()
    assert site.stored("late") == [b"%d" % at for at in range(30)]


@story
async def test_a_producer_of_a_deleted_topic_is_told_so() -> None:
    site = Site()
    site.create("t")
    async with broker(site) as running:
        client = await connect(running)
        await client.produce("t", 0, batch(b"a"))
        found = await client.ask(20, 6, topics=[{"name": "t", "topic_id": None}], timeout=1000)
        assert found.responses[0].error_code is ErrorCode.none
        made = await client.produce("t", 0, batch(b"a"))
        assert made.error_code is ErrorCode.unknown_topic_or_partition
        await client.close()


@story
async def test_offsets_epochs_and_sizes_in_a_fetched_batch_are_right_whatever_was_sent() -> None:
    """Producers write offset 0 and no epoch; some write other things."""
    site = Site()
    site.create("t")
    async with broker(site) as running:
        client = await connect(running)
        odd = bytearray(batch(b"a", b"b"))
        odd[0:8] = struct.pack(">q", 1 << 40)
        odd[12:16] = struct.pack(">i", 77)
        await client.produce("t", 0, batch(b"first"))
        made = await client.produce("t", 0, bytes(odd))
        assert made.base_offset == 1
        row = await client.fetch_one("t", 0, 0)
        assert records(row.records) == [(0, b"first"), (1, b"a"), (2, b"b")]
        assert {one.header.leader_epoch for one in decode_batches(row.records)} == {0}
        await client.close()


@story
async def test_acks_0_notices_an_error_by_the_end_of_its_connection_behind_other_answers() -> None:
    """There is no other way to tell it. Kafka does the same."""
    site = Site()
    site.create("t")
    async with broker(site) as running:
        client = await connect(running)
        first = client.send_produce({("t", 0): batch(b"a")})
        client.send_produce({("t", 7): batch(b"b")}, acks=0)
        assert (await client.answer())[0] == first
        assert await client.is_closed()
        await client.close()
        again = await connect(running)
        await again.produce("t", 0, batch(b"c"))
        bad = bytearray(batch(b"d"))
        bad[-1] ^= 1
        again.send_produce({("t", 0): bytes(bad)}, acks=0)
        assert await again.is_closed()
        await again.close()
    whys = [event["why"] for event in site.log if event["event"] == "connection closed"]
    assert len([why for why in whys if why.startswith("Produce with acks=0: partition ")]) == 2
    assert site.stored("t") == [b"a", b"c"]


@story
async def test_acks_0_notices_that_a_store_has_not_answered_in_time() -> None:
    site = Site()
    site.create("t")
    async with broker(site) as running:
        client = await connect(running)
        await client.produce("t", 0, batch(b"a"), timeout_ms=200)
        site.open.clear()
        client.send_produce({("t", 0): batch(b"b")}, acks=0, timeout_ms=200)
        assert await client.is_closed()
        site.open.set()
        await client.close()
