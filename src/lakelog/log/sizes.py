"""How many bytes a partition takes: its segments, and what of the journal is not sealed yet.

Segments are in the manifest. What lies in the journal is added up from directories in memory and
from the rolls of checkpoints, which are kept for readers anyway; of a backlog of more than
``RUNS_MAX`` of them the rest is estimated, because whoever asks for sizes does so every minute.
"""

from lakelog.journal import Lane, locate_run
from lakelog.manifests import Manifest
from lakelog.store import Work

__all__ = ["history_bytes", "journal_bytes"]

RUNS_MAX = 16
EVERYTHING_BYTES = 1 << 62


def history_bytes(manifest: Manifest) -> int:
    """Return the bytes of the segments of a partition."""
    pages = sum(row.length for row in manifest.pages)
    return pages + sum(row.length for row in manifest.segments)


def journal_bytes(lane: Lane, place: tuple[bytes, int], start: int) -> Work[int]:
    """Return about how many bytes of a partition lie in the journal, from an offset on."""
    offset, end, size = start, lane.known.fold.end(place), 0
    for _ in range(RUNS_MAX):
        run = yield from locate_run(lane, place, offset, EVERYTHING_BYTES)
        size += sum(one.slice.length for one in run)
        if not run:
            break  # The end, or what has fallen below the floor meanwhile.
        offset = run[-1].slice.next_offset
    if start < offset < end:
        size += size * (end - offset) // (offset - start)
    return size
