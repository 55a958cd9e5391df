"""What may be asked of a lane, and what is refused at the door."""

import struct
import sys
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from crc32c import crc32c

from lakelog.errors import CorruptError, InvalidInputError, UnsupportedError
from lakelog.formats.lanes import PAYLOAD_BYTES_MAX
from lakelog.journal import (
    Append,
    FlushPolicy,
    FlushSettings,
    PutTimes,
    Queue,
    Request,
    Touch,
    new_append,
    new_run,
)
from lakelog.records import (
    DECOMPRESSED_BYTES_MAX,
    HEADER_BYTES,
    RATIOS_MAX,
    RECORD_BYTES_MIN,
    Codec,
    compress,
    decode_header,
    decode_records,
)
from lakelog.testing import make_batch
from tests.unit.journal.script import EPOCH_MS, TOPIC, plain, sent

ONE = make_batch(1, 3, (-1, -1, -1), EPOCH_MS)
MINE = make_batch(2, 3, (7, 0, 0), EPOCH_MS)


def altered(batch: bytes, at: int, field: str, value: int) -> bytes:
    """Return a batch with another field, and the CRC of that."""
    body = bytearray(batch)
    struct.pack_into(">" + field, body, at, value)
    struct.pack_into(">I", body, 17, crc32c(bytes(body[21:])))
    return bytes(body)


def test_a_batch_of_a_producer_is_taken_as_it_is() -> None:
    request = new_append(TOPIC, 3, ONE)
    assert request.topic_partition == (TOPIC, 3)
    assert request.is_plain
    assert [row.length for row in request.rows] == [len(ONE)]
    assert not new_append(TOPIC, 3, MINE).is_plain


def test_a_run_of_batches_is_one_request_for_those_who_are_no_clients() -> None:
    request = new_run(TOPIC, 3, ONE + ONE)
    assert [row.length for row in request.rows] == [len(ONE)] * 2
    assert request.offsets == 6
    assert new_run(TOPIC, 3, ONE) == new_append(TOPIC, 3, ONE)
    for body in (MINE + ONE, ONE + MINE):
        with pytest.raises(InvalidInputError, match="one batch at a time"):
            new_run(TOPIC, 3, body)


def test_a_run_of_more_batches_than_a_directory_has_room_for_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lakelog.journal.requests.DIRECTORY_BYTES_MAX", 100 + 80 + 2 * 28)
    assert len(new_run(TOPIC, 3, ONE + ONE).rows) == 2
    with pytest.raises(InvalidInputError, match="3 batches at once"):
        new_run(TOPIC, 3, ONE + ONE + ONE)


@pytest.mark.parametrize(
    "body",
    [
        ONE[:-1],
        ONE[:60],
        ONE + ONE[:70],
        ONE + b"\0",
        ONE[:-1] + bytes([ONE[-1] ^ 1]),
        ONE[:17] + b"\0\0\0\0" + ONE[21:],
    ],
    ids=["cut", "cut in its header", "a cut second", "more", "a flipped bit", "another CRC"],
)
def test_a_damaged_batch_is_refused(body: bytes) -> None:
    with pytest.raises(CorruptError):
        new_append(TOPIC, 0, body)


def test_a_batch_of_another_format_is_refused() -> None:
    with pytest.raises(UnsupportedError):
        new_append(TOPIC, 0, ONE[:16] + b"\1" + ONE[17:])


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "no batch"),
        (altered(ONE, 21, "h", 0x20), "transactions"),
        (altered(MINE, 21, "h", 0x10), "transactions"),
        (altered(ONE, 57, "i", 2), "2 records in 3 offsets"),
        (altered(ONE, 23, "i", 9), "3 records in 10 offsets"),
        (ONE + ONE, "exactly one record batch for each partition"),
        (MINE + ONE, "exactly one record batch for each partition"),
        (ONE + MINE, "exactly one record batch for each partition"),
        (altered(MINE, 53, "i", -1), "sequence -1"),
        (altered(MINE, 51, "h", -1), "epoch -1"),
    ],
)
def test_what_no_producer_may_send_is_refused(body: bytes, why: str) -> None:
    with pytest.raises(InvalidInputError, match=why):
        new_append(TOPIC, 0, body)


# ---------------------------------------------------------------------------- counting records


