"""What is in a log, as plain records.

They are read from the store, so that no client and no broker has to be trusted with it.
"""

from typing import NamedTuple

from lakelog.host import SystemClock, new_id
from lakelog.log import OutOfRange, open_survey, read
from lakelog.records import decode_batches
from lakelog.segments import Selection
from lakelog.store import Store, Work, run, working

__all__ = ["StoredRecord", "stored_records"]

CHUNK_BYTES = 1 << 20


class StoredRecord(NamedTuple):
    """A record, as a consumer would see it."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def stored_records(store: Store, topic: str) -> list[StoredRecord]:
    """Return all records of a topic, by partition and offset.

    Raises:
        NotFoundError: there is no such topic.
    """
    return run(_read(topic), working(store.perform))


def _read(topic: str) -> Work[list[StoredRecord]]:
    survey = yield from open_survey(SystemClock(), new_id)
    members = yield from survey.members(Selection(topics=frozenset((topic,))))
    found: list[StoredRecord] = []
    for number in sorted({member.lane for member in members}):
        yield from survey.look(number)
    for extent in (yield from survey.extents(members)):
        member, offset = extent.member, extent.log_start
        while offset < extent.end:
            lane = survey.lane(member.lane)
            chunk = yield from read(lane, member.where, offset, CHUNK_BYTES)
            if isinstance(chunk, OutOfRange):
                offset = chunk.bounds.log_start  # Records were deleted meanwhile.
                continue
            if chunk.next_offset == offset:
                break
            found += _plain(member.key[1], chunk.body, offset)
            offset = chunk.next_offset
    return found


def _plain(partition: int, body: bytes, first: int) -> list[StoredRecord]:
    return [
        StoredRecord(
            partition,
            one.offset,
            one.timestamp,
            one.key,
            one.value,
            tuple((header.key, header.value) for header in one.headers),
        )
        for batch in decode_batches(body)
        if not batch.header.is_control
        for one in batch.records
        if one.offset >= first
    ]
