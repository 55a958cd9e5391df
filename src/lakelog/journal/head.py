"""The head of a lane: its floor, and what the floor stands on.

    {"format": 1, "lane": 3, "floor": 128, "checkpoint": 191, "floors": [[64, 1763190000000]]}

Bundles below the floor are not part of the journal, whether or not an object is still there, or is
there again. The checkpoint, at or after the floor, is the one thing that the deletion of all below
it leaves behind. ``floors`` are earlier floors, each with the moment, by the store's clock, from
which the head said so; of the floor itself that moment is the head object's own time.

The head is changed by compare-and-swap only, and made by ``init`` only: a lane whose head is gone
stops, because a new one with floor 0 would bring everything back that was ever deleted.
"""

import json
from dataclasses import dataclass
from dataclasses import fields as fields_of

from lakelog.errors import CorruptError, UnsupportedError
from lakelog.formats import Bytes, decode_fields, decoding, fitting, number

__all__ = ["FLOORS_MAX", "HEAD_BYTES_MAX", "Head", "decode_head", "encode_head"]

FORMAT = 1
FLOORS_MAX = 64
"""Earlier floors that are remembered."""
HEAD_BYTES_MAX = 64 << 10
"""Of the object: ten times what so many floors take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """A head as it was read or will be written."""

    lane: int
    floor: int = 0
    checkpoint: int = -1
    floors: tuple[tuple[int, int], ...] = ()
    """Earlier floors and since when, oldest first."""

    def __post_init__(self) -> None:
        said = [floor for floor, _ in self.floors] + [self.floor]
        if sorted(set(said)) != said or said[0] < 0 or len(said) > FLOORS_MAX + 1:
            raise _bad(f"floors {said} do not rise")
        if self.checkpoint < self.floor and (self.floor, self.checkpoint) != (0, -1):
            raise _bad(f"floor {self.floor} stands on checkpoint {self.checkpoint}")

    def raised(self, floor: int, checkpoint: int, since_ms: int) -> "Head":
        """Return it with a higher floor; ``since_ms`` is when this one was stored."""
        floors = (*self.floors, (self.floor, since_ms))
        if len(floors) > FLOORS_MAX:
            # Every second one goes, and never the oldest: some floor is always old enough.
            floors = floors[::2]
        return Head(lane=self.lane, floor=floor, checkpoint=checkpoint, floors=floors)

    def deletable(self, since_ms: int, now_ms: int, grace_ms: int) -> int:
        """Return the seq below which keys may be deleted: the highest floor that is old enough.

        ``since_ms`` is when this head was stored, ``now_ms`` is now, both by the store's clock.
        """
        known = (*self.floors, (self.floor, since_ms))
        return max((floor for floor, since in known if now_ms - since >= grace_ms), default=0)


def encode_head(head: Head) -> bytes:
    """Return the bytes of a head.

    Raises:
        InvalidInputError: they would be more than are read.
    """
    fields = {
        "format": FORMAT,
        "lane": head.lane,
        "floor": head.floor,
        "checkpoint": head.checkpoint,
        "floors": head.floors,
    }
    body = json.dumps(fields).encode()
    return fitting(body, HEAD_BYTES_MAX, f"a head of lane {head.lane}", "remember fewer floors")


_FIELDS = frozenset(one.name for one in fields_of(Head))
"""Each has its name in the cell."""


def decode_head(data: Bytes, lane: int) -> Head:
    """Return the head of ``lane`` in ``data``.

    Raises:
        CorruptError: it is none.
        UnsupportedError: a later version made it, or it is over the limit.
    """
    if len(data) > HEAD_BYTES_MAX:
        what = f"a head of {len(data)} bytes is over the limit of {HEAD_BYTES_MAX}"
        raise UnsupportedError(what, at=0, where="head")
    with decoding("head", "head"):
        fields = decode_fields(data, format_=FORMAT, where="head", known=_FIELDS)
        floors = tuple((number(floor), number(since)) for floor, since in fields["floors"])
        head = Head(
            lane=number(fields["lane"]),
            floor=number(fields["floor"]),
            checkpoint=number(fields["checkpoint"]),
            floors=floors,
        )
    if head.lane != lane:
        raise _bad(f"it is of lane {head.lane}, not {lane}")
    return head


def _bad(what: str) -> CorruptError:
    return CorruptError(what, at=0, where="head")
