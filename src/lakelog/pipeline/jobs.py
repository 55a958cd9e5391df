"""Jobs of the pipeline, out of addresses, names and numbers.

What an address or a name means is decided here, on the driver, so that it means the same on every
executor. ``host`` has the clocks and ids that a job uses, wherever its steps run.
"""

from collections.abc import Iterable, Mapping, Sequence

from lakelog.errors import InvalidInputError
from lakelog.maintenance import MergeSettings, SealSettings
from lakelog.pipeline import (
    SEGMENT_BYTES,
    Compact,
    CompactSettings,
    Compare,
    Convert,
    Copy,
    Import,
    Merge,
    Reindex,
    ReindexNamespace,
    Retain,
    Seal,
    Verify,
    VerifyNamespace,
    parse_losses,
)
from lakelog.ports import Host
from lakelog.records import Codec
from lakelog.segments import NAMESPACE, Selection
from lakelog.store import StoreSpec, open_store

__all__ = [
    "compact_job",
    "compare_job",
    "convert_job",
    "copy_job",
    "import_job",
    "merge_job",
    "reindex_job",
    "retain_job",
    "seal_job",
    "verify_job",
]

"""The layout that is no layout: a namespace knows where its segments are."""

_ROOT_PARTS = 3
"""Of an address: its scheme, nothing, and the bucket."""


def verify_job(
    url: str,
    *,
    host: Host,
    layout: str,
    topics: Iterable[str] | None = None,
    records: bool = False,
    closed: bool = False,
    store_options: Mapping[str, str] | None = None,
) -> Verify | VerifyNamespace:
    """Check every byte of the segments below ``url``, or of a namespace."""
    if layout == NAMESPACE:
        return VerifyNamespace(
            source=_store_spec(url, store_options),
            host=host,
            selection=_selection(topics),
            records=records,
        )
    return Verify(
        source=_store_spec(url, store_options),
        layout=layout,
        host=host,
        selection=_selection(topics),
        records=records,
        closed=closed,
    )


def compare_job(
    url: str,
    *,
    host: Host,
    layout: str,
    against: str,
    against_layout: str,
    topics: Iterable[str] | None = None,
    store_options: Mapping[str, str] | None = None,
    against_store_options: Mapping[str, str] | None = None,
) -> Compare:
    """Compare what two places hold, record by record."""
    return Compare(
        source=_store_spec(url, store_options),
        layout=layout,
        against=_store_spec(against, against_store_options),
        against_layout=against_layout,
        host=host,
        selection=_selection(topics),
    )


def reindex_job(
    url: str,
    *,
    layout: str,
    topics: Iterable[str] | None = None,
    closed: bool = False,
    store_options: Mapping[str, str] | None = None,
) -> Reindex | ReindexNamespace:
    """Make indexes again where they are missing or wrong."""
    if layout == NAMESPACE:
        return ReindexNamespace(
            source=_store_spec(url, store_options), selection=_selection(topics)
        )
    return Reindex(
        source=_store_spec(url, store_options),
        layout=layout,
        selection=_selection(topics),
        closed=closed,
    )


def convert_job(
    url: str,
    *,
    host: Host,
    layout: str,
    target: str,
    target_layout: str,
    topics: Iterable[str] | None = None,
    codec: str | None = None,
    level: int | None = None,
    block_bytes: int | None = None,
    segment_bytes: int | None = None,
    lose: Iterable[str] = (),
    store_options: Mapping[str, str] | None = None,
    target_store_options: Mapping[str, str] | None = None,
) -> Convert:
    """Convert the segments below ``url`` into another layout."""
    return Convert(
        source=_store_spec(url, store_options),
        layout=layout,
        target=_store_spec(target, target_store_options),
        target_layout=target_layout,
        host=host,
        selection=_selection(topics),
        codec=None if codec is None else Codec[codec.upper()],
        level=level,
        block_bytes=block_bytes,
        segment_bytes=segment_bytes,
        lose=parse_losses(lose),
    )


def import_job(
    folders: Sequence[str],
    *,
    host: Host,
    storage: str,
    topics: Iterable[str] | None = None,
    configs: Mapping[str, str] | None = None,
    segment_bytes: int | None = None,
    partial: bool = False,
    stay_closed: bool = False,
    from_store_options: Mapping[str, str] | None = None,
    store_options: Mapping[str, str] | None = None,
) -> Import:
    """Make topics out of the log directories of Kafka brokers."""
    urls = [_store_spec(folder, from_store_options).url.rstrip("/") for folder in folders]
    root, below = _common(urls)
    return Import(
        source=StoreSpec(root, dict(from_store_options or {})),
        folders=below,
        target=_store_spec(storage, store_options),
        host=host,
        selection=_selection(topics),
        configs=dict(configs or {}),
        partial=partial,
        stay_closed=stay_closed,
        segment_bytes=segment_bytes or SEGMENT_BYTES,
    )


