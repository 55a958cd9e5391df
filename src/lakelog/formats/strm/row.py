"""STRM as a row of FORMATS."""

from lakelog.formats.contract import Carries, Format
from lakelog.formats.strm.layout import CODECS, MAGIC, SUFFIX
from lakelog.formats.strm.lookup import open_segment
from lakelog.formats.strm.walk import walk
from lakelog.records import Codec

__all__ = ["FORMAT"]


def _sniff(head: bytes, _base_offset: int) -> bool:
    # A StreamHouse segment begins alike; it is let through here, and then refused by its name.
    return head[: len(MAGIC)] == MAGIC


FORMAT = Format(
    name="strm",
    title="STRM segment",
    suffix=SUFFIX,
    side_suffixes=(),
    carries=Carries(timestamp_types=False, codecs=frozenset(CODECS.values())),
    default_codec=Codec.LZ4,
    sealed=True,
    checksums=True,
    sniff=_sniff,
    walk=walk,
    open=open_segment,
)
