"""``lakelog.scan`` on a namespace: history and journal as one, in a process without Spark."""

import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakelog
from lakelog.catalog import Topic
from lakelog.errors import InvalidInputError, NotFoundError
from lakelog.host import new_id
from lakelog.journal import append, new_append
from lakelog.model import Record
from lakelog.pipeline import run_here
from lakelog.records import NewBatch, decode_batches, encode_batch
from lakelog.segments import EARLIEST, LATEST, OffsetSpec
from tests.unit.pipeline.home import Home

Row = tuple[str, int, int, bytes | None]
COLUMNS = ["topic", "partition", "offset", "value"]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "log")


def filled(home: Home, name: str = "orders") -> Topic:
    """A topic of which some is sealed, and some in the journal."""
    topic = home.topic(name)
    home.fill(topic, 30)
    run_here(home.seal())
    home.fill(topic, 12)
    assert any(home.ends(topic))
    return topic


def read(home: Home, *topics: Topic) -> list[Row]:
    """Return the records of some topics as a broker reads them."""
    return sorted(
        (topic.name, partition, record.offset, record.value)
        for topic in topics
        for partition, log in enumerate(home.logs(topic))
        for batch in decode_batches(log)
        for record in batch.records
    )


def rows(table: pa.Table) -> list[Row]:
    return sorted(zip(*(table[name].to_pylist() for name in COLUMNS), strict=True))


def scanned(url: str, **settings: Any) -> list[Row]:
    return rows(lakelog.scan(url, **settings).read_all())


@pytest.mark.parametrize("layout", [None, "lakelog"])
def test_it_gives_what_a_broker_reads_sealed_or_not(home: Home, layout: str | None) -> None:
    orders, other = filled(home), filled(home, "other")
    everything = read(home, orders, other)
    assert len(everything) == 2 * 3 * 42
    assert scanned(home.url, layout=layout) == everything
    assert scanned(home.url, layout=layout, topics=["other"]) == read(home, other)
    few = lakelog.scan(home.url, layout=layout, columns=["offset"], topics=["other"])
    assert few.schema.names == ["offset"]
    assert few.read_all().num_rows == len(everything) // 2


def test_offsets_of_a_partition_come_in_their_order(home: Home) -> None:
    filled(home)
    table = lakelog.scan(home.url, columns=COLUMNS).read_all()
    for partition in range(3):
        offsets = [
            offset
            for of, offset in zip(
                table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True
            )
            if of == partition
        ]
        assert offsets == list(range(len(offsets)))


def test_a_part_of_it_is_named_as_in_spark(home: Home) -> None:
    topic = filled(home)
    everything = read(home, topic)
    since = {("orders", at): 7 for at in range(3)}
    until = {("orders", 0): 9, ("orders", 1): LATEST, ("orders", 2): 7}
    part = scanned(home.url, starting=OffsetSpec(offsets=since), ending=OffsetSpec(offsets=until))
    assert part == [
        row for row in everything if row[2] >= 7 and (row[1] == 1 or row[2] < {0: 9, 2: 7}[row[1]])
    ]
    lane = home.lanes[topic.lane(1)]
    late = encode_batch(NewBatch(records=[Record(offset=0, timestamp=9_000, key=None, value=b"z")]))
    home.run(append(lane, [new_append(topic.id, 1, late)]))
    assert [row[3] for row in scanned(home.url, starting=OffsetSpec(timestamp=8_000))] == [b"z"]
    assert scanned(home.url, ending=OffsetSpec(timestamp=8_000)) == everything
    with pytest.raises(InvalidInputError, match="don't match what are assigned"):
        lakelog.scan(home.url, starting=OffsetSpec(offsets={("orders", 0): EARLIEST}))
    with pytest.raises(NotFoundError, match="it ends at"):
        lakelog.scan(
            home.url, ending=OffsetSpec(offsets={("orders", at): 1_000 for at in range(3)})
        )


def test_a_namespace_without_topics_has_no_rows(home: Home) -> None:
    assert scanned(home.url) == []


def test_what_is_not_there_is_told(home: Home, tmp_path: Path) -> None:
    filled(home)
    with pytest.raises(NotFoundError, match="there is no topic nothing"):
        lakelog.scan(home.url, topics=["nothing"])
    for folder in (tmp_path, tmp_path / new_id().hex()):
        with pytest.raises(InvalidInputError, match="is no namespace: say which segments"):
            lakelog.scan(str(folder))
    with pytest.raises(NotFoundError, match="there is no namespace"):
        lakelog.scan(str(tmp_path), layout="lakelog")
    with pytest.raises(InvalidInputError, match="no column 'nothing'"):
        lakelog.scan(home.url, columns=["nothing"])
    with pytest.raises(InvalidInputError, match="PERMISSIVE is for segments alone"):
        lakelog.scan(home.url, mode="PERMISSIVE")


def test_a_layout_that_reads_less_than_all_of_a_namespace_says_so(home: Home) -> None:
    filled(home)
    with pytest.warns(UserWarning, match="reads only what of it is sealed: leave layout out"):
        lakelog.scan(home.url, layout="kafs")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lakelog.scan(home.url)
