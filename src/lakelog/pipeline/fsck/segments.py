"""One segment that a manifest names: every byte, its row, and the indexes beside it.

    walk      header, batches, footer: by the format's own walk, which checks every batch
    row       length, CRC-32C of all bytes, offsets, counts, times, codecs: each as it was counted
    indexes   byte for byte what is made of these batches; made again by ``mend``

An index of another interval would be sound, but nobody makes one in a namespace: so a flipped bit
is noticed wherever it is.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from crc32c import crc32c

from lakelog.errors import NotFoundError
from lakelog.flows import through
from lakelog.formats import EVERYTHING, NOTHING, Block, Damage, Files, Range, kafkalog, kafs
from lakelog.formats.batches import Frame
from lakelog.manifests import SegmentRow
from lakelog.pipeline.frame import FindingCollector, Result, Subject
from lakelog.pipeline.fsck.histories import NamedSegment, find_row_again
from lakelog.pipeline.output import put_once, replace_once
from lakelog.store import GetRange, Work, ask, head

__all__ = ["check_segment", "mend_segment"]

SUFFIX = kafs.FORMAT.suffix


def check_segment(unit: NamedSegment, *, records: bool) -> Work[Result]:
    """Check one segment and its indexes; nothing is written."""
    unit, judged = yield from _look(unit, records=records)
    subject = _subject(unit)
    if judged is None:
        return subject.result("gone")
    outcome, findings = "good", judged.damage
    if judged.damage.count or any(judged.wrong.values()):
        outcome = "damaged"
    elif judged.wrong:
        outcome = "unindexed"
    for suffix, etag in judged.wrong.items():
        at = judged.differs.get(suffix, 0)
        findings.add(
            unit.key + suffix,
            "it is not what the segment says: run reindex"
            if etag
            else "it is missing: run reindex",
            at=at,
        )
    walked = judged.walked
    return subject.result(outcome, findings, records=walked.count, batches=len(walked.frames))


def mend_segment(unit: NamedSegment) -> Work[Result]:
    """Make the indexes of a sound segment again, where they are missing or wrong."""
    unit, judged = yield from _look(unit, records=False)
    subject = _subject(unit)
    if judged is None:
        return subject.result("gone")
    if judged.damage.count:
        return subject.result("damaged", judged.damage)
    for suffix, etag in judged.wrong.items():
        key, body = unit.key + suffix, judged.indexes[suffix]
        if etag:
            yield from replace_once(key, body, etag)
        else:
            yield from put_once(key, body)
    walked, outcome = judged.walked, "rebuilt" if judged.wrong else "good"
    return subject.result(outcome, records=walked.count, batches=len(walked.frames))


def _subject(unit: NamedSegment) -> Subject:
    where, row = unit.where, unit.found.row
    return Subject(where.path, where.partition, row.base_offset, unit.key + SUFFIX)


# ---------------------------------------------------------------------------- looking


@dataclass(slots=True)
class _Judged:
    """What was found of a segment."""

    walked: "_Walked"
    damage: FindingCollector = field(default_factory=FindingCollector)
    indexes: dict[str, bytes] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)
    """Indexes that are not as they should be, and their etags; none, where there is no object."""
    differs: dict[str, int] = field(default_factory=dict)


def _look(unit: NamedSegment, *, records: bool) -> Work[tuple[NamedSegment, _Judged | None]]:
    """Judge a segment by its row as it is now; None: no manifest names it any more."""
    while True:
        judged = yield from _judge(unit, records=records)
        if not judged.damage.count and not judged.wrong:
            return unit, judged
        now = yield from find_row_again(unit)
        if now is None:
            return unit, None
        if now.row == unit.found.row:
            return unit, judged
        unit = replace(unit, found=now)  # History has grown by an import: its last row reaches on.


def _judge(unit: NamedSegment, *, records: bool) -> Work[_Judged]:
    key, row = unit.key + SUFFIX, unit.found.row
    judged = _Judged(_Walked())
    findings, holder = judged.damage, unit.where.prefix + unit.found.holder
    try:
        size = (yield from head(key)).size
        yield from judged.walked.go(unit, size, findings, records=records)
    except NotFoundError:
        findings.add(key, "it is missing, and a manifest names it: restore it", size=row.length)
        findings.add(holder, f"it names {row.name}, which is not there")
        return judged
    if findings.count:
        return judged
    for what in judged.walked.contradictions(row, size):
        findings.add(key, f"it has {what}")
        findings.add(holder, f"its row of {row.name} differs: the segment has {what}")
    if not findings.count:
        yield from _judge_indexes(unit, judged)
    return judged


def _judge_indexes(unit: NamedSegment, judged: _Judged) -> Work[None]:
    frames = judged.walked.frames
    _, times = kafkalog.encode_indexes(frames, base_offset=unit.found.row.base_offset)
    judged.indexes = {".index": kafs.encode_index(frames), ".timeindex": times}
    for suffix, body in judged.indexes.items():
        try:
            found = yield from ask(GetRange(unit.key + suffix, 0, len(body) + 1))
        except NotFoundError:
            judged.wrong[suffix] = ""
            continue
        if found.body != body or found.info.size != len(body):
            judged.wrong[suffix] = found.info.etag
            pairs = zip(found.body, body, strict=False)
            short = min(len(found.body), len(body))
            judged.differs[suffix] = next((at for at, (a, b) in enumerate(pairs) if a != b), short)


# ---------------------------------------------------------------------------- walking


@dataclass(slots=True)
class _Walked:
    """What a segment amounts to, counted while it comes by."""

    frames: list[Frame] = field(default_factory=list)
    count: int = 0
    codecs: int = 0
    crc: int = 0
    at: int = 0
    """Up to here its bytes are in the CRC."""
    header: bytes = b""

    def go(
        self, unit: NamedSegment, size: int, findings: FindingCollector, *, records: bool
    ) -> Work[None]:
        """Walk every byte, and note what is wrong.

        Raises:
            NotFoundError: it is gone.
        """
        key = unit.key + SUFFIX
        base = kafs.FORMAT.base_offset(unit.found.row.name)
        files = Files(
            base_offset=unit.found.row.base_offset if base is None else base,
            sizes={SUFFIX: size},
        )
        end = b""

        def take(item: Range | Block | Damage) -> Work[bytes | None]:
            nonlocal end
            if isinstance(item, Range):
                body = (yield from ask(GetRange(key, item.start, item.end))).body
                self._read(item.start, body)
                if item.end == size:
                    end = body
                return body
            if isinstance(item, Damage):
                findings.add(key, item.error.what, at=item.position, size=item.size)
            else:
                self._saw(item)
            return None

        walk = kafs.FORMAT.walk(files, span=EVERYTHING if records else NOTHING)
        yield from through(walk, take)
        self._read(size - len(end), end)

    def _read(self, start: int, body: bytes) -> None:
        """Take bytes into the CRC, if they continue it. The footer comes early, and waits."""
        if start <= self.at < start + len(body):
            if not start:
                self.header = body[: kafs.HEADER_BYTES]
            self.crc = crc32c(memoryview(body)[self.at - start :], self.crc)
            self.at = start + len(body)

    def _saw(self, block: Block) -> None:
        assert block.header is not None
        self.frames.append(Frame(block.position, block.header))
        self.count += block.count
        self.codecs |= 1 << block.header.codec

    def contradictions(self, row: SegmentRow, size: int) -> Iterator[str]:
        """Yield in what a sound segment is another than the one a row describes."""
        headers = [frame.header for frame in self.frames]
        last = headers[-1].next_offset
        made_ms = kafs.decode_head(self.header).created_ms
        held = {
            "position": (0, row.position),
            "length": (size, row.length),
            "base offset": (kafs.FORMAT.base_offset(row.name), row.base_offset),
            "records": (self.count, row.records),
            "min timestamp": (min(one.base_timestamp for one in headers), row.min_timestamp),
            "max timestamp": (max(one.max_timestamp for one in headers), row.max_timestamp),
            "time of append": (made_ms, row.appended_ms),
            "codecs": (self.codecs, row.codecs),
            "CRC-32C": (self.crc, row.crc),
        }
        for name, (mine, said) in held.items():
            if mine != said:
                yield f"{name} {mine}, its row says {said}"
        if not headers[0].base_offset >= row.base_offset or last > row.next_offset:
            offsets = f"[{headers[0].base_offset}, {last})"
            yield f"offsets {offsets}, its row says [{row.base_offset}, {row.next_offset})"
