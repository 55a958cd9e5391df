"""Layouts: where segments lie in a store, and so which topic and partition they belong to.

    layout    directory of a partition            data object
    kafka     …/{topic}-{partition}/              {base:020}.log
    kafs      …/{topic}/{partition}/              segment-{base:020}.kfs
    strm      …/{topic}/{partition}/              {base:020}.seg
    rustlog   …/{topic}/partitions/{partition}/   {base:020}.log

Finding segments is pure: names and sizes in, in the order of their keys, segments out. It holds no
more than one directory at a time, so a bucket of millions of objects streams through it. What is
not part of a log (files on their way out, an index without its log, other people's objects) is
passed over.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from lakelog.errors import InvalidInputError
from lakelog.formats import FORMATS, Format, kafkalog, rustlog
from lakelog.history.segments import SegmentRef
from lakelog.records import OFFSET_MAX

__all__ = ["LAYOUTS", "Layout", "find_segments", "layout_named"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """One layout: a row of LAYOUTS."""

    name: str
    format: str
    place: Callable[[str], tuple[str, int] | None]
    """Directory -> topic and partition, or None when it holds no partition."""

    directory: Callable[[str, int], str]
    """Topic and partition -> directory."""

    active: bool = False
    """Whether a writer may be at work on the last segment of a partition."""


def _kafka_place(directory: str) -> tuple[str, int] | None:
    return kafkalog.parse_directory_name(directory.rpartition("/")[2])


def _nested_place(directory: str) -> tuple[str, int] | None:
    parts = directory.split("/")
    if len(parts) < 2 or not parts[-2]:
        return None
    return _place(parts[-2], parts[-1])


def _nested_directory(topic: str, partition: int) -> str:
    if topic in ("", ".", "..") or "/" in topic or "\0" in topic:
        raise InvalidInputError(f"{topic!r} cannot be the name of a directory")
    return f"{topic}/{partition}"


def _rustlog_place(directory: str) -> tuple[str, int] | None:
    parts = directory.split("/")
    if len(parts) < 3 or parts[-2] != "partitions" or not parts[-3]:
        return None
    return _place(parts[-3], parts[-1])


def _place(topic: str, partition: str) -> tuple[str, int] | None:
    if not partition.isascii() or not partition.isdigit() or str(int(partition)) != partition:
        return None
    return topic, int(partition)


LAYOUTS: dict[str, Layout] = {
    row.name: row
    for row in (
        Layout(
            name="kafka",
            format="kafkalog",
            place=_kafka_place,
            directory=kafkalog.directory_name,
            active=True,
        ),
        Layout(name="kafs", format="kafs", place=_nested_place, directory=_nested_directory),
        Layout(name="strm", format="strm", place=_nested_place, directory=_nested_directory),
        Layout(
            name="rustlog",
            format="rustlog",
            place=_rustlog_place,
            directory=rustlog.partition_path,
            active=True,
        ),
    )
}


def layout_named(name: str) -> Layout:
    """Return the row of a layout.

    Raises:
        InvalidInputError: there is none of that name.
    """
    if name not in LAYOUTS:
        raise InvalidInputError(f"no layout {name!r}; there are {', '.join(LAYOUTS)}")
    return LAYOUTS[name]


def find_segments(layout: Layout, objects: Iterable[tuple[str, int]]) -> Iterator[SegmentRef]:
    """Yield the segments among ``objects``, (key, size) in the order of keys.

    Segments of a partition come together, in the order of their offsets.
    """
    fmt = FORMATS[layout.format]
    for directory, group in groupby(objects, key=lambda item: item[0].rpartition("/")[0]):
        place = layout.place(directory)
        if place is not None:
            yield from _partition_segments(layout, fmt, place, group)


def _partition_segments(
    layout: Layout,
    fmt: Format,
    place: tuple[str, int],
    objects: Iterable[tuple[str, int]],
) -> Iterator[SegmentRef]:
    sizes: dict[str, dict[str, int]] = {}
    # All segments share the words for their suffixes: a million copies of them would be felt.
    wanted = {suffix: suffix for suffix in (fmt.suffix, *fmt.side_suffixes)}
    for key, size in objects:
        stem, dot, suffix = key.rpartition(".")
        shared = wanted.get(dot + suffix)
        if shared is not None:
            sizes.setdefault(stem, {})[shared] = size
    found = sorted(
        (base, stem)
        for stem, held in sizes.items()
        if fmt.suffix in held and (base := _base_offset(fmt, stem)) is not None
    )
    for number, (base, stem) in enumerate(found):
        is_last = number + 1 == len(found)
        yield SegmentRef(
            topic=place[0],
            partition=place[1],
            base_offset=base,
            next_offset_max=OFFSET_MAX if is_last else found[number + 1][0],
            format=fmt.name,
            stem=stem,
            sizes=sizes[stem],
            active=layout.active and is_last,
        )


def _base_offset(fmt: Format, stem: str) -> int | None:
    """Return the base offset, or None for other names.

    A rewritten segment carries the id of its write in its name. Whether it counts is for a
    manifest to say; names alone would count its records twice.
    """
    name = stem.rpartition("/")[2]
    base = fmt.base_offset(name)
    return base if base is not None and fmt.file_stem(base) == name else None
