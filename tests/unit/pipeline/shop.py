"""A compacted topic with one partition, for stories about compaction."""

from pathlib import Path
from typing import Any

from lakelog.formats.batches import frames
from lakelog.host import THIS_HOST
from lakelog.journal import append, new_run
from lakelog.maintenance import SealSettings
from lakelog.manifests import Manifest, read_manifest
from lakelog.model import Record
from lakelog.pipeline import Compact, Report, run_here
from lakelog.records import Codec, NewBatch, decode_batch, encode_batch
from lakelog.store import StoreSpec
from tests.unit.pipeline.home import Home

__all__ = ["Row", "Shop", "fill"]

Row = tuple[int, bytes | None, bytes | None]


class Shop(Home):
    """A compacted topic with one partition."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.orders = self.topic(partitions=1, cleanup_policy="compact")
        self.sent: list[Row] = []

    def send(self, *pairs: tuple[bytes | None, bytes | None], codec: Codec = Codec.NONE) -> None:
        """Append one batch."""
        records = [
            Record(offset=at, timestamp=5, key=key, value=value)
            for at, (key, value) in enumerate(pairs)
        ]
        body = encode_batch(NewBatch(records=records, codec=codec))
        lane = self.lanes[self.orders.lane(0)]
        self.run(append(lane, [new_run(self.orders.id, 0, body)]))
        first = len(self.sent)
        self.sent += [(first + at, key, value) for at, (key, value) in enumerate(pairs)]

    def store(self) -> None:
        assert run_here(self.seal(settings=SealSettings(segment_bytes=200))).is_good

    def compact(self, **settings: Any) -> Report:
        chosen = {"always": True, **settings}
        return run_here(Compact(host=THIS_HOST, target=StoreSpec(self.url), **chosen))

    def rows(self) -> list[Row]:
        body = self.log(self.orders, 0)
        found: list[Row] = []
        for at, _ in frames(body):
            batch = decode_batch(body, at)
            found += [(record.offset, record.key, record.value) for record in batch.records]
        return found

    def newest(self) -> list[Row]:
        """What a dictionary would keep of what was sent."""
        last = {key: offset for offset, key, _ in self.sent}
        return [row for row in self.sent if row[1] is not None and last[row[1]] == row[0]]

    @property
    def manifest(self) -> Manifest:
        found: Manifest = self.run(read_manifest(self.orders.path_of(0)))
        return found


def fill(shop: Shop, batches: int = 20, keys: int = 7) -> None:
    for number in range(batches):
        codec = (Codec.NONE, Codec.LZ4, Codec.ZSTD)[number % 3]
        pairs = [
            (b"k%d" % ((number * 5 + at * 3) % keys), b"v%d-%d" % (number, at)) for at in range(4)
        ]
        shop.send(*pairs, codec=codec)
