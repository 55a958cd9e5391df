"""import, without Spark: Kafka's directories become topics, whatever happens on the way."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakelog.catalog import Topic, make_namespace, read_topic
from lakelog.errors import ConflictError, InvalidInputError, NotFoundError
from lakelog.formats.batches import frames
from lakelog.formats.kafkalog import AbortedTxn
from lakelog.host import THIS_HOST, SystemClock, new_id
from lakelog.journal import Lane, Stored, append, new_append
from lakelog.log import Chunk, open_survey, read, store_now
from lakelog.maintenance import SealSettings, maintain
from lakelog.manifests import read_manifest
from lakelog.model import Record, Rules
from lakelog.pipeline import (
    Compare,
    Connections,
    Import,
    Plan,
    Report,
    Result,
    Task,
    plan_job,
    results_to_arrow,
    run_here,
    run_task,
)
from lakelog.records import BatchHeader, Codec, NewBatch, decode_header, encode_batch, rebase
from lakelog.segments import Selection
from lakelog.store import LocalStore, StoreSpec, Work, run, working
from tests.kafka_files import encode_txn_index
from tests.stores import make_records, write_partition
from tests.unit.log.site import sweep

RULES = Rules(lanes=2, grace_ms=60_000, checkpoint_every=4)


class Place:
    """A namespace on disk, and directories of Kafka beside it."""

    def __init__(self, home: Path) -> None:
        self.kafka, self.url = home / "kafka", str(home / "log")
        self.perform = working(LocalStore(self.url).perform)
        self.run(make_namespace(new_id(), RULES))

    def run(self, flow: Work[Any]) -> Any:
        return run(flow, self.perform)

    def job(self, **settings: Any) -> Import:
        return Import(
            host=THIS_HOST,
            source=StoreSpec(str(self.kafka)),
            target=StoreSpec(self.url),
            **settings,
        )

    def same(self) -> Report:
        return run_here(
            Compare(
                host=THIS_HOST, source=StoreSpec(str(self.kafka)), layout="kafka",
                against=StoreSpec(self.url), against_layout="lakelog",
            )
        )  # fmt: skip

    def topic(self, name: str = "orders") -> Topic:
        topic: Topic = self.run(read_topic(name))
        return topic

    def lane(self, number: int) -> Lane:
        return Lane(number=number, rules=RULES, clock=SystemClock(), ids=new_id, writer=new_id())


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def fill(place: Place, partitions: Iterable[int] = range(3), count: int = 1000) -> None:
    for partition in partitions:
        records = make_records("kafka", count, partition=partition)
        write_partition(place.kafka, "kafka", records, partition=partition, codec=Codec.LZ4)


def test_every_record_comes_with_its_offset(place: Place) -> None:
    fill(place)
    report = run_here(place.job(segment_bytes=5_000))
    assert report.is_good
    assert report.records == 3000
    assert place.same().is_good
    topic = place.topic()
    assert (topic.partitions, topic.closed) == (3, False)


# ---------------------------------------------------------------------------- going on


def test_whoever_appends_goes_on_where_kafka_ended(place: Place) -> None:
    fill(place, range(4))
    assert run_here(place.job()).is_good
    topic = place.topic()
    for partition in range(4):
        lane = place.lane(topic.lane(partition))
        (stored,) = place.run(append(lane, [new_append(topic.id, partition, batch(b"new"))]))
        assert isinstance(stored, Stored)
        assert stored.base_offset == 1000
        place.run(maintain({lane.number: lane}, SealSettings(), idle=True))
        manifest = place.run(read_manifest(topic.path_of(partition)))
        assert manifest.sealed_end == 1001
        chunk = place.run(read(lane, topic.path_of(partition), 1000, 1 << 20))
        assert chunk.body == placed(batch(b"new"), 1000, chunk.body)
    assert place.run(_members(topic.name)) == 4


def _members(name: str) -> Work[int]:
    survey = yield from open_survey(SystemClock(), new_id)
    return len((yield from survey.members(Selection(topics=frozenset({name})))))


def batch(value: bytes, offset: int = 0, **fields: Any) -> bytes:
    record = Record(offset=offset, timestamp=5, key=None, value=value)
    return encode_batch(NewBatch(records=(record,), **fields))


def placed(body: bytes, offset: int, like: bytes) -> bytes:
    mine = bytearray(body)
    rebase(mine, base_offset=offset, leader_epoch=decode_header(like).leader_epoch)
    return bytes(mine)


def test_leader_epochs_of_the_other_cluster_are_not_brought(place: Place) -> None:
    write_run(place, 0, [batch(b"a", leader_epoch=7), batch(b"b", 1, leader_epoch=9)])
    assert run_here(place.job()).is_good
    chunk = first_chunk(place)
    assert [header.leader_epoch for header in headers(chunk.body)] == [0, 0]


# ---------------------------------------------------------------------------- while it goes on


def test_nobody_sees_a_topic_before_its_import_has_ended(place: Place) -> None:
    fill(place)
    assert run_here(place.job(stay_closed=True)).is_good
    assert place.topic().closed
    with pytest.raises(NotFoundError):
        place.run(_members("orders"))
    lanes = {number: place.lane(number) for number in range(RULES.lanes)}
    assert not place.run(maintain(lanes, SealSettings())).failures
    assert run_here(place.job()).is_good
    assert place.run(_members("orders")) == 3
    assert place.same().is_good


def test_a_sweep_takes_nothing_of_an_import_that_is_on_its_way(place: Place) -> None:
    fill(place)
    job = Dying(place.job(segment_bytes=5_000), 1)
    with pytest.raises(KeyboardInterrupt):
        run_here(job, wave_bytes=1)
    lanes = {number: place.lane(number) for number in range(RULES.lanes)}
    before = objects(place)
    assert not place.run(maintain(lanes, SealSettings())).failures
    assert segments_among(objects(place)) == segments_among(before)


class Dying:
    """An import whose driver dies when it has committed so often."""

    def __init__(self, job: Import, commits: int) -> None:
        self._inner, self._commits = job, commits

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def begin(self, plan: Plan, connect: Any) -> Any:
        return _DyingDriver(self._inner.begin(plan, connect), self._commits)


class _DyingDriver:
    def __init__(self, driver: Any, commits: int) -> None:
        self.job, self._driver, self._commits = driver.job, driver, commits

    def commit(self, table: pa.Table) -> Any:
        if self._commits == 0:
            raise KeyboardInterrupt
        self._commits -= 1
        return self._driver.commit(table)

    def end(self) -> Any:
        raise KeyboardInterrupt


@pytest.mark.parametrize("commits", range(9))
def test_a_run_that_was_killed_is_completed_by_the_next(place: Place, commits: int) -> None:
    fill(place)
    with pytest.raises(KeyboardInterrupt):
        run_here(Dying(place.job(), commits), wave_bytes=1)
    done = sum(
        place.run(read_manifest(place.topic().path_of(partition))).sealed_end > 0
        for partition in range(3)
    )
    assert done == min(3, -(-commits // 3))
    report = run_here(place.job(), wave_bytes=1)
    assert report.is_good
    # What was committed is not made again, but for the end of each partition, which may have grown.
    assert len(report.table) == 9 - commits + sum(commits > 3 * n + 2 for n in range(3))
    assert place.same().is_good


def test_two_at_once_do_the_same(place: Place) -> None:
    fill(place)
    one, two = place.job(segment_bytes=5_000), place.job(segment_bytes=9_000)
    plan, _ = plan_job(one)
    connections = Connections(one.stores)
    first, second = (job.begin(plan, connections.connect) for job in (one, two))
    tables = [
        table_of(run_task(driver.job, Task(units=tuple(plan.units), size=0)))
        for driver in (first, second)
    ]
    for driver, table in zip((first, second), tables, strict=True):
        driver.commit(table)
        driver.end()
    assert place.same().is_good


def table_of(results: Iterable[Result]) -> pa.Table:
    return pa.Table.from_batches([results_to_arrow(results)])


def test_a_log_that_has_grown_is_brought_up_to_its_end(place: Place) -> None:
    records = make_records("kafka", 1000, partition=0)
    batches = [encode_batch(NewBatch(records=records[at : at + 50])) for at in range(0, 1000, 50)]
    write_run(place, 0, batches[:6])
    write_run(place, 300, batches[6:9])
    assert run_here(place.job(stay_closed=True)).records == 450
    write_run(place, 300, batches[6:12])
    write_run(place, 600, batches[12:])
    assert run_here(place.job()).records == 550
    assert place.same().is_good


def test_a_log_that_was_written_anew_is_not_gone_on_with(place: Place) -> None:
    records = make_records("kafka", 100, partition=0)
    write_run(place, 0, [encode_batch(NewBatch(records=records[:60]))])
    run_here(place.job(stay_closed=True))
    write_run(place, 0, [encode_batch(NewBatch(records=records))])
    with pytest.raises(ConflictError, match="reaches over 60"):
        run_here(place.job())


# ---------------------------------------------------------------------------- what is refused


def test_a_topic_that_is_there_is_not_touched(place: Place) -> None:
    fill(place)
    assert run_here(place.job()).is_good
    with pytest.raises(ConflictError, match="already"):
        run_here(place.job())


def test_other_settings_do_not_go_on_with_an_import(place: Place) -> None:
    fill(place)
    run_here(place.job(stay_closed=True))
    with pytest.raises(ConflictError, match="lakelog topic delete orders"):
        run_here(place.job(configs={"retention.ms": "5"}))


def test_missing_partitions_are_refused_unless_they_may_be(place: Place) -> None:
    fill(place, (0, 2))
    with pytest.raises(InvalidInputError, match=r"1 of its 3 partitions \(1\)"):
        run_here(place.job())
    assert run_here(place.job(partial=True)).is_good
    assert place.run(_members("orders")) == 3


def test_an_empty_directory_is_no_topic(place: Place) -> None:
    place.kafka.mkdir()
    with pytest.raises(InvalidInputError, match="no topic"):
        run_here(place.job())


def test_internal_topics_are_left_unless_they_are_named(place: Place) -> None:
    fill(place)
    write_partition(place.kafka, "kafka", make_records("kafka", 5), topic="__offsets")
    assert run_here(place.job()).records == 3000
    named = Selection(topics=frozenset({"__offsets"}))
    assert run_here(place.job(selection=named)).records == 5


def test_damage_keeps_a_topic_closed_and_what_lies_before_it(place: Place) -> None:
    fill(place)
    damaged = sorted((place.kafka / "orders-1").glob("*.log"))[1]
    body = damaged.read_bytes()
    damaged.write_bytes(body[:100] + bytes([body[100] ^ 1]) + body[101:])
    report = run_here(place.job())
    assert report.outcomes == {"damaged": 1, "written": 8}
    topic = place.topic()
    assert topic.closed
    ends = [place.run(read_manifest(topic.path_of(n))).sealed_end for n in range(3)]
    assert ends == [1000, 400, 1000]
    damaged.write_bytes(body)
    assert run_here(place.job()).is_good
    assert place.same().is_good


# ---------------------------------------------------------------------------- odd logs


def write_run(place: Place, base: int, run: Iterable[bytes], partition: int = 0) -> Path:
    folder = place.kafka / f"orders-{partition}"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{base:020}.log"
    path.write_bytes(b"".join(run))
    return path


def first_chunk(place: Place, offset: int = 0) -> Chunk:
    topic = place.topic()
    chunk = place.run(read(place.lane(topic.lane(0)), topic.path_of(0), offset, 1 << 20))
    assert isinstance(chunk, Chunk)
    return chunk


def headers(body: bytes) -> list[BatchHeader]:
    return [header for _, header in frames(body)]


def test_where_nothing_is_left_reading_goes_on_behind(place: Place) -> None:
    write_run(place, 10, [batch(b"a", 12), batch(b"b", 15)])
    write_run(place, 30, [batch(b"c", 41)])
    write_run(place, 50, [])
    assert run_here(place.job()).is_good
    topic = place.topic()
    manifest = place.run(read_manifest(topic.path_of(0)))
    assert (manifest.log_start, manifest.sealed_end) == (10, 50)
    found = {offset: first_chunk(place, offset) for offset in (10, 12, 13, 15, 16, 35, 41, 42)}
    bases = {offset: chunk.base_offset for offset, chunk in found.items()}
    assert bases == {10: 12, 12: 12, 13: 15, 15: 15, 16: 41, 35: 41, 41: 41, 42: 50}
    assert (found[42].body, found[42].next_offset) == (b"", 50)
    assert place.same().is_good
    lane = place.lane(topic.lane(0))
    (stored,) = place.run(append(lane, [new_append(topic.id, 0, batch(b"d"))]))
    assert stored.base_offset == 50
    assert first_chunk(place, 42).base_offset == 50


def test_a_log_that_has_expired_begins_where_it_ends(place: Place) -> None:
    write_run(place, 70, [])
    assert run_here(place.job()).is_good
    manifest = place.run(read_manifest(place.topic().path_of(0)))
    assert (manifest.log_start, manifest.sealed_end, manifest.segments) == (70, 70, ())
    assert first_chunk(place, 70).next_offset == 70


def test_deleted_records_stay_deleted(place: Place) -> None:
    fill(place, range(1))
    start = "0\n1\norders 0 517\n"
    (place.kafka / "log-start-offset-checkpoint").write_text(start)
    assert run_here(place.job()).is_good
    assert place.run(read_manifest(place.topic().path_of(0))).log_start == 517
    assert place.same().is_good


def test_several_directories_are_one_cluster(place: Place) -> None:
    records = make_records("kafka", 1000)
    for partition, folder in enumerate(("b0", "b1", "c")):
        write_partition(place.kafka / folder, "kafka", records, partition=partition)
    assert run_here(place.job(folders=("b0", "b1"))).records == 2000
    assert place.topic().partitions == 2


def transactional(value: bytes, offset: int, producer: int, **fields: Any) -> bytes:
    return batch(
        value, offset, producer_id=producer, producer_epoch=0, base_sequence=0,
        is_transactional=True, **fields,
    )  # fmt: skip


def marker(offset: int, producer: int, *, commit: bool) -> bytes:
    key, value = bytes([0, 0, 0, commit]), bytes(6)
    record = Record(offset=offset, timestamp=5, key=key, value=value)
    return encode_batch(
        NewBatch(
            records=(record,), producer_id=producer, producer_epoch=0, base_sequence=-1,
            is_transactional=True, is_control=True,
        )
    )  # fmt: skip


def test_what_was_aborted_is_left_out(place: Place) -> None:
    # The marker lies in a later segment than the records.
    write_run(place, 0, [transactional(b"no", 0, 5), transactional(b"yes", 1, 6), batch(b"p", 2)])
    second = write_run(place, 3, [marker(3, 5, commit=False), marker(4, 6, commit=True)])
    aborted = AbortedTxn(producer_id=5, first_offset=0, last_offset=3, last_stable_offset=0)
    second.with_suffix(".txnindex").write_bytes(encode_txn_index([aborted]))
    assert run_here(place.job()).is_good
    chunk = first_chunk(place)
    assert [header.base_offset for header in headers(chunk.body)] == [1, 2]
    assert [header.base_offset for header in headers(first_chunk(place, 3).body)] == [3, 4]


@pytest.mark.parametrize("waves", [1, 1 << 40])
def test_an_open_transaction_is_refused_wherever_it_began(place: Place, waves: int) -> None:
    write_run(place, 0, [batch(b"p", 0)])
    write_run(place, 1, [transactional(b"perhaps", 1, 6)])
    write_run(place, 2, [batch(b"q", 2)])
    report = run_here(place.job(), wave_bytes=waves)
    assert report.outcomes == {"refused": 1, "written": 3}
    assert "open from offset 1" in report.findings(1)[0].what
    assert place.topic().closed
    assert place.run(read_manifest(place.topic().path_of(0))).sealed_end == 1
    write_run(place, 3, [marker(3, 6, commit=True)])
    assert run_here(place.job(), wave_bytes=waves).is_good
    assert offsets(place) == [0, 1, 2, 3]


def offsets(place: Place) -> list[int]:
    found: list[int] = []
    at = place.run(read_manifest(place.topic().path_of(0))).log_start
    while (chunk := first_chunk(place, at)).body:
        found += [header.base_offset for header in headers(chunk.body)]
        at = chunk.next_offset
    return found


def abort(place: Place, base: int, producer: int, first: int) -> Path:
    path = write_run(place, base, [marker(base, producer, commit=False)])
    aborted = AbortedTxn(
        producer_id=producer, first_offset=first, last_offset=base, last_stable_offset=0
    )
    path.with_suffix(".txnindex").write_bytes(encode_txn_index([aborted]))
    return path


@pytest.mark.parametrize("waves", [1, 1 << 40])
def test_what_is_open_waits_for_the_next_run_if_more_is_to_come(place: Place, waves: int) -> None:
    write_run(place, 0, [batch(b"p", 0), transactional(b"perhaps", 1, 6)])
    write_run(place, 2, [batch(b"q", 2)])
    assert run_here(place.job(stay_closed=True), wave_bytes=waves).is_good
    assert place.run(read_manifest(place.topic().path_of(0))).sealed_end == 0
    abort(place, 3, 6, first=1)
    assert run_here(place.job(), wave_bytes=waves).is_good
    assert offsets(place) == [0, 2, 3]


@pytest.mark.parametrize("waves", [1, 1 << 40])
def test_an_abort_that_no_index_tells_of_is_refused(place: Place, waves: int) -> None:
    write_run(place, 0, [transactional(b"no", 0, 6)])
    index = abort(place, 1, 6, first=0).with_suffix(".txnindex")
    body = index.read_bytes()
    index.unlink()
    report = run_here(place.job(), wave_bytes=waves)
    assert not report.is_good
    assert ".txnindex" in report.findings(1)[0].what
    index.write_bytes(body)
    assert run_here(place.job(), wave_bytes=waves).is_good
    assert offsets(place) == [1]


def test_an_abort_of_nothing_is_in_no_index(place: Place) -> None:
    write_run(place, 0, [batch(b"p", 0), marker(1, 6, commit=False), marker(2, 6, commit=False)])
    assert run_here(place.job()).is_good
    assert offsets(place) == [0, 1, 2]


@pytest.mark.parametrize("waves", [1, 1 << 40])
def test_a_log_whose_first_segments_are_empty_begins_where_kafka_s_does(
    place: Place, waves: int
) -> None:
    write_run(place, 0, [])
    write_run(place, 10, [])
    write_run(place, 20, [batch(b"a", 25)])
    write_run(place, 30, [batch(b"b", 30)])
    assert run_here(place.job(), wave_bytes=waves).is_good
    manifest = place.run(read_manifest(place.topic().path_of(0)))
    assert (manifest.log_start, manifest.sealed_end) == (0, 31)
    assert offsets(place) == [25, 30]
    assert place.same().is_good


def test_a_log_that_was_deleted_to_its_end_goes_on_there(place: Place) -> None:
    fill(place, range(1))
    (place.kafka / "log-start-offset-checkpoint").write_text("0\n1\norders 0 1000\n")
    assert run_here(place.job()).is_good
    manifest = place.run(read_manifest(place.topic().path_of(0)))
    assert (manifest.log_start, manifest.sealed_end) == (1000, 1000)


def test_what_was_deleted_between_two_runs_stays_deleted(place: Place) -> None:
    fill(place, range(1))
    assert run_here(place.job(stay_closed=True)).is_good
    (place.kafka / "log-start-offset-checkpoint").write_text("0\n1\norders 0 517\n")
    assert run_here(place.job()).is_good
    assert place.run(read_manifest(place.topic().path_of(0))).log_start == 517
    assert place.same().is_good


def test_behind_damage_nothing_is_taken_in_a_later_wave_either(place: Place) -> None:
    fill(place, range(1))
    damaged = sorted((place.kafka / "orders-0").glob("*.log"))[1]
    body = damaged.read_bytes()
    damaged.write_bytes(body[:100] + bytes([body[100] ^ 1]) + body[101:])
    assert run_here(place.job(), wave_bytes=1).outcomes == {"damaged": 1, "written": 2}
    assert place.run(read_manifest(place.topic().path_of(0))).sealed_end == 400
    damaged.write_bytes(body)
    assert run_here(place.job(), wave_bytes=1).is_good
    assert place.same().is_good


def test_a_setting_that_nobody_knows_is_refused_at_once(place: Place) -> None:
    with pytest.raises(InvalidInputError, match="retentionms"):
        place.job(configs={"retentionms": "5"})


# ---------------------------------------------------------------------------- a store in trouble


def objects(place: Place) -> set[str]:
    root = Path(place.url)
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def segments_among(keys: set[str]) -> set[str]:
    return {key for key in keys if "segment-" in key}


def test_nothing_is_left_over_when_the_topic_is_open(place: Place) -> None:
    write_run(place, 0, [batch(b"%d" % number, number) for number in range(20)])
    with pytest.raises(KeyboardInterrupt):
        run_here(Dying(place.job(segment_bytes=100), 0))
    assert run_here(place.job(segment_bytes=500)).is_good
    where = place.topic().path_of(0)
    named = {f"{where.prefix}{row.name}" for row in place.run(read_manifest(where)).segments}
    stems = {key.partition(".")[0] for key in segments_among(objects(place))}
    assert named < stems
    now_ms = place.run(store_now(new_id)) + 2 * RULES.grace_ms
    place.run(sweep(where, new_id, now_ms=now_ms, grace_ms=0))
    assert {key.partition(".")[0] for key in segments_among(objects(place))} == named
    assert place.same().is_good
