"""Which bytes of an object a read is about, once its size is known."""

from lakelog.errors import UnsupportedError
from lakelog.store.operations import Get, GetRange, GetSuffix, ObjectInfo

__all__ = ["byte_range", "check_size"]


def byte_range(op: Get | GetRange | GetSuffix, size: int) -> tuple[int, int]:
    """Return the half-open range of an object of ``size`` bytes that ``op`` asks for."""
    match op:
        case Get():
            return 0, size
        case GetRange():
            return min(op.start, size), min(op.end, size)
        case GetSuffix():
            return max(0, size - op.length), size


def check_size(op: Get | GetRange | GetSuffix, info: ObjectInfo) -> None:
    """Do nothing if the object may be fetched whole, or is not.

    Raises:
        UnsupportedError: it is larger than the caller is ready for.
    """
    if isinstance(op, Get) and info.size > op.size_bytes_max:
        raise UnsupportedError(
            f"{info.size} bytes, and at most {op.size_bytes_max} are fetched at once: "
            "read it by ranges, or raise size_bytes_max",
            at=op.size_bytes_max,
            where=op.key,
        )
