"""Whatever happens to a manifest, in any order: no gap, nothing named twice, nothing comes back."""

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.errors import CorruptError, UnsupportedError
from lakelog.manifests import (
    Dropped,
    Intent,
    Manifest,
    PageRow,
    SegmentRow,
    changes,
    decode_manifest,
    decode_page,
    encode_manifest,
    encode_page,
)
from lakelog.names import segment_stem

numbers = st.integers(0, 50)
large = numbers | st.integers(0, (1 << 63) - 1)
times = st.integers(-1, 1 << 62)


def segment(base: int, width: int, draw: tuple[int, int]) -> SegmentRow:
    name = segment_stem(base)
    return SegmentRow(name, base, base + width, 0, draw[0], width, *draw, draw[1], draw[0], 1, 0)


# ---------------------------------------------------------------------------- what happens


@dataclass(slots=True)
class Story:
    """A manifest, what is on its pages, and everything that it has named and not cleared."""

    now: Manifest
    pages: dict[str, tuple[str, ...]] = field(default_factory=dict)
    writes: int = 0

    def write(self) -> str:
        self.writes += 1
        return f"w{self.writes}"

    def named(self) -> list[str]:
        """Every name that counts, as often as it does."""
        rows = [name for page in self.now.pages for name in (page.name, *self.pages[page.name])]
        rows += [row.name for row in self.now.segments]
        return rows + [one.name for one in self.now.dropped]

    def rows(self) -> set[str]:
        return set(self.named()) - {one.name for one in self.now.dropped}


Step = tuple[str, int, int, int]
steps = st.tuples(
    st.sampled_from(
        ["begin"] * 3 + ["seal"] * 6 + ["skip", "start", "start"] + ["drop"] * 3 + ["page"] * 3
        + ["rewrite"] * 4 + ["unpage"]
        + ["cancel", "burn", "cleared", "cleared"]
    ),
    numbers, numbers, numbers,
)  # fmt: skip


def take(story: Story, step: Step) -> tuple[str, Manifest | None]:
    """Do one thing to a manifest, rightly or wrongly, and return who did it and what came of it."""
    verb, a, b, c = step
    now, write = story.now, story.write()
    intents = now.intents or (Intent("nobody", "seal", 0, 1, 0),)
    mine = intents[a % len(intents)].write
    match verb:
        case "begin":
            made = Intent(write, "seal", now.sealed_end, now.sealed_end + 1 + a, b)
            return write + ":begin", changes.begin(now, made)
        case "seal":
            base = max(0, now.sealed_end + (0, 0, 0, 0, -1, 1)[b % 6])
            rows, at = [], base
            for width in range(1, 2 + c % 4):
                rows.append(segment(at, width, (a, b)))
                at += width
            return mine, changes.seal(now, mine, base, tuple(rows))
        case "skip":
            return write, changes.skip(now, write, now.sealed_end + a - 5)
        case "start":
            return write, changes.start(now, write, now.log_start + a - 5)
        case "drop":
            known = {name: story.pages[name] for name in sorted(story.pages)[: b + 1]}
            return write, changes.drop(now, write, known)
        case "page":
            return mine, _page(story, mine, a % 4, wrong=c % 5 == 0)
        case "rewrite":
            return mine, _rewrite(story, mine, a, b, c)
        case "unpage":
            return write, _unpage(story, write)
        case "cancel":
            return write, changes.cancel(now, write, a)
        case "burn":
            return write, changes.burn(now, write)
        case "cleared":
            names = frozenset(one.name for one in now.dropped if one.since_ms <= a)
            return write, changes.cleared(now, write, names)
        case _:
            return write, changes.delete(now, write)


def _page(story: Story, write: str, count: int, *, wrong: bool) -> Manifest | None:
    rows = story.now.segments[: count + 1]
    if not rows:
        return None
    name = f"page-{story.writes}"
    base = rows[0].base_offset + wrong
    row = PageRow(name, base, rows[-1].next_offset, len(rows), 1, 2, 3, 4)
    story.pages[name] = tuple(one.name for one in rows)
    held = (rows[0]._replace(base_offset=base), *rows[1:])
    after = changes.page(story.now, write, row, held)
    assert after is None or not wrong
    return after


