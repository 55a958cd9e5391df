"""How large a bulk write may be: what is larger is refused before it is decided, and not after."""

import pytest

from lakelog.errors import InvalidInputError
from lakelog.formats.lanes import DIRECTORY_BYTES_MAX, directory_bytes
from lakelog.journal import Lane
from lakelog.log import Chunk, Identity, Staged, abandon_write, read, read_decision
from lakelog.log.staging import (
    PAGES_MAX,
    PLAN_BYTES_MAX,
    RUNS_MAX,
    create_part,
    decode_plan,
    encode_plan,
)
from lakelog.names import STAGED_PREFIX
from lakelog.records import decode_batches
from lakelog.spark.sink.options import BUFFER_BYTES
from lakelog.store import Work
from tests.unit.log.site import Site
from tests.unit.log.test_writes import QUERY, Place

GB = 10**9


@pytest.mark.parametrize(
    ("size", "partitions", "lanes"), [(20 * GB, 4_000, 4), (26 * GB, 1_000, 1), (20 * GB, 4_000, 1)]
)
def test_a_large_frame_over_many_partitions_has_room_in_its_plan(
    size: int, partitions: int, lanes: int
) -> None:
    """At worst a buffer has rows of every partition, so that a run is a few kilobytes."""
    runs = -(-size // BUFFER_BYTES) * partitions
    assert runs * 80 // lanes > 40 << 20, "one bundle a lane would be large, or too large"
    assert runs <= PAGES_MAX * RUNS_MAX


def test_a_page_and_a_bundle_have_room_for_as_many_runs_as_a_piece_has() -> None:
    most = 2**31 - 1
    run = Staged(1023, b"\xff" * 16, most, most, 2**40, 2**40, most, -(2**63), 2**63 - 1)
    (body,) = encode_plan([run] * RUNS_MAX)
    assert len(body) < PLAN_BYTES_MAX
    page = decode_plan(body, b"w" * 16)
    assert (page.pages, [*page.runs], len(page.runs[1023])) == (1, [1023], RUNS_MAX)
    assert directory_bytes(slices=RUNS_MAX, events=1) <= DIRECTORY_BYTES_MAX
    assert len(encode_plan([run] * (RUNS_MAX + 1))) == 2


class Crowd(Place):
    """One lane, many partitions, and a run for each of them in each of some objects."""

    partitions = 40

    def __init__(self) -> None:
        self.windows = 6
        self.site = Site(lanes=1)
        self.topic = self.site.topic("t", partitions=self.partitions)

    def lanes(self) -> dict[int, Lane]:
        return {0: self.site.lane(0)}

    def staged(self, write: bytes, *, rows: int = 2) -> Work[list[Staged]]:
        runs: list[Staged] = []
        for part in range(self.windows):
            bodies = [self.site.batch(rows) for _ in range(self.partitions)]
            at = 0
            for partition, body in enumerate(bodies):
                times = self.site.now_ms, self.site.now_ms
                place = self.topic.id, partition, part, at
                runs.append(Staged(0, *place, len(body), rows, *times))
                at += len(body)
            yield from create_part(write, 0, (0, 0, part), b"".join(bodies))
        return runs

    def sizes(self) -> set[int]:
        """How many records each partition has."""
        lane, ends = self.site.lane(0), set()
        for partition in range(self.partitions):
            at = 0
            while True:
                chunk = self.site.run(read(lane, self.topic.path_of(partition), at, 1 << 20))
                assert isinstance(chunk, Chunk)
                if not chunk.body:
                    break
                at += sum(batch.header.count for batch in decode_batches(chunk.body))
            ends.add(at)
        return ends


def test_a_write_of_more_runs_than_a_directory_has_room_for_is_cut_and_can_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    most = 16
    monkeypatch.setattr("lakelog.log.staging.RUNS_MAX", most)
    room = directory_bytes(slices=most, events=1)
    monkeypatch.setattr("lakelog.formats.lanes.bundle.DIRECTORY_BYTES_MAX", room)
    crowd = Crowd()
    runs = crowd.partitions * crowd.windows
    done = crowd.site.run(crowd.attempt())
    assert done.records == 2 * runs
    assert done.lanes == {0: -(-runs // most) - 1}, "a bundle for each piece"
    assert crowd.sizes() == {2 * crowd.windows}
    assert crowd.site.run(crowd.attempt()).records == 2 * runs, "and it is there once"
    crowd.site.run(crowd.attempt(1))
    assert crowd.sizes() == {4 * crowd.windows}
    crowd.seal()
    assert crowd.sizes() == {4 * crowd.windows}


def test_a_write_that_is_too_large_is_refused_before_it_is_decided(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lakelog.log.staging.RUNS_MAX", 16)
    monkeypatch.setattr("lakelog.log.staging.PAGES_MAX", 10)
    crowd, identity = Crowd(), Identity(QUERY, 0, True)
    before = set(crowd.site.objects("_lakelog/"))
    write = b"w" * 16
    with pytest.raises(InvalidInputError, match="240 runs of batches, and 160 are the most"):
        crowd.site.run(crowd.attempt(write=write))
    left = set(crowd.site.objects("_lakelog/")) - before
    assert all(key.startswith(STAGED_PREFIX) for key in left), "it has only staged"
    assert crowd.site.run(read_decision(identity)) is None
    assert crowd.sizes() == {0}
    assert crowd.site.run(abandon_write(identity, write)), "as Spark does when a commit fails"
    crowd.windows = 4
    crowd.site.run(crowd.attempt())  # The same batch of the query, by a frame that fits.
    crowd.site.run(crowd.attempt(1))
    assert crowd.sizes() == {16}
    crowd.seal()
    assert crowd.sizes() == {16}