def claiming(count: int, codec: Codec = Codec.NONE, body: bytes | None = None) -> bytes:
    """Return a batch with a good CRC that says it holds ``count`` records in ``body``."""
    if body is None:
        body = compress(codec, ONE[HEADER_BYTES:])
    made = bytearray(ONE[:HEADER_BYTES] + body)
    struct.pack_into(">i", made, 8, len(made) - 12)
    struct.pack_into(">hi", made, 21, codec, count - 1)
    struct.pack_into(">i", made, 57, count)
    struct.pack_into(">I", made, 17, crc32c(bytes(made[21:])))
    return bytes(made)


EMPTY = bytes((12, 0, 0, 0, 1, 1, 0))
"""A record without a key and a value, whose offset is 0: as short as one can be."""


@pytest.mark.parametrize("codec", Codec)
def test_a_batch_that_claims_a_record_and_holds_no_byte_is_refused(codec: Codec) -> None:
    body = claiming(1, codec, b"")
    assert len(body) == 61
    with pytest.raises(InvalidInputError, match="1 records cannot be in 0 bytes"):
        new_append(TOPIC, 0, body)


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("count", [2**31 - 1, DECOMPRESSED_BYTES_MAX // RECORD_BYTES_MIN + 1])
def test_a_batch_that_claims_more_records_than_its_bytes_can_hold_is_refused(
    codec: Codec, count: int
) -> None:
    with pytest.raises(InvalidInputError, match=f"{count} records cannot be in"):
        new_append(TOPIC, 0, claiming(count, codec))


def test_nobody_stores_more_records_than_a_reader_decompresses() -> None:
    """Also where the bytes could hold them: a megabyte of zstd can hold 32 GiB."""
    count = DECOMPRESSED_BYTES_MAX // RECORD_BYTES_MIN
    body = bytes(1 << 20)
    assert new_append(TOPIC, 0, claiming(count, Codec.ZSTD, body)).offsets == count
    with pytest.raises(InvalidInputError, match="records cannot be in"):
        new_append(TOPIC, 0, claiming(count + 1, Codec.ZSTD, body))


def test_the_shortest_records_there_can_be_are_taken_and_not_one_more() -> None:
    assert len(EMPTY) == RECORD_BYTES_MIN
    assert new_append(TOPIC, 0, claiming(1, Codec.NONE, EMPTY)).offsets == 1
    (record,) = decode_records(decode_header(claiming(1, Codec.NONE, EMPTY)), EMPTY)
    assert (record.key, record.value, record.headers) == (None, None, ())
    assert new_append(TOPIC, 0, claiming(1_000, Codec.NONE, EMPTY * 1_000)).offsets == 1_000
    with pytest.raises(InvalidInputError, match="1001 records cannot be in 7000 bytes of NONE"):
        new_append(TOPIC, 0, claiming(1_001, Codec.NONE, EMPTY * 1_000))


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("size", [7, 700, 70_000, 7_000_000, 35_000_000])
def test_no_codec_packs_tighter_than_its_ratio_so_that_no_true_count_is_refused(
    codec: Codec, size: int
) -> None:
    """Nothing packs tighter than zeros: one byte that is repeated for as long as possible."""
    levels = [None] if codec in (Codec.NONE, Codec.SNAPPY) else [None, 1, 9]
    for level in levels:
        body = compress(codec, bytes(size), level=level)
        assert size <= len(body) * RATIOS_MAX[codec]
        assert new_append(TOPIC, 0, claiming(size // 7, codec, body)).offsets == size // 7


# ---------------------------------------------------------------------------- the queue


def offer(queue: Queue[None], request: Request, now_ms: int) -> bool:
    """Let a request wait if there is room."""
    fits = queue.has_room(request)
    if fits:
        queue.push(request, now_ms, None)
    return fits


def take(queue: Queue[None]) -> list[Request]:
    return [request for request, _ in queue.take()]


PAID = FlushSettings(put_nano_usd=5_000, size_bytes_goal=1_000)
"""By S3's prices a lane may put something every 250 ms."""


def busy(settings: FlushSettings) -> Queue[Any]:
    """Return the queue of a lane that has spent what it had saved, and put a bundle at 5,000."""
    queue: Queue[Any] = Queue(settings)
    for _ in range(8):
        queue.flush_begins(5_000, 1)
        queue.flush_ends(5_000)
    return queue


def test_those_who_do_not_wait_any_more_leave_the_queue_and_the_others_keep_their_time() -> None:
    queue = busy(replace(PAID, interval_ms=100))
    for number in range(4):
        queue.push(plain(number), 5_000 + number, number, client="ab"[number // 2])
    assert queue.drop(lambda number: number % 2 == 0) == [(plain(0), 0), (plain(2), 2)]
    assert queue.due_ms() == 5_101, "since 5_001, and not since now"
    assert queue.take() == [(plain(1), 1), (plain(3), 3)]
    assert (len(queue), queue.size_bytes) == (0, 0)


def test_the_next_flush_is_due_when_the_lane_may_spend_another_put() -> None:
    queue = busy(PAID)
    assert queue.due_ms() is None
    assert offer(queue, plain(1), 5_001)
    assert offer(queue, plain(2), 5_100)
    assert queue.due_ms() == 5_250
    assert take(queue) == [plain(1), plain(2)]
    assert (queue.due_ms(), len(queue), queue.size_bytes) == (None, 0, 0)


def test_who_comes_when_that_is_so_does_not_wait() -> None:
    dues = []
    for since in (5_001, 5_130, 5_249, 5_250, 5_251):
        queue = busy(PAID)
        offer(queue, plain(1), since)
        dues.append(queue.due_ms())
    assert dues == [5_250, 5_250, 5_250, 5_250, 5_251]


def test_after_a_put_that_took_several_a_quarter_of_its_time_is_waited_for_more() -> None:
    dues = []
    for requests, put_ms in ((1, 100), (2, 100), (2, 0)):
        queue: Queue[None] = Queue(FlushSettings())
        queue.flush_begins(5_000, requests)
        offer(queue, plain(1), 5_010)
        queue.flush_ends(5_100)
        dues.append(queue.due_ms(put_ms))
    assert dues == [5_010, 5_125, 5_101]


@pytest.mark.parametrize(
    ("policy", "price", "in_force", "cell_ms", "bound_ms"),
    [
        (None, 0, FlushPolicy.LATENCY, 0, 250),
        (None, 5_000, FlushPolicy.BALANCED, 250, 250),
        (None, 10_000, FlushPolicy.BALANCED, 500, 500),
        (FlushPolicy.COST, 5_000, FlushPolicy.COST, 5_000, 5_000),
        (FlushPolicy.COST, 0, FlushPolicy.COST, 0, 250),
        (FlushPolicy.LATENCY, 5_000, FlushPolicy.LATENCY, 0, 250),
    ],
)
def test_a_policy_and_a_price_say_how_often_a_lane_puts(
    policy: FlushPolicy | None, price: int, in_force: FlushPolicy, cell_ms: int, bound_ms: int
) -> None:
    settings = FlushSettings(policy=policy, put_nano_usd=price)
    found = settings.policy_in_force, settings.cell_ms, settings.bound_ms
    assert found == (in_force, cell_ms, bound_ms)
    assert replace(settings, interval_ms=7).bound_ms == 7


def test_the_time_of_puts_is_the_median_of_the_last_ones() -> None:
    times = PutTimes()
    assert times.median_ms == 0
    for took_ms in (9, 1, 5_000):
        times.note(took_ms)
    assert times.median_ms == 9
    for _ in range(31):
        times.note(2)
    assert times.median_ms == 2


def test_a_bundle_has_no_more_requests_than_it_may() -> None:
    queue = busy(replace(PAID, requests_max=3))
    for number in range(7):
        offer(queue, plain(number), 5_000)
    assert queue.due_ms() == 5_000, "so many do not wait for more"
    assert [len(take(queue)) for _ in range(3)] == [3, 3, 1]


def test_a_bundle_has_no_more_requests_than_its_directory_has_room_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The package has a function of the module's name.
    module = sys.modules["lakelog.journal.flush"]
    monkeypatch.setattr(module, "DIRECTORY_BYTES_MAX", 3 * (100 + 80 + 28))
    queue: Queue[None] = Queue(FlushSettings(requests_max=1_000_000))
    for number in range(7):
        offer(queue, plain(number), 5_000)
    assert [len(take(queue)) for _ in range(3)] == [3, 3, 1]
    offer(queue, new_run(TOPIC, 0, ONE * 100), 5_000)
    assert len(take(queue)) == 1, "a single one is taken in any case"


def test_no_setting_makes_bundles_larger_than_readers_take() -> None:
    most = PAYLOAD_BYTES_MAX
    FlushSettings(size_bytes_goal=1, size_bytes_max=most, queue_bytes_max=most)
    with pytest.raises(InvalidInputError, match="size_bytes_max is at most that"):
        FlushSettings(size_bytes_max=most + 1, queue_bytes_max=most + 1)


def test_enough_bytes_do_not_wait() -> None:
    size = len(plain(1).body)
    queue = busy(replace(PAID, size_bytes_goal=2 * size))
    offer(queue, plain(1), 5_000)
    assert queue.due_ms() == 5_250
    offer(queue, plain(2), 5_001)
    assert queue.due_ms() == 5_000


def test_what_does_not_fit_is_refused_at_the_door_and_costs_nothing() -> None:
    size = len(plain(1).body)
    settings = FlushSettings(size_bytes_goal=size, size_bytes_max=size, queue_bytes_max=2 * size)
    queue: Queue[None] = Queue(settings)
    assert [offer(queue, plain(number), 0) for number in range(3)] == [True, True, False]
    assert (len(queue), queue.size_bytes) == (2, 2 * size)
    assert offer(queue, Touch(), 0), "what has no bytes always fits"
    assert take(queue) == [plain(0)]
    assert offer(queue, plain(3), 0)


def test_a_request_larger_than_all_limits_goes_alone() -> None:
    settings = FlushSettings(size_bytes_goal=1, size_bytes_max=2, queue_bytes_max=3)
    queue: Queue[None] = Queue(settings)
    assert offer(queue, sent(0), 0)
    assert not offer(queue, sent(1), 0)
    assert take(queue) == [sent(0)]


def run_of(count: int) -> Append:
    """Return a request that is as large as so many plain ones."""
    return new_run(TOPIC, 0, bytes(plain(1).body) * count)


def served(settings: FlushSettings, *pushed: tuple[str, Append]) -> list[list[str]]:
    """Return whose requests each bundle has, in its order."""
    queue: Queue[str] = Queue(settings)
    for number, (client, request) in enumerate(pushed):
        queue.push(request, number, client, client)
    bundles = []
    while len(queue):
        bundles.append([client for _, client in queue.take()])
    assert (queue.size_bytes, queue.due_ms()) == (0, None)
    return bundles


def test_who_sends_a_flood_delays_the_others_by_no_more_than_a_bundle() -> None:
    flood = [("flood", plain(number)) for number in range(1_000)]
    bundles = served(FlushSettings(requests_max=200), *flood, ("a", plain(1)), ("b", plain(2)))
    assert bundles[0][:3] == ["flood", "a", "b"]
    assert [len(bundle) for bundle in bundles] == [200, 200, 200, 200, 200, 2]


def test_clients_have_equal_parts_of_a_bundle_by_bytes() -> None:
    size = len(plain(1).body)
    settings = FlushSettings(
        size_bytes_goal=1, size_bytes_max=40 * size, queue_bytes_max=40 * size, requests_max=40
    )
    large = [("large", run_of(10)) for _ in range(20)]
    small = [("small", plain(number)) for number in range(100)]
    assert Counter(served(settings, *large, *small)[0]) == {"large": 2, "small": 20}


def test_a_bundle_has_places_and_small_requests_do_not_take_all_of_them() -> None:
    settings = FlushSettings(size_bytes_max=16 << 20, requests_max=10)
    small = [("small", plain(number)) for number in range(100)]
    other = [("other", run_of(10)) for _ in range(10)]
    assert Counter(served(settings, *small, *other)[0]) == {"small": 5, "other": 5}


def test_who_found_no_place_in_a_bundle_is_first_in_the_next_one() -> None:
    size = len(plain(1).body)
    settings = FlushSettings(
        size_bytes_goal=1, size_bytes_max=4 * size, queue_bytes_max=1 << 20, requests_max=4
    )
    large = ("large", run_of(4))
    small = [("small", plain(number)) for number in range(6)]
    bundles = served(settings, *small, large, ("large", plain(7)))
    assert bundles[0] == ["small"] * 4, "and what is behind the large one does not pass it"
    assert bundles[1:] == [["large"], ["small", "large", "small"]]


def test_with_more_clients_than_places_all_have_their_turn() -> None:
    settings = FlushSettings(requests_max=3)
    pushed = [(client, plain(number)) for number in range(2) for client in "abcdefg"]
    assert ["".join(bundle) for bundle in served(settings, *pushed)] == [
        "abc", "def", "gab", "cde", "fg",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "wrong",
    [
        {"interval_ms": -1},
        {"put_nano_usd": -1},
        {"requests_max": 0},
        {"size_bytes_goal": 0},
        {"size_bytes_goal": 2, "size_bytes_max": 1},
        {"size_bytes_max": 128 << 20},
    ],
)
def test_settings_that_contradict_each_other_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match="goal <= max <= queue"):
        FlushSettings(**wrong)


def test_the_body_of_a_request_is_not_shown() -> None:
    request: Append = plain(1)
    assert "body" not in repr(request)
