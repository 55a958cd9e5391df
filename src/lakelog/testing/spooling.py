"""A spool on a disk that forgets: whatever an append was told is so when the power is back.

One seed is one story: a spool of a random policy, and some dozens of things that happen to it:
appends, ticks of the clock, seals, retention, compaction, shipments; and, between any two system
calls, a kill or a power cut. An fsync may fail. After each end the spool is opened again by the
shipped code, and compared with what the story knows:

    after a kill        everything is there that an append returned for
    after a power cut   everything is there that the policy promised: all, all but the last N - 1,
                        all that is older than M milliseconds, or what was flushed and sealed
    always              no record is another, none is missing in between, none is there twice;
                        nothing was deleted that may not be
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from errno import ENOSPC
from random import Random  # noqa: TID251 (seeded)

from lakelog.errors import FullError, LakelogError, UnavailableError
from lakelog.spool import Spool, SpoolReader, SpoolSettings, Sync, WhenFull, open_with
from lakelog.spool.cells import Shipped, ShippedRange, read_shipped, write_shipped
from lakelog.spool.disk import Disk
from lakelog.testing.disk import DiskProcess, Gone, SimulatedDisk
from lakelog.testing.truth import must

__all__ = ["SPOOL_WAYS", "simulate_spool"]

ROOT = "/var/spool/events"
ACTIONS = 40
PARTITIONS = (("a", 0), ("a", 1), ("b", 0))
KEYS = (None, b"x", b"y", b"z")
POLICIES = (Sync(records=1), Sync(records=5), Sync(ms=20), Sync(records=7, ms=50), Sync())

SPOOL_WAYS = (
    "killed", "power cut", "sync failed", "no room", "cut off", "index rebuilt", "closed",
    "deleted", "dropped", "compacted", "shipped", "records lost", "torn in a batch",
)  # fmt: skip
"""What a run of all seeds must have met."""

Content = tuple[bytes | None, bytes | None]


@dataclass(slots=True)
class _Known:
    """What the story knows of a partition."""

    records: dict[int, Content] = field(default_factory=dict)
    end: int = 0
    durable: int = 0
    """Records below it were promised to survive a power cut."""
    maybe: list[Content] = field(default_factory=list)
    """What was being appended when it ended: any beginning of it may be there."""
    written: list[tuple[int, int]] = field(default_factory=list)
    """Where each append ended, and when it was made."""
    start: int = 0
    shipped: int = 0
    pending: int | None = None
    clean_limit: int = 0
    """Below it compaction may have dropped what is outdated."""

    @property
    def protected(self) -> int:
        return self.shipped if self.pending is None else min(self.shipped, self.pending)


class _Story:
    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)  # noqa: S311 (seeded)
        self.ways: Counter[str] = Counter()
        self.disk = SimulatedDisk(
            random, failing=random.choice((0.0, 0.0, 0.01, 0.05)), scattered=True
        )
        self.disk.before = self._between
        self.now_us = 1_700_000_000_000_000
        self.sync = random.choice(POLICIES)
        self.settings = SpoolSettings(
            sync=self.sync,
            segment_bytes=random.choice((300, 1000, 5000)),
            segment_ms=random.choice((50, 100_000)),
            bytes_max=random.choice((None, None, 3000)),
            when_full=random.choice((WhenFull.REFUSE, WhenFull.DROP)),
            retention_ms=random.choice((None, 0)),
            retention_bytes=random.choice((None, 600)),
            open_files_max=random.choice((1, 2, 128)),
        )
        self.known = {name: _Known() for name in PARTITIONS}
        self.countdown, self.fullness = 0, 0.005
        self.fate: Callable[[], None] = self._kill
        self.process: DiskProcess = self.disk.process()
        self.spool: Spool | None = None
        self.is_settled = self.was_cut = False

    # ------------------------------------------------------------------------ fate

    def _between(self, call: str) -> None:
        if self.countdown:
            self.countdown -= 1
            if not self.countdown:
                self.fate()
        elif call == "writev" and self.random.random() < self.fullness:
            self.ways["no room"] += 1
            raise OSError(ENOSPC, "No space left on device")

    def _kill(self) -> None:
        self.ways["killed"] += 1
        self.process.kill()

    def _cut(self) -> None:
        self.ways["power cut"] += 1
        self.was_cut = True
        self.disk.cut_power()

    def _calmly(self) -> "_Calm":
        return _Calm(self)

    # ------------------------------------------------------------------------ acting

    def run(self) -> None:
        for _ in range(ACTIONS):
            if self.random.random() < 0.12:
                self.countdown = self.random.randint(1, 25)
                self.fate = self.random.choice((self._kill, self._cut))
            try:
                self._act()
            except Gone:
                self.spool = None
            except FullError:
                pass
            except UnavailableError:
                self.ways["sync failed"] += 1
                self._leave()
                if self.random.random() < 0.5:
                    self._cut()
        self.countdown, self.disk.failing, self.fullness = 0, 0.0, 0.0
        self._end()

    def _act(self) -> None:
        spool = self._opened()
        self.now_us += self.random.choice((0, 500, 5_000, 60_000))
        actions = (
            (12, self._append), (2, self._tick), (1, self._flush), (2, self._seal), (2, self._keep),
            (2, self._compact), (2, self._ship), (1, self._close), (1, self._read),
        )  # fmt: skip
        (action,) = self.random.choices([one for _, one in actions], [w for w, _ in actions])
        action(spool)

    def _append(self, spool: Spool) -> None:
        name, known = self._any()
        count = self.random.choice((1, 1, 2, 7))
        first = known.end
        values = [
            None if self.random.random() < 0.1 else b"%d:%d" % (first + row, self.disk.calls)
            + b"." * self.random.choice((0, 30, 200))
            for row in range(count)
        ]  # fmt: skip
        keys = [self.random.choice(KEYS) for _ in range(count)]
        known.maybe = list(zip(keys, values, strict=True))
        try:
            offset = spool.append_many(name[0], values, keys=keys, partition=name[1])
        except FullError:
            known.maybe = []
            raise
        must(offset == first, f"{name}: appended at {offset}, and {first} was next")
        for row, content in enumerate(known.maybe):
            known.records[first + row] = content
        known.maybe, known.end = [], first + count
        known.written.append((known.end, self.now_us))
        if self.sync.records is not None:
            known.durable = max(known.durable, known.end - self.sync.records + 1)
        self._promise_by_time(known)

    def _promise_by_time(self, known: _Known) -> None:
        if self.sync.ms is not None:
            old = self.now_us - self.sync.ms * 1000
            ends = [end for end, at in known.written if at <= old]
            known.durable = max([known.durable, *ends])

    def _tick(self, spool: Spool) -> None:
        spool.tick()
        for known in self.known.values():
            self._promise_by_time(known)
        self._note_starts(spool)

    def _flush(self, spool: Spool) -> None:
        spool.flush()
        for known in self.known.values():
            known.durable = known.end

    def _seal(self, spool: Spool) -> None:
        name, known = self._any()
        spool.seal(*name)
        known.durable = known.end

    def _keep(self, spool: Spool) -> None:
        if not self.countdown and self.random.random() < 0.3:
            self.countdown, self.fate = self.random.randint(1, 60), self._cut
        self.ways["deleted"] += spool.keep().segments > 0
        self._note_starts(spool)

    def _compact(self, spool: Spool) -> None:
        name, known = self._any()
        known.clean_limit = max(known.clean_limit, known.protected)
        done = spool.compact(*name, tombstones_ms=0)
        self.ways["compacted"] += done.records_after < done.records_before
        self._note_starts(spool)

    def _ship(self, spool: Spool) -> None:
        """Another process ships what is durable, or begins to."""
        self._note_starts(spool)
        name, known = self._any()
        if not known.durable > known.shipped or known.start > known.shipped:
            return
        with self._calmly():
            disk = Disk(ROOT, self.disk.process())
            shipped = read_shipped(disk)
            end = self.random.randint(known.shipped + 1, known.durable)
            if self.random.random() < 0.3:
                pending = ShippedRange(known.shipped, end, "x")
                known.pending = known.shipped
                shipped[name] = Shipped(end=known.shipped, pending=pending)
            else:
                known.shipped, known.pending = end, None
                shipped[name] = Shipped(end=end)
            write_shipped(disk, shipped)
        self.ways["shipped"] += 1

    def _close(self, spool: Spool) -> None:
        spool.close()
        for known in self.known.values():
            known.durable = known.end
        self.spool = None
        self.ways["closed"] += 1

    def _read(self, spool: Spool) -> None:
        with self._calmly():
            for name, known in self.known.items():
                self._compare(name, known, spool.reader, known.end)

    def _leave(self) -> None:
        """Close what has failed: it lets go of the folder."""
        spool, self.spool = self.spool, None
        if spool is not None and self.process.is_alive:
            with self._calmly():
                spool.close()

    def _any(self) -> tuple[tuple[str, int], _Known]:
        name = self.random.choice(PARTITIONS)
        return name, self.known[name]

    # ------------------------------------------------------------------------ opening

    def _opened(self) -> Spool:
        if self.spool is None:
            if not self.process.is_alive or self.was_cut:
                self.process = self.disk.process()
            self._look_from_outside()
            self.spool = open_with(
                ROOT,
                self.settings,
                system=self.process,
                ids=lambda: self.random.randbytes(16),
                clock_us=lambda: self.now_us,
            )
            self.is_settled = False
        if not self.is_settled:
            for name, known in self.known.items():
                if known.end or known.maybe or known.start:
                    self._settle(name, known, self.spool)
            self.is_settled, self.was_cut = True, False
        return self.spool

    def _settle(self, name: tuple[str, int], known: _Known, spool: Spool) -> None:
        """Compare a partition with what is known, and know what is there."""
        log = spool.log(*name)
        least = known.durable if self.was_cut else known.end
        must(log.end >= least, f"{name}: it ends at {log.end}, and {least} was promised")
        most = known.end + len(known.maybe)
        must(log.end <= most, f"{name}: it ends at {log.end}, and {most} were written")
        if log.end < known.end:
            self.ways["records lost"] += 1
        if known.end < log.end < most:
            self.ways["torn in a batch"] += 1
        for row, content in enumerate(known.maybe[: max(log.end - known.end, 0)]):
            known.records[known.end + row] = content
        for offset in range(log.end, known.end):
            del known.records[offset]
        known.maybe = []
        if log.end != known.end or self.was_cut:
            known.written = []
        known.end = log.end
        if self.was_cut:
            known.durable = log.end
        known.durable = min(max(known.durable, 0), known.end)
        self._note_start(known, log.start)
        with self._calmly():
            self._compare(name, known, spool.reader, known.end)
        self.ways["cut off"] += spool.counters.cut_bytes > 0
        self.ways["index rebuilt"] += spool.counters.index_rebuilds > 0

    def _look_from_outside(self) -> None:
        """Read as another process does, before anybody has recovered anything."""
        with self._calmly():
            reader = SpoolReader(Disk(ROOT, self.disk.process()))
            for name, known in self.known.items():
                least = known.durable if self.was_cut else known.end
                self._compare(name, known, reader, least)

    # ------------------------------------------------------------------------ comparing

    def _compare(
        self, name: tuple[str, int], known: _Known, reader: SpoolReader, least: int
    ) -> None:
        maybe = {known.end + row: content for row, content in enumerate(known.maybe)}
        found: dict[int, Content] = {}
        before = -1
        for record in reader.records(*name):
            must(record.offset > before, f"{name}: {record.offset} behind {before}")
            before = record.offset
            key = None if record.key is None else bytes(record.key)
            value = None if record.value is None else bytes(record.value)
            expected = known.records.get(before, maybe.get(before))
            must((key, value) == expected, f"{name}: at {before} stands {(key, value)!r}")
            found[before] = key, value
        rows = reader.batches(*name, columns=("offset", "key", "value")).read_all().to_pylist()
        columns = {row["offset"]: (row["key"], row["value"]) for row in rows}
        must(columns == found, f"{name}: as columns it is something else")
        start = min(found, default=least)
        for offset in range(known.start, least):
            if offset in found:
                continue
            if offset < start:
                self._judge_start(name, known, offset)
            else:
                self._judge_hole(name, known, offset, found)

    def _judge_start(self, name: tuple[str, int], known: _Known, offset: int) -> None:
        may_go = known.protected if self.settings.when_full is not WhenFull.DROP else known.end
        if known.pending is not None:
            may_go = min(may_go, known.pending)
        must(offset < may_go, f"{name}: {offset} is gone from the start, and was not shipped")

    def _judge_hole(
        self, name: tuple[str, int], known: _Known, offset: int, found: dict[int, Content]
    ) -> None:
        must(offset < known.clean_limit, f"{name}: {offset} is missing")
        key, value = known.records[offset]
        must(key is not None, f"{name}: {offset} has no key, and compaction took it")
        newer = [
            other
            for other, (of, _) in known.records.items()
            if of == key and offset < other < known.clean_limit
        ]
        must(bool(newer) or value is None, f"{name}: {offset} is the newest of {key!r}, and gone")
        if value is None and not newer:
            older = [one for one in found if one < offset and found[one][0] == key]
            must(not older, f"{name}: {older} came back when the tombstone {offset} went")

    def _note_starts(self, spool: Spool) -> None:
        with self._calmly():
            for name, known in self.known.items():
                if known.end:
                    self._note_start(known, spool.log(*name).start)
        self.ways["dropped"] += spool.counters.dropped_records > 0

    def _note_start(self, known: _Known, start: int) -> None:
        must(start >= known.start, f"the log began at {known.start}, and begins at {start} again")
        for offset in range(known.start, start):
            self._judge_start(("", 0), known, offset)
            known.records.pop(offset, None)
        known.start = start

    def _end(self) -> None:
        """Cut the power once more, and see that everything is as it was promised."""
        self._leave()
        self._cut()
        self._opened().close()


class _Calm:
    """Nothing happens while this lasts."""

    def __init__(self, story: _Story) -> None:
        self._story = story

    def __enter__(self) -> None:
        disk = self._story.disk
        self._kept = disk.before, disk.failing
        disk.before, disk.failing = lambda _: None, 0.0

    def __exit__(self, *_: object) -> None:
        self._story.disk.before, self._story.disk.failing = self._kept


def simulate_spool(seed: int) -> Counter[str]:
    """Live through one story, and return what was met.

    Raises:
        Anomaly: the spool was not what it promised.
    """
    story = _Story(seed)
    try:
        story.run()
    except LakelogError as error:
        must(False, f"{type(error).__name__}: {error}")
    return story.ways
