"""From what options say to offsets: which of each partition are read.

    starting, ending   words, offsets or times of options      -> range of each partition
    start, end         offsets of a stream, in Kafka's shape   -> range of each partition
    new offsets        what may be read by one trigger         -> offsets, in Kafka's shape

All of it is pure, and the rules are those of Spark's Kafka source: what is named must be all that
is read, partitions that are found later are read from their beginning, and a limit on a trigger is
shared out by what each partition has. Kafka's shape of offsets is ``{"orders": {"0": 23}}``, the
next offset of each partition: so a checkpoint of ``format("kafka")`` can be gone on with.

Records that are no longer there are a loss. It is an error, or it is told to the log of the driver
and the read goes on, as failOnDataLoss says.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from logging import getLogger

from lakelog.errors import InvalidInputError, NotFoundError
from lakelog.log.survey import Extent
from lakelog.segments import OffsetSpec

__all__ = [
    "Key",
    "Losses",
    "Offsets",
    "check_named",
    "check_order",
    "decode_offsets",
    "encode_offsets",
    "limit_offsets",
    "readable",
]

Key = tuple[str, int]
Offsets = dict[Key, int]

_LOG = getLogger(__name__)
_OFFSET_MAX = (1 << 63) - 1


class Losses:
    """What to do about records that are gone."""

    def __init__(self, *, fail: bool) -> None:
        self.fail = fail

    def report(self, kind: str, what: str) -> None:
        """Raise, or tell the log.

        Raises:
            NotFoundError: a loss fails the query.
        """
        said = (
            f"[KAFKA_DATA_LOSS.{kind}] Some data may have been lost because they are not available "
            f"any more. Reason: {what}. If you don't want your query to fail on such cases, set "
            "the source option failOnDataLoss to false."
        )
        if self.fail:
            raise NotFoundError(said)
        _LOG.warning("%s", said)


# ---------------------------------------------------------------------------- ranges


def check_named(spec: OffsetSpec, assigned: Collection[Key], option: str) -> None:
    """Check that partitions that are named one by one are those that are read.

    Raises:
        InvalidInputError: one is missing, or one too many.
    """
    named = spec.timestamps if spec.timestamps is not None else spec.offsets
    if spec.timestamp is None and named is not None and set(named) != set(assigned):
        side = "START" if option.startswith("starting") else "END"
        raise InvalidInputError(
            f"[KAFKA_{side}_OFFSET_DOES_NOT_MATCH_ASSIGNED] Partitions specified for {option} "
            "don't match what are assigned. Maybe topic partitions are created or deleted while "
            "the query is running. Use -1 for latest, -2 for earliest.\n"
            f"Specified: {_names(named)} Assigned: {_names(assigned)}"
        )


def readable(extent: Extent, start: int, until: int, losses: Losses) -> tuple[int, int]:
    """Return the part of a range that is there; what is not is a loss."""
    member = extent.member
    low, high = max(start, extent.log_start), min(until, extent.end)
    if start < until and low > start:
        losses.report(
            "COULD_NOT_READ_OFFSET_RANGE",
            f"offsets [{start}, {min(low, until)}) of {member} have expired: its log begins at "
            f"{extent.log_start}, where retention or DeleteRecords has moved it",
        )
    if start < until and high < until:
        losses.report(
            "COULD_NOT_READ_OFFSET_RANGE",
            f"offsets [{max(start, high)}, {until}) of {member} are not there: it ends at "
            f"{extent.end}",
        )
    return low, max(low, high)


def check_order(extent: Extent, start: int, until: int) -> None:
    """Check that a range that was asked for does not end before it begins.

    Raises:
        InvalidInputError: it does.
    """
    if until < start:
        topic, partition = extent.member.key
        raise InvalidInputError(
            f"The specified start offset {start} is greater than the end offset {until} for topic "
            f"{topic} partition {partition}."
        )


# ---------------------------------------------------------------------------- streams


def encode_offsets(offsets: Mapping[Key, int]) -> dict[str, dict[str, int]]:
    """Return offsets in Kafka's shape, in order."""
    shape: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        shape.setdefault(topic, {})[str(partition)] = offset
    return shape


def decode_offsets(shape: Mapping[str, Mapping[str, int]]) -> Offsets:
    """Return what offsets in Kafka's shape mean.

    Raises:
        InvalidInputError: they are not in that shape.
    """
    try:
        return {
            (str(topic), int(partition)): int(offset)
            for topic, partitions in shape.items()
            for partition, offset in partitions.items()
        }
    except (AttributeError, TypeError, ValueError) as error:
        raise InvalidInputError(
            f'offsets {str(shape)[:200]} are not like {{"topic": {{"0": 23}}}}: this checkpoint is '
            "of another source"
        ) from error


def limit_offsets(start: Mapping[Key, int], end: Mapping[Key, int], limit: int) -> Offsets:
    """Return where a trigger ends that reads about ``limit`` offsets.

    ``start`` has all partitions of ``end``. Each gets its share of the limit; a small one gets at
    least one offset, so that it is not starved by large ones.
    """
    sizes = {key: until - start[key] for key, until in end.items() if until > start[key]}
    total = sum(sizes.values())
    offsets = dict(end)
    for key, size in sizes.items():
        share = limit * (size / total)
        count = math.ceil(share) if share < 1 else math.floor(share)
        offsets[key] = min(end[key], start[key] + min(count, _OFFSET_MAX - start[key]))
    return offsets


def _name(key: Key) -> str:
    return f"{key[0]}-{key[1]}"


def _names(keys: Iterable[Key]) -> str:
    return ", ".join(map(_name, sorted(keys)))
