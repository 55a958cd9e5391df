"""What a lane's folder and its head amount to, before a bundle is read: stretches, and holes.

Bundles have no holes from the floor on, and none is missing before a checkpoint. A listing may have
missed one that was made while it went on, so a hole is looked at again, and then the head, before
it is told. The tail is advisory: what is wrong with it is told, and is no damage.

The end of a lane cannot be missed: bundles that were deleted there, and that no checkpoint, head or
manifest has seen, are as if they had never been.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

from lakelog.errors import CorruptError, NotFoundError, UnsupportedError
from lakelog.journal import TAIL_BYTES_MAX, Head
from lakelog.model import Rules
from lakelog.names import CLUSTER_KEY, bundle_key, checkpoint_key, head_key, tail_key
from lakelog.pipeline.frame import FindingCollector, Result
from lakelog.pipeline.fsck.census import LaneFolder
from lakelog.pipeline.fsck.chains import BundleRange, lane_subject, read_head
from lakelog.store import GetRange, Work, ask, is_there

__all__ = ["LaneLook", "look_at_lane"]

HOLE_MAX = 4096
"""A hole of more bundles than this is told as one, also where a part of it may be there."""

Run = tuple[int, int]


@dataclass(slots=True)
class LaneLook:
    """What is known of a lane without reading a bundle, and what there is to read."""

    stretches: list[BundleRange] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    head: Head | None = None
    """None: it cannot be read, and so nothing of the lane can be judged."""


def look_at_lane(number: int, folder: LaneFolder | None, rules: Rules) -> Work[LaneLook]:
    """Look at the head and the tail of a lane, and cut what was listed of it into stretches."""
    subject = lane_subject(number, 0, head_key(number))
    looked, findings = LaneLook(), FindingCollector()
    if number >= rules.lanes:
        # Somebody began to make a larger namespace; or this one had more lanes.
        outcome = "stranger" if folder is None or not folder.bundles else "damaged"
        what = f"lane {number} is there, and the namespace has {rules.lanes}"
        for key in (head_key(number), CLUSTER_KEY):
            findings.add(key, what)
        looked.results.append(subject.result(outcome, findings))
        return looked
    folder = folder or LaneFolder()
    try:
        now = yield from read_head(number)
        while True:
            runs, holes = _runs(folder, now), FindingCollector()
            runs = yield from _filled(number, runs, holes)
            if not holes.count:
                break
            seen, now = now, (yield from read_head(number))
            if now.floor == seen.floor:
                break  # It was missing while the floor vouched for it: the head-check rule.
    except NotFoundError:
        findings.add(head_key(number), "it is missing, and the lane stops: restore it")
        if not folder.bundles and not folder.checkpoints:
            findings.add(CLUSTER_KEY, f"it says that there is a lane {number}")
        looked.results.append(subject.result("damaged", findings))
        return looked
    except (CorruptError, UnsupportedError) as error:
        looked.results.append(subject.found("damaged", error.what, at=error.at))
        return looked
    looked.head = now
    looked.results.append(subject.result("damaged" if holes.count else "good", holes))
    tail = yield from _tail(number, now)
    if tail is not None:
        looked.results.append(tail)
    looked.stretches += _stretches(number, runs, folder, now, rules.checkpoint_every)
    return looked


def _runs(folder: LaneFolder, now: Head) -> list[Run]:
    """Return what there should be: runs of bundles from the floor on, the first one begins there.

    The last may be empty: it ends where something says that there was a bundle.
    """
    floor = now.floor
    runs = [(max(first, floor), next_) for first, next_ in folder.runs if next_ > floor]
    if not runs or runs[0][0] > floor:
        runs.insert(0, (floor, floor))
    vouched = 1 + max((now.checkpoint, *folder.checkpoints))
    if vouched > runs[-1][1]:
        runs.append((vouched, vouched))
    return runs


def _filled(lane: int, runs: list[Run], holes: FindingCollector) -> Work[list[Run]]:
    """Look at the holes between runs; return the runs without those that were none."""
    filled = runs[:1]
    for first, next_ in runs[1:]:
        start, end = filled[-1]
        if first - end <= HOLE_MAX and (yield from is_there(bundle_key(lane, end))):
            filled[-1] = start, next_
            continue
        more = f", and so are those up to {first - 1}" if first - end > 1 else ""
        holes.add(
            bundle_key(lane, end),
            f"it is missing{more}; later ones, or a checkpoint, are there: restore it",
        )
        filled.append((first, next_))
    return filled


def _stretches(
    lane: int, runs: list[Run], folder: LaneFolder, now: Head, every: int
) -> Iterator[BundleRange]:
    """Cut runs behind each checkpoint that is due, as far as it was listed."""
    checkpoints = sorted(one for one in folder.checkpoints if one >= now.floor)
    listed, end = frozenset(checkpoints), runs[-1][1]
    mean = -(-folder.size // max(1, folder.bundles))
    for start, next_ in runs:
        inside = [one for one in checkpoints if start <= one < next_]
        cuts = [one + 1 for one in inside if (one + 1) % every == 0]
        if next_ not in cuts:
            cuts.append(next_)
        first = start
        for cut in cuts:
            if first < cut:
                yield BundleRange(
                    lane=lane,
                    every=every,
                    first=first,
                    last=cut - 1,
                    based=first - 1 in listed,
                    checkpoints=tuple(one for one in inside if first <= one < cut),
                    settled=end - 1 - every,
                    size=mean * (cut - first),
                )
            first = cut


def _tail(lane: int, now: Head) -> Work[Result | None]:
    """Return what is wrong with the tail of a lane, if something is."""
    key = tail_key(lane)
    flaw = ""
    try:
        found = yield from ask(GetRange(key, 0, TAIL_BYTES_MAX))
        seq = json.loads(found.body)["checkpoint"]
        if type(seq) is not int or not 0 <= seq < 1 << 62:
            flaw = "it names no checkpoint"
        elif seq >= now.floor and not (yield from is_there(checkpoint_key(lane, seq))):
            passed = (yield from read_head(lane)).floor > seq
            flaw = "" if passed else f"it names checkpoint {seq}, which is not there"
    except NotFoundError:
        return None
    except (ValueError, KeyError, TypeError, RecursionError):
        flaw = "it cannot be read"
    except (CorruptError, UnsupportedError):
        return None  # The head is bad by now. Whoever reads a bundle tells.
    if not flaw:
        return None
    what = f"{flaw}: it is advisory, and renewed with the next checkpoint"
    return lane_subject(lane, 0, key).found("stale", what)
