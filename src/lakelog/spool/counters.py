"""What a spool counts of itself, and the same as Prometheus prints it."""

import resource
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate

__all__ = ["Counters", "Gauges", "page_faults", "print_metrics"]

SYNC_BUCKETS_MS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
_SYNC_BUCKETS_US = tuple(1000 * most for most in SYNC_BUCKETS_MS)
_US_PER_S = 1_000_000


@dataclass(slots=True)
class Counters:
    """Counted since the spool was opened."""

    rolled: int = 0
    syncs: int = 0
    sync_us: int = 0
    sync_buckets: list[int] = field(default_factory=lambda: [0] * (len(SYNC_BUCKETS_MS) + 1))
    recoveries: int = 0
    recovery_us: int = 0
    cut_bytes: int = 0
    index_rebuilds: int = 0
    deleted_segments: int = 0
    dropped_records: int = 0
    refused: int = 0

    def synced(self, took_us: int) -> None:
        """Count an fsync, or the wait for one of another thread."""
        self.syncs += 1
        self.sync_us += took_us
        self.sync_buckets[bisect_left(_SYNC_BUCKETS_US, took_us)] += 1

    def recovered(self, cut_bytes: int, rebuilt: int, took_us: int) -> None:
        """Count the recovery of a partition."""
        self.recoveries += 1
        self.recovery_us += took_us
        self.cut_bytes += cut_bytes
        self.index_rebuilds += rebuilt


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauges:
    """What is so now."""

    partitions: int
    segments: int
    bytes: int
    bytes_max: int | None
    unsynced: int
    unshipped: int
    records: int
    """Appended since the spool was opened."""
    page_faults: int
    """Of the process, since it began: those that had to wait for the disk, and all others."""


def page_faults() -> int:
    """Return how often this process has touched memory that was not there."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_minflt + used.ru_majflt


_COUNTERS = (
    ("rolled", "segments_sealed_total", "Segments sealed.", 1),
    ("recoveries", "recoveries_total", "Partitions recovered.", 1),
    ("recovery_us", "recovery_seconds_total", "Time spent recovering partitions.", _US_PER_S),
    ("cut_bytes", "recovery_cut_bytes_total", "Bytes half written, and cut off.", 1),
    ("index_rebuilds", "index_rebuilds_total", "Indexes built again.", 1),
    ("deleted_segments", "segments_deleted_total", "Segments deleted.", 1),
    ("dropped_records", "dropped_records_total", "Records deleted before they were shipped.", 1),
    ("refused", "refused_total", "Appends refused because the spool is full.", 1),
)
_GAUGES = (
    ("partitions", "partitions", "Partitions in use."),
    ("segments", "segments", "Segments of these."),
    ("bytes", "size_bytes", "Bytes of their files."),
    ("bytes_max", "size_bytes_max", "Bytes that the folder may have."),
    ("unsynced", "unsynced_records", "Records that a power cut may take."),
    ("unshipped", "unshipped_records", "Records that were not shipped."),
)


def print_metrics(counters: Counters, gauges: Gauges) -> str:
    """Return the page that Prometheus reads."""
    return "\n".join(_lines(counters, gauges)) + "\n"


def _lines(counters: Counters, gauges: Gauges) -> Iterator[str]:
    for field_, name, text, unit in _COUNTERS:
        value = getattr(counters, field_)
        yield from _metric(name, "counter", text, value if unit == 1 else value / unit)
    for field_, name, text in _GAUGES:
        value = getattr(gauges, field_)
        if value is not None:
            yield from _metric(name, "gauge", text, value)
    yield from _metric("records_total", "counter", "Records appended.", gauges.records)
    text = "Page faults of the process."
    yield from _metric("page_faults_total", "counter", text, gauges.page_faults)
    name = "lakelog_spool_sync_seconds"
    yield f"# HELP {name} How long an append waited for the disk."
    yield f"# TYPE {name} histogram"
    for most, count in zip(SYNC_BUCKETS_MS, accumulate(counters.sync_buckets), strict=False):
        yield f'{name}_bucket{{le="{most / 1000}"}} {count}'
    yield f'{name}_bucket{{le="+Inf"}} {counters.syncs}'
    yield f"{name}_sum {counters.sync_us / _US_PER_S}"
    yield f"{name}_count {counters.syncs}"


def _metric(name: str, kind: str, text: str, value: float) -> Iterator[str]:
    yield f"# HELP lakelog_spool_{name} {text}"
    yield f"# TYPE lakelog_spool_{name} {kind}"
    yield f"lakelog_spool_{name} {value}"