def _rewrite(story: Story, write: str, a: int, b: int, c: int) -> Manifest | None:
    """Replace some rows by one, by two with a hole between them, or by none."""
    if not story.now.segments:
        return None
    at = a % len(story.now.segments)
    old = story.now.segments[at : at + 1 + b % 3]
    base, end = old[0].base_offset, old[-1].next_offset
    names = [f"rewritten-{story.writes}-{number}" for number in range(2)]
    new = (
        (),
        (old[0]._replace(name=names[0], next_offset=end),),
        (
            old[0]._replace(name=names[0], next_offset=base + 1),
            old[0]._replace(name=names[1], base_offset=end - 1, next_offset=end),
        ),
    )[c % 3 if end - base > 2 else c % 2]
    wrong = a % 7 == 0
    if wrong:
        old = (*old[:-1], old[-1]._replace(name="another"))
    after = changes.rewrite(story.now, write, old, new)
    assert after is None or not wrong
    return after


def _unpage(story: Story, write: str) -> Manifest | None:
    rows = {
        page.name: tuple(
            segment(base, 1, (1, 2))._replace(name=name)
            for base, name in _spread(page, story.pages[page.name])
        )
        for page in story.now.pages
    }
    rows = {name: _touching(page, rows[name]) for page in story.now.pages for name in [page.name]}
    return changes.unpage(story.now, write, rows)


def _spread(page: PageRow, names: tuple[str, ...]) -> list[tuple[int, str]]:
    return [(page.base_offset + number, name) for number, name in enumerate(names)]


def _touching(page: PageRow, rows: tuple[SegmentRow, ...]) -> tuple[SegmentRow, ...]:
    return (*rows[:-1], rows[-1]._replace(next_offset=page.next_offset))


def covered(manifest: Manifest) -> bool:
    """Whether everything from the start to the sealed end is in a row."""
    at = manifest.log_start
    rows: tuple[PageRow | SegmentRow, ...] = (*manifest.pages, *manifest.segments)
    for row in rows:
        if row.base_offset <= at:
            at = max(at, row.next_offset)
    return at >= manifest.sealed_end


def judge(story: Story, step: Step) -> None:
    """Take one step, and hold what comes of it against what was."""
    before, was, rows = story.now, set(story.named()), story.rows()
    write, after = take(story, step)
    if after is None:
        return
    assert after.generation == before.generation + 1
    assert after.writers == (*before.writers, write)[-16:]
    assert after.sealed_end >= before.sealed_end
    assert after.log_start >= before.log_start
    assert after.burnt >= before.burnt
    assert after.deleted >= before.deleted
    assert covered(after)
    assert decode_manifest(encode_manifest(after)) == after
    story.now = after
    names = story.named()
    assert len(set(names)) == len(names)
    dropped = {one.name for one in after.dropped}
    assert not dropped & story.rows()
    if step[0] == "cleared":
        assert rows == story.rows()
    elif step[0] == "unpage":
        assert story.rows() == rows - {page.name for page in before.pages}
    else:
        assert was <= set(names)
    if after.deleted:
        assert after.intents == ()
        assert story.rows() <= rows, "nothing is added to what was deleted"


@given(st.lists(steps, max_size=60))
def test_any_sequence_of_changes_keeps_a_manifest_whole(taken: list[Step]) -> None:
    story = Story(Manifest(topic=bytes(16), partition=0))
    for step in taken:
        judge(story, step)


def test_such_sequences_come_to_something() -> None:
    """The law above is about manifests with pages, rows, intents and things that were dropped."""
    story = Story(Manifest(topic=bytes(16), partition=0))
    for _ in range(6):
        judge(story, ("begin", 9, 5, 0))
        judge(story, ("seal", 0, 0, 3))
        judge(story, ("begin", 9, 5, 0))
        judge(story, ("page", 0, 0, 1))
        judge(story, ("start", 9, 0, 0))
        judge(story, ("begin", 9, 5, 0))
    assert story.now.pages
    assert story.now.segments
    assert story.now.intents
    judge(story, ("drop", 0, 50, 0))
    assert story.now.dropped
    judge(story, ("cleared", 0, 0, 0))
    assert not story.now.dropped


