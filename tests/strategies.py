"""What Hypothesis draws: records and batches, from the plain to the absurd."""

from hypothesis import strategies as st

from lakelog.model import Header, Record, TimestampType
from lakelog.records import Codec, NewBatch

I64_MAX = (1 << 63) - 1

payloads = st.binary(max_size=40) | st.binary(max_size=3).map(lambda b: b * 50)
nullable = st.none() | payloads

header_keys = st.text(max_size=6) | st.binary(max_size=4).map(
    lambda raw: raw.decode("utf-8", "surrogateescape")
)
headers = st.lists(st.builds(Header, header_keys, nullable), max_size=3).map(tuple)

# Mostly like real ones, sometimes at the edge of what 64 bits hold.
timestamps = st.integers(1_600_000_000_000, 1_600_000_100_000) | st.integers(-1, I64_MAX >> 10)
base_offsets = st.integers(0, 1000) | st.integers(0, 10**12) | st.integers(0, 1 << 62)


@st.composite
def records(
    draw: st.DrawFn, *, min_size: int = 1, max_size: int = 12, gaps: bool = True
) -> list[Record]:
    """Records with rising offsets, as they stand in one partition."""
    count = draw(st.integers(min_size, max_size))
    offset = draw(base_offsets)
    steps = st.integers(1, 5) if gaps else st.just(1)
    found = []
    for _ in range(count):
        found.append(
            Record(
                offset=offset,
                timestamp=draw(timestamps),
                key=draw(nullable),
                value=draw(nullable),
                headers=draw(headers),
            )
        )
        offset += draw(steps)
    return found


@st.composite
def new_batches(draw: st.DrawFn) -> NewBatch:
    """Batches of every kind a Kafka log can hold, compacted and empty ones too."""
    found = draw(records(min_size=0))
    kind = draw(st.sampled_from(TimestampType))
    if kind is TimestampType.LOG_APPEND_TIME and found:
        time = found[0].timestamp
        found = [
            Record(offset=r.offset, timestamp=time, key=r.key, value=r.value, headers=r.headers)
            for r in found
        ]
    first = found[0].offset if found else draw(base_offsets)
    last = found[-1].offset + 1 if found else first + 1
    idempotent = draw(st.booleans())
    return NewBatch(
        records=tuple(found),
        base_offset=max(0, first - draw(st.integers(0, 3))),
        next_offset=last + draw(st.integers(0, 3)),
        codec=draw(st.sampled_from(Codec)),
        leader_epoch=draw(st.integers(-1, 5)),
        timestamp_type=kind,
        is_transactional=draw(st.booleans()),
        is_control=draw(st.booleans()),
        delete_horizon=draw(st.none() | timestamps) if found else None,
        producer_id=draw(st.integers(0, I64_MAX)) if idempotent else -1,
        producer_epoch=draw(st.integers(0, 32767)) if idempotent else -1,
        base_sequence=draw(st.integers(0, (1 << 31) - 1)) if idempotent else -1,
    )
