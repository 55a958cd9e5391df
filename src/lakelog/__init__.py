"""lakelog: a Kafka-compatible log on object storage, with Spark as its bulk data plane."""

from typing import Any as _Any

__all__ = ["scan"]

__version__ = "0.2.0.dev0"


def scan(url: str, **settings: _Any) -> _Any:
    """Return the records below ``url`` as a stream of Arrow batches: a namespace, or segments.

    This is ``lakelog.log.scan.scan``, whose settings it takes. It is imported here and now, because
    it brings Arrow and LLVM: whoever does not ask for it does not pay for it.
    """
    from lakelog.log.scan import scan as scan_records

    return scan_records(url, **settings)
