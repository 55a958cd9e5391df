"""Shipping: in order and once, whatever dies on either side; and nothing is deleted before."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakelog
from lakelog.catalog import create_topic, make_namespace
from lakelog.errors import ConflictError, InvalidInputError, NotFoundError, UnavailableError
from lakelog.host import THIS_HOST, new_id
from lakelog.log import Driver
from lakelog.model import Header, Rules
from lakelog.spool import Disk, Shipment, Spool, ship_to
from lakelog.spool import ship as ship_spool
from lakelog.spool.cells import ShippedRange, read_shipped
from lakelog.spool.namespace import NamespaceTarget
from lakelog.store import LINUX, Op, StoreSpec, run, working
from tests.unit.spool.spools import spool_in


class Died(BaseException):
    """The shipper was killed."""


@pytest.fixture
def namespace(tmp_path: Path) -> str:
    url = f"file://{tmp_path}/namespace"
    store = StoreSpec(url).open()
    perform = working(store.perform)
    run(make_namespace(new_id(), Rules(lanes=2)), perform)
    flow = create_topic("t", topic_id=new_id(), partitions=3, lanes=2, now_ms=1, configs={})
    run(flow, perform)
    return url


def stored(url: str, partition: int = 0) -> list[bytes]:
    table = lakelog.scan(url, topics=["t"]).read_all()
    rows = [row for row in table.to_pylist() if row["partition"] == partition]
    assert [row["offset"] for row in rows] == list(range(len(rows)))
    return [row["value"] for row in rows]


def shipped(folder: Path, url: str, **settings: Any) -> list[Shipment]:
    return list(ship_spool(str(folder), url, **settings))


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    with spool_in(tmp_path / "spool") as made:
        yield made


def folder_of(spool: Spool) -> Path:
    return Path(spool.disk.root)


def test_all_of_it_arrives_in_order_and_once(spool: Spool, namespace: str) -> None:
    for number in range(25):
        spool.append("t", b"%d" % number, key=b"k", headers=[Header("h", b"x")])
        if number % 10 == 9:
            spool.seal("t")
    spool.append("t", b"other", partition=2)
    done = shipped(folder_of(spool), namespace, range_records=10)
    ranges = [(one.partition, one.start, one.end) for one in done]
    assert ranges == [(0, 0, 10), (0, 10, 20), (0, 20, 25), (2, 0, 1)]
    assert stored(namespace) == [b"%d" % number for number in range(25)]
    assert stored(namespace, 2) == [b"other"]
    assert shipped(folder_of(spool), namespace) == []
    spool.append("t", b"25")
    assert [one.start for one in shipped(folder_of(spool), namespace)] == [25]
    row = (
        lakelog.scan(namespace, topics=["t"], columns=["key", "headers"]).read_all().to_pylist()[0]
    )
    assert row == {"key": b"k", "headers": [{"key": "h", "value": b"x"}]}


class Dying:
    """A store whose process is killed at one of its requests, before or after it is performed."""

    def __init__(self, url: str, dies_at: int, *, after: bool) -> None:
        self._perform: Callable[[Op], Any] = StoreSpec(url).open().perform
        self._left, self._after = dies_at, after

    def perform(self, op: Op) -> Any:
        self._left -= 1
        if not self._left and not self._after:
            raise Died
        answer = self._perform(op)
        if not self._left:
            raise Died
        return answer


@pytest.mark.parametrize("after", [False, True], ids=["request lost", "answer lost"])
def test_killed_at_any_request_the_next_shipper_finishes_and_nothing_is_twice(
    spool: Spool, namespace: str, after: bool
) -> None:
    count, died = 0, 0
    for dies_at in range(1, 40):
        for _ in range(3):
            spool.append("t", b"%d" % count)
            count += 1
        try:
            driver = Driver(Dying(namespace, dies_at, after=after).perform)
            target = NamespaceTarget(namespace, driver, THIS_HOST, spool.id)
            list(ship_to(spool.disk, target, range_records=2))
        except Died:
            died += 1
        if dies_at % 4 == 0:
            shipped(folder_of(spool), namespace)
            assert stored(namespace) == [b"%d" % number for number in range(count)]
    shipped(folder_of(spool), namespace)
    assert stored(namespace) == [b"%d" % number for number in range(count)]
    assert died > 20


def test_killed_between_any_two_calls_of_the_disk(tmp_path: Path, namespace: str) -> None:
    """The confirmation, or what was written down, may be lost; the range is delivered again."""
    with spool_in(tmp_path / "spool") as spool:
        count = 0
        for calls in range(1, 60, 3):
            spool.append("t", b"%d" % count)
            count += 1
            left = [calls]

            class Killing:
                def __getattr__(self, name: str, left: list[int] = left) -> Any:
                    left[0] -= 1
                    if not left[0]:
                        raise Died
                    return getattr(LINUX, name)

            driver = Driver(StoreSpec(namespace).open().perform)
            target = NamespaceTarget(namespace, driver, THIS_HOST, spool.id)
            with suppress(Died):
                list(ship_to(Disk(spool.disk.root, Killing()), target))
        shipped(folder_of(spool), namespace)
        assert stored(namespace) == [b"%d" % number for number in range(count)]


class Refusing:
    """A target that takes nothing."""

    name = "x://"

    def position(self, *_: object) -> int | None:
        return None

    def deliver(self, *_: object) -> bool:
        raise UnavailableError("no answer")


def test_a_range_that_was_written_down_goes_where_it_was_going(
    spool: Spool, namespace: str
) -> None:
    spool.append("t", b"a")
    with pytest.raises(UnavailableError):
        list(ship_to(spool.disk, Refusing()))
    assert read_shipped(spool.disk)["t", 0].pending == (0, 1, "x://")
    spool.append("t", b"b")
    with pytest.raises(ConflictError, match="on their way to x://"):
        shipped(folder_of(spool), namespace)


def test_a_target_that_knows_more_is_believed(spool: Spool) -> None:
    """Kafka commits the position with the records: what it has was shipped."""

    class Knowing(Refusing):
        taken: list[tuple[int, int]] = []  # noqa: RUF012

        def position(self, *_: object) -> int | None:
            return 2

        def deliver(self, *given: object) -> bool:
            _, _, range_, rows = given
            assert isinstance(range_, ShippedRange)
            assert isinstance(rows, pa.RecordBatchReader)
            self.taken.append((range_.start, rows.read_all().num_rows))
            return False

    spool.append_many("t", [b"a", b"b", b"c"])
    target = Knowing()
    (done,) = ship_to(spool.disk, target)
    assert (done.start, done.end) == (2, 3)
    assert target.taken == [(2, 1)]


def test_what_was_dropped_before_it_was_shipped_is_passed_over(
    spool: Spool, namespace: str, tmp_path: Path
) -> None:
    for number in range(3):
        spool.append("t", b"%d" % number)
        spool.seal("t")
    spool.close()
    with spool_in(folder_of(spool), retention_bytes=100, keep_unshipped=False) as again:
        again.log("t")
        again.keep()
        assert again.log("t").start == 1
        assert [one.start for one in shipped(folder_of(spool), namespace)] == [1]
    assert stored(namespace) == [b"1", b"2"]


def test_what_cannot_be_shipped_says_what_to_do(spool: Spool, namespace: str) -> None:
    with pytest.raises(NotFoundError, match="no spool here"):
        shipped(Path(namespace.removeprefix("file://")), namespace)
    spool.append("none", b"v")
    with pytest.raises(NotFoundError, match="none"):
        shipped(folder_of(spool), namespace)


def test_a_partition_that_the_topic_does_not_have_is_refused(spool: Spool, namespace: str) -> None:
    spool.append("t", b"v", partition=5)
    with pytest.raises(InvalidInputError, match="has 3 partitions there"):
        shipped(folder_of(spool), namespace)
