"""Layouts: where segments lie in a store, and so which topic and partition they belong to.

    layout    directory of a partition            data object
    kafka     …/{topic}-{partition}/              {base:020}.log
    kafs      …/{topic}/{partition}/              segment-{base:020}.kfs
                                                  segment-{base:020}-{write id}.kfs
    strm      …/{topic}/{partition}/              {base:020}.seg
    rustlog   …/{topic}/partitions/{partition}/   {base:020}.log

Finding segments is pure: names and sizes in, in the order of their keys, segments out. It holds no
more than one directory at a time, so a bucket of millions of objects streams through it. What is
not part of a log (files on their way out, an index without its log, other people's objects) is
passed over.

Two segments of a partition may begin at the same offset where one replaced the other. Names do not
tell which one counts: where a manifest lies beside them it does, see ``logs``.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from lakelog.errors import CorruptError, InvalidInputError, UnsupportedError
from lakelog.formats import FORMATS, Format, kafkalog, rustlog
from lakelog.records import OFFSET_MAX
from lakelog.segments.segments import SegmentRef

__all__ = [
    "HISTORY",
    "LAYOUTS",
    "MANIFEST",
    "NAMESPACE",
    "Directory",
    "Layout",
    "find_directories",
    "layout_named",
]

MANIFEST = "manifest"
"""The object beside segments that says which of them count."""

NAMESPACE = "lakelog"
"""The layout of a namespace, history and journal as one: no row of LAYOUTS, which find segments."""

HISTORY = "kafs"
"""The layout by which the history of a namespace can be read alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """One layout: a row of LAYOUTS."""

    name: str
    format: str
    partition_of: Callable[[str], tuple[str, int] | None]
    """Directory -> topic and partition, or None when it holds no partition."""

    directory: Callable[[str, int], str]
    """Topic and partition -> directory."""

    active: bool = False
    """Whether a writer may be at work on the last segment of a partition."""

    manifests: bool = False
    """Whether a manifest may lie beside the segments."""

    @property
    def pattern(self) -> str:
        """Where segments are looked for, as people write it."""
        fmt = FORMATS[self.format]
        folder = self.directory("TOPIC", 0).removesuffix("0") + "PARTITION"
        return f"{folder}/{fmt.file_stem(0).replace('0' * 20, 'OFFSET')}{fmt.suffix}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Directory:
    """What one directory holds of a partition."""

    path: str
    topic: str
    partition: int
    segments: tuple[SegmentRef, ...]
    """In the order of their offsets."""

    has_manifest: bool = False
    fault: CorruptError | UnsupportedError | None = None
    """Why its manifest cannot be used; then there are no segments."""


def _kafka_partition(directory: str) -> tuple[str, int] | None:
    return kafkalog.parse_directory_name(directory.rpartition("/")[2])


def _nested_partition(directory: str) -> tuple[str, int] | None:
    parts = directory.split("/")
    if len(parts) < 2 or not parts[-2]:
        return None
    return _partition(parts[-2], parts[-1])


def _nested_directory(topic: str, partition: int) -> str:
    if topic in ("", ".", "..") or "/" in topic or "\0" in topic:
        raise InvalidInputError(f"{topic!r} cannot be the name of a directory")
    return f"{topic}/{partition}"


def _rustlog_partition(directory: str) -> tuple[str, int] | None:
    parts = directory.split("/")
    if len(parts) < 3 or parts[-2] != "partitions" or not parts[-3]:
        return None
    return _partition(parts[-3], parts[-1])


def _partition(topic: str, partition: str) -> tuple[str, int] | None:
    if not partition.isascii() or not partition.isdigit() or str(int(partition)) != partition:
        return None
    return topic, int(partition)


LAYOUTS: dict[str, Layout] = {
    row.name: row
    for row in (
        Layout(
            name="kafka",
            format="kafkalog",
            partition_of=_kafka_partition,
            directory=kafkalog.directory_name,
            active=True,
        ),
        Layout(
            name="kafs",
            format="kafs",
            partition_of=_nested_partition,
            directory=_nested_directory,
            manifests=True,
        ),
        Layout(
            name="strm", format="strm", partition_of=_nested_partition, directory=_nested_directory
        ),
        Layout(
            name="rustlog",
            format="rustlog",
            partition_of=_rustlog_partition,
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


def find_directories(layout: Layout, objects: Iterable[tuple[str, int]]) -> Iterator[Directory]:
    """Yield the directories among ``objects`` that hold segments, or say that there are none."""
    fmt = FORMATS[layout.format]
    for path, group in groupby(objects, key=lambda item: item[0].rpartition("/")[0]):
        topic_partition = layout.partition_of(path)
        if topic_partition is None:
            continue
        sizes, has_manifest = _sizes(fmt, group)
        has_manifest = has_manifest and layout.manifests
        segments = tuple(_partition_segments(layout, fmt, topic_partition, sizes))
        if segments or has_manifest:
            yield Directory(
                path=path,
                topic=topic_partition[0],
                partition=topic_partition[1],
                segments=segments,
                has_manifest=has_manifest,
            )


def _sizes(
    fmt: Format, objects: Iterable[tuple[str, int]]
) -> tuple[dict[str, dict[str, int]], bool]:
    """Return the sizes of the files of each stem, and whether there is a manifest."""
    sizes: dict[str, dict[str, int]] = {}
    has_manifest = False
    # All segments share the words for their suffixes: a million copies of them would be felt.
    wanted = {suffix: suffix for suffix in (fmt.suffix, *fmt.side_suffixes)}
    for key, size in objects:
        stem, dot, suffix = key.rpartition(".")
        shared = wanted.get(dot + suffix)
        if shared is not None:
            sizes.setdefault(stem, {})[shared] = size
        elif key.rpartition("/")[2] == MANIFEST:
            has_manifest = True
    return sizes, has_manifest


def _partition_segments(
    layout: Layout, fmt: Format, topic_partition: tuple[str, int], sizes: dict[str, dict[str, int]]
) -> Iterator[SegmentRef]:
    found = sorted(
        (base, stem)
        for stem, held in sizes.items()
        if fmt.suffix in held and (base := fmt.base_offset(stem.rpartition("/")[2])) is not None
    )
    for number, (base, stem) in enumerate(found):
        is_last = number + 1 == len(found)
        yield SegmentRef(
            topic=topic_partition[0],
            partition=topic_partition[1],
            base_offset=base,
            next_offset_max=OFFSET_MAX if is_last else found[number + 1][0],
            format=fmt.name,
            stem=stem,
            sizes=sizes[stem],
            active=layout.active and is_last,
        )
