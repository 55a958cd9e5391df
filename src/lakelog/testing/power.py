"""What is left of the truth after a power cut.

What nobody was told of may be gone. Nothing else is: every batch that was acknowledged stands where
it stood, bundles have no hole, manifests name segments that hold what they held, and everything
below the floor is in one of them.
"""

from lakelog.errors import LakelogError, NotFoundError
from lakelog.formats.lanes import decode_directory
from lakelog.journal import decode_head
from lakelog.manifests import decode_manifest
from lakelog.names import bundle_key, head_key
from lakelog.testing.truth import Anomaly, Truth, must

__all__ = ["recover"]


def recover(truth: Truth) -> None:
    """Compare the truth with what a power cut has left, and let it be that."""
    try:
        _recover(truth)
    except LakelogError as error:
        raise Anomaly(f"power: {error}") from error


def _recover(truth: Truth) -> None:
    floor = decode_head(truth.read(head_key(0)), 0).floor
    left = _left(truth, floor)
    bundles, rows = truth.bundles, truth.rows
    truth.forget_bundles()
    for bundle, some in zip(bundles[:left], rows[:left], strict=True):
        truth.take(bundle, some)
    for crc, told in truth.told.items():
        now = truth.offsets.get(crc)
        must(now == told, f"power: acknowledged at {told}, and after the cut it is at {now}")
    truth.floor = floor
    truth.floors = [one for one in truth.floors if one[0] <= floor]
    _recover_manifests(truth)
    for bundle in truth.bundles[:floor]:
        for slice_ in bundle.slices:
            must(
                truth.is_sealed(slice_.topic_partition, slice_.next_offset),
                f"power: {slice_} is lost",
            )


def _left(truth: Truth, floor: int) -> int:
    """Return how many bundles are left; those below the floor were sealed, and may be gone."""
    left = floor
    for seq in range(floor, len(truth.bundles)):
        try:
            body = truth.read(bundle_key(0, seq))
        except NotFoundError:
            continue
        must(seq == left, f"power: bundle {seq} is there, and {left} is gone")
        same = decode_directory(body, len(body)) == truth.bundles[seq]
        must(same, f"power: bundle {seq} is not what it was")
        left += 1
    return left


def _recover_manifests(truth: Truth) -> None:
    for key in list(truth.manifests):
        prefix = key.removesuffix("manifest")
        try:
            now = decode_manifest(truth.read(key))
        except NotFoundError:
            del truth.manifests[key]
            continue
        rows = truth.segments(prefix, now)
        for row in rows:
            topic_partition = now.topic, now.partition
            truth.judge_segment(prefix, topic_partition, row, log_start=now.log_start)
        for name in {row.name for row in rows} | {page.name for page in now.pages}:
            truth.left.pop(prefix + name, None)
        truth.manifests[key] = now
    truth.starts = {(one.topic, one.partition): one.log_start for one in truth.manifests.values()}
