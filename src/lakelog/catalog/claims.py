"""The claim of a pipeline: until when somebody else keeps the namespace.

    {"format": 1, "holder": "…", "until_ms": 1763190000000}

A pipeline on a cluster says so before each pass. Whoever keeps the namespace on the side, as a
broker does, then stands back. It saves work and means nothing else: every verb is safe without it,
and a claim of a pipeline that died runs out.
"""

import json
from contextlib import suppress

from lakelog.errors import CorruptError
from lakelog.formats import Bytes, decode_fields, number
from lakelog.names import PIPELINE_KEY
from lakelog.store import Work, change_cell, read_cell

__all__ = ["claim_pipeline", "is_pipeline_claimed"]

FORMAT = 1


def claim_pipeline(holder: bytes, until_ms: int) -> Work[None]:
    """Say that ``holder`` keeps the namespace until a moment of the store's clock.

    Raises:
        UnsupportedError: a later version made the claim that is there; it was left as it is.
    """
    mine = json.dumps({"format": FORMAT, "holder": holder.hex(), "until_ms": until_ms}).encode()

    def renewed(now: bytes | None) -> bytes | None:
        if now is not None:
            with suppress(CorruptError):  # What says nothing has nothing to lose.
                _until_ms(now)
        return None if now == mine else mine

    yield from change_cell(PIPELINE_KEY, renewed, lambda now: now == mine)


def is_pipeline_claimed(now_ms: int) -> Work[bool]:
    """Say whether somebody keeps the namespace; ``now_ms`` is by the store's clock.

    Raises:
        CorruptError: it is no claim.
        UnsupportedError: a later version made it.
    """
    found = yield from read_cell(PIPELINE_KEY)
    return found is not None and _until_ms(found.body) > now_ms


def _until_ms(data: Bytes) -> int:
    try:
        known = ("holder", "until_ms")
        fields = decode_fields(data, format_=FORMAT, where=PIPELINE_KEY, known=known)
        return number(fields["until_ms"])
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise CorruptError(f"it is no claim: {error!r}", at=0, where=PIPELINE_KEY) from error
