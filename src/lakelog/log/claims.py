"""The claim of a pipeline: until when somebody else keeps the namespace.

    {"format": 1, "holder": "…", "until_ms": 1763190000000}

A pipeline on a cluster says so before each pass. Whoever keeps the namespace on the side, as a
broker does, then stands back. It saves work and means nothing else: every verb is safe without it,
and a claim of a pipeline that died runs out.
"""

import json

from lakelog.errors import CorruptError
from lakelog.formats import decode_fields, number
from lakelog.names import PIPELINE_KEY
from lakelog.store import Work, change_cell, read_cell

__all__ = ["claim_pipeline", "is_pipeline_claimed"]

FORMAT = 1


def claim_pipeline(holder: bytes, until_ms: int) -> Work[None]:
    """Say that ``holder`` keeps the namespace until a moment of the store's clock."""
    mine = json.dumps({"format": FORMAT, "holder": holder.hex(), "until_ms": until_ms}).encode()
    yield from change_cell(
        PIPELINE_KEY, lambda now: None if now == mine else mine, lambda now: now == mine
    )


def is_pipeline_claimed(now_ms: int) -> Work[bool]:
    """Say whether somebody keeps the namespace; ``now_ms`` is by the store's clock.

    Raises:
        CorruptError: it is no claim.
        UnsupportedError: a later version made it.
    """
    found = yield from read_cell(PIPELINE_KEY)
    if found is None:
        return False
    try:
        fields = decode_fields(found.body, format_=FORMAT, where=PIPELINE_KEY)
        return number(fields["until_ms"]) > now_ms
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise CorruptError(f"it is no claim: {error!r}", at=0, where=PIPELINE_KEY) from error