def copy_job(
    storage: str,
    topic: str,
    *,
    host: Host,
    to: str,
    name: str,
    at_ms: int | None = None,
    segment_bytes: int | None = None,
    store_options: Mapping[str, str] | None = None,
    to_store_options: Mapping[str, str] | None = None,
) -> Copy:
    """Make a topic out of another, with the same offsets, up to now or to a moment."""
    return Copy(
        source=_store_spec(storage, store_options),
        topic=topic,
        target=_store_spec(to, to_store_options),
        name=name,
        host=host,
        at_ms=at_ms,
        segment_bytes=segment_bytes or SEGMENT_BYTES,
    )


def _common(urls: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Return the folder that holds all of some, and where they lie in it.

    Raises:
        InvalidInputError: no store has them all.
    """
    if len(urls) == 1:
        return urls[0], ("",)
    parts = [url.split("/") for url in urls]
    same = 0
    while len({tuple(part[: same + 1]) for part in parts}) == 1 and same < min(map(len, parts)):
        same += 1
    if same < _ROOT_PARTS or len(set(urls)) < len(urls):
        raise InvalidInputError(
            f"{', '.join(urls)}: name different directories of one store, or import one by one"
        )
    return "/".join(parts[0][:same]), tuple("/".join(part[same:]) for part in parts)


def seal_job(
    storage: str,
    *,
    host: Host,
    group_bytes: int | None = None,
    segment_bytes: int | None = None,
    backlog_bytes: int = 1 << 30,
    backlog_ms: int = 600_000,
    idle: bool = False,
    store_options: Mapping[str, str] | None = None,
) -> Seal:
    """Seal what is due in every lane, and trim the lanes."""
    return Seal(
        target=_store_spec(storage, store_options),
        host=host,
        settings=SealSettings(**_given(group_bytes=group_bytes, segment_bytes=segment_bytes)),
        backlog_bytes=backlog_bytes,
        backlog_ms=backlog_ms,
        idle=idle,
    )


def merge_job(
    storage: str,
    *,
    host: Host,
    topics: Iterable[str] | None = None,
    segment_bytes: int | None = None,
    rows_min: int | None = None,
    store_options: Mapping[str, str] | None = None,
) -> Merge:
    """Merge small segments into large ones."""
    return Merge(
        target=_store_spec(storage, store_options),
        host=host,
        selection=_selection(topics),
        settings=MergeSettings(**_given(segment_bytes=segment_bytes, rows_min=rows_min)),
    )


def compact_job(
    storage: str,
    *,
    host: Host,
    topics: Iterable[str] | None = None,
    map_bytes: int | None = None,
    segment_bytes: int | None = None,
    always: bool = False,
    store_options: Mapping[str, str] | None = None,
) -> Compact:
    """Keep of each key the newest record, in topics whose policy says so."""
    return Compact(
        target=_store_spec(storage, store_options),
        host=host,
        selection=_selection(topics),
        settings=CompactSettings(**_given(map_bytes=map_bytes, segment_bytes=segment_bytes)),
        always=always,
    )


def retain_job(
    storage: str,
    *,
    host: Host,
    topics: Iterable[str] | None = None,
    store_options: Mapping[str, str] | None = None,
) -> Retain:
    """Let logs begin later, delete what lies before, and sweep what nobody names."""
    return Retain(
        target=_store_spec(storage, store_options), host=host, selection=_selection(topics)
    )


def _store_spec(url: str, options: Mapping[str, str] | None) -> StoreSpec:
    """Return an address that means the same on every executor."""
    if url.startswith("kafka:"):
        return StoreSpec(url, dict(options or {}))
    # A path means here what it means in this folder; an executor runs in another.
    return StoreSpec(open_store(url, options).url, dict(options or {}))


def _given(**sizes: int | None) -> dict[str, int]:
    """Return the sizes that were given; the others have their defaults."""
    return {name: size for name, size in sizes.items() if size}


def _selection(topics: Iterable[str] | None) -> Selection:
    return Selection(topics=None if topics is None else frozenset(topics))
