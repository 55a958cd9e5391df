"""Times become offsets, wherever the records are; the judge looks at every record."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakelog.errors import NotFoundError
from lakelog.journal import DeleteTopic, append
from lakelog.log import offset_at
from lakelog.maintenance import SealSettings
from lakelog.manifests import PartitionPath
from lakelog.records import decode_batches
from lakelog.store import Delete
from tests.unit.log.site import EPOCH_MS, Site


def first_not_older(site: Site, where: PartitionPath, timestamp: int) -> int | None:
    """What Kafka would say: the first record, by offset, that is not older."""
    start = site.bounds(where).log_start
    for body in site.log(where):
        for batch in decode_batches(body):
            for record in batch.records:
                if record.offset >= start and record.timestamp >= timestamp:
                    return record.offset
    return None


def ask(site: Site, where: PartitionPath, timestamp: int) -> int | None:
    found = site.run(offset_at(site.lane(), where, timestamp))
    assert found is None or found.timestamp >= timestamp
    return None if found is None else found.offset


times = st.lists(st.integers(0, 20), min_size=1, max_size=30)


@settings(max_examples=60, deadline=None)
@given(
    times=times,
    sealed=st.integers(0, 30),
    trimmed=st.booleans(),
    start=st.integers(0, 60),
    without_index=st.booleans(),
    small=st.booleans(),
)
def test_the_answer_is_the_first_record_that_is_not_older(
    times: list[int], sealed: int, trimmed: bool, start: int, without_index: bool, small: bool
) -> None:
    site = Site()
    where = site.topic().path_of(0)
    lane = site.lane()
    for number, time in enumerate(times):
        if number == sealed:
            site.seal(SealSettings(group_bytes=1 << 20, segment_bytes=200 if small else 1 << 20))
            if trimmed:
                site.trim()
        site.append(lane, where, site.batch(at_ms=EPOCH_MS + time))
    site.delete_records(where, min(start, 2 * len(times)))
    if without_index:
        for key in site.objects(where.prefix):
            if key.endswith(".timeindex"):
                site.perform(Delete(key))
    for time in range(-1, 22):
        timestamp = EPOCH_MS + time
        assert ask(site, where, timestamp) == first_not_older(site, where, timestamp), time


def test_an_empty_log_has_no_time() -> None:
    site = Site()
    assert ask(site, site.topic().path_of(0), 0) is None


def test_a_deleted_topic_has_no_times() -> None:
    site = Site()
    where = site.topic().path_of(0)
    site.fill(site.lane(), where, 1)
    site.run(append(site.lane(), [DeleteTopic(topic=where.topic)]))
    with pytest.raises(NotFoundError):
        ask(site, where, 0)