@given(st.lists(steps, max_size=40), st.lists(steps, max_size=20))
def test_after_deletion_nothing_comes_back(taken: list[Step], later: list[Step]) -> None:
    story = Story(Manifest(topic=bytes(16), partition=0))
    for step in taken:
        judge(story, step)
    judge(story, ("delete", 7, 0, 0))
    assert story.now.deleted
    rows = story.rows()
    for step in later:
        judge(story, step)
        assert story.now.deleted
        assert story.rows() <= rows
        assert story.now.intents == ()
        rows = story.rows()
    judge(story, ("drop", 8, 99, 0))
    assert story.rows() == set()


# ---------------------------------------------------------------------------- bytes

texts = st.text(max_size=8)


@st.composite
def manifests(draw: st.DrawFn) -> Manifest:
    """Manifests with fields as wide as they come."""
    at = draw(large)
    start = draw(st.integers(0, 5)) + at
    rows: list[Any] = []
    for _ in range(draw(st.integers(0, 6))):
        width, one = draw(st.integers(1, 1 << 40)), draw(times)
        row = (draw(texts), at, at + width, draw(large), draw(large), draw(large), one, one)
        rows.append((*row, draw(times), draw(large), draw(numbers), draw(numbers)))
        at += width
    cut = draw(st.integers(0, len(rows)))
    return Manifest(
        topic=draw(st.binary(min_size=16, max_size=16)),
        partition=draw(numbers),
        generation=draw(large),
        sealed_end=at,
        log_start=start if bool(rows) or draw(st.booleans()) else at + draw(numbers),
        deleted=draw(st.booleans()),
        burnt=draw(st.booleans()),
        pages=tuple(PageRow(row[0], row[1], row[2], *row[3:8]) for row in rows[:cut]),
        segments=tuple(SegmentRow(*row) for row in rows[cut:]),
        intents=tuple(draw(st.lists(st.builds(Intent, texts, texts, large, large, times)))),
        dropped=tuple(draw(st.lists(st.builds(Dropped, texts, times)))),
        writers=tuple(draw(st.lists(texts, max_size=16))),
    )


@given(manifests())
def test_a_manifest_comes_back_from_its_bytes(manifest: Manifest) -> None:
    body = encode_manifest(manifest)
    assert decode_manifest(body) == manifest
    assert decode_manifest(memoryview(body)) == manifest
    assert encode_manifest(decode_manifest(body)) == body


@given(manifests())
def test_a_page_comes_back_from_its_bytes(manifest: Manifest) -> None:
    rows = manifest.segments
    assert decode_page(encode_page(rows)) == rows


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


def _refused_or_whole(body: bytes) -> None:
    for decode in (decode_manifest, decode_page):
        try:
            found = decode(body)
        except (CorruptError, UnsupportedError):
            continue
        if isinstance(found, Manifest):
            assert covered(found) or found.log_start > found.sealed_end
            assert decode_manifest(encode_manifest(found)) == found


@given(
    st.binary(max_size=60)
    | st.text(max_size=40).map(str.encode)
    | values.map(json.dumps).map(str.encode)
)
def test_noise_is_refused(body: bytes) -> None:
    _refused_or_whole(body)
    with pytest.raises((CorruptError, UnsupportedError)):
        decode_manifest(body)


@given(manifests(), st.data())
def test_damaged_json_is_refused_or_is_another_whole_manifest(
    manifest: Manifest, data: st.DataObject
) -> None:
    """Never another error, and never a manifest with a gap."""
    fields: dict[str, Any] = json.loads(encode_manifest(manifest))
    at: Any = fields
    name: Any = data.draw(st.sampled_from(sorted(fields)))
    for _ in range(data.draw(st.integers(0, 2))):
        if isinstance(at[name], list) and at[name]:
            at, name = at[name], data.draw(st.integers(0, len(at[name]) - 1))
    at[name] = data.draw(values)
    _refused_or_whole(json.dumps(fields).encode())


@given(manifests(), st.data())
def test_damaged_bytes_are_refused_or_are_another_whole_manifest(
    manifest: Manifest, data: st.DataObject
) -> None:
    body = bytearray(encode_manifest(manifest))
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(body)) | st.just(len(body)))
    _refused_or_whole(bytes(body[:cut]))
