"""lakelog: a Kafka-compatible log on object storage, with Spark as its bulk data plane."""

from typing import Any as _Any

__all__ = ["scan"]

__version__ = "0.1.0.dev0"


def scan(url: str, *, layout: str, **settings: _Any) -> _Any:
    """Return the records of segments below ``url`` as a stream of Arrow batches.

    This is ``lakelog.history.scan.scan``, whose settings it takes. It is imported here and now,
    because it brings Arrow and LLVM: whoever does not ask for it does not pay for it.
    """
    from lakelog.history.scan import scan as scan_segments

    return scan_segments(url, layout=layout, **settings)
