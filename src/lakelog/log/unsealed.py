"""What of a namespace is only in its journal, in words for whoever reads its segments alone.

A reader of segments sees what is sealed. What is not is left out by it, and that is to be said: how
much it is, and of which partitions.
"""

from collections.abc import Iterable

from lakelog.errors import LakelogError, NotFoundError
from lakelog.log.survey import Extent, open_survey
from lakelog.names import CLUSTER_KEY
from lakelog.ports import Clock, Ids
from lakelog.segments import Selection
from lakelog.store import Work, head

__all__ = ["tell_unsealed"]

SHOWN = 5
"""Partitions in a sentence."""


def tell_unsealed(selection: Selection, clock: Clock, ids: Ids) -> Work[str]:
    """Return a clause about what is only in the journal of the partitions that are wanted.

    It is empty where all is sealed, and where there is no namespace. A journal that cannot be read
    is told of as well: nobody may take that for an empty one.
    """
    try:
        yield from head(CLUSTER_KEY)
    except NotFoundError:
        return ""
    try:
        extents = yield from _look_at(selection, clock, ids)
    except LakelogError as error:
        return f"records that are only in the journal are left out; it cannot be read: {error}"
    return _clause(extents)


def _look_at(selection: Selection, clock: Clock, ids: Ids) -> Work[list[Extent]]:
    survey = yield from open_survey(clock, ids)
    members = yield from survey.members(selection, missing_ok=True)
    for lane in sorted({member.lane for member in members}):
        yield from survey.look(lane)
    return (yield from survey.extents(members))


def _clause(extents: Iterable[Extent]) -> str:
    unsealed = [
        (extent, start)
        for extent in extents
        if (start := max(extent.sealed_end, extent.log_start)) < extent.end
    ]
    if not unsealed:
        return ""
    count = sum(extent.end - start for extent, start in unsealed)
    named = [f"{extent.member} from offset {start} on" for extent, start in unsealed[:SHOWN]]
    more = f", and {len(unsealed) - SHOWN} more partitions" if unsealed[SHOWN:] else ""
    what = "1 record is" if count == 1 else f"{count} records are"
    return f"{what} only in the journal, and left out here ({', '.join(named)}{more})"
