"""Every error lakelog raises, sorted by what the caller does next.

    LakelogError
    ├── InvalidInputError   fix the call                              (ValueError)
    │   └── TooLargeError   the store refuses this size; nothing was stored; split it
    ├── UnsupportedError    use a newer reader, or raise a limit; the data is fine
    ├── CorruptError        stop, quarantine; no correct writer made these bytes
    ├── NotFoundError       it is not there                           (KeyError)
    ├── ConflictError       another writer won; refresh and retry
    │   └── FencedError     another owner took over; stop for good
    ├── FullError           there is no room; nothing was stored; make room first
    └── UnavailableError    no answer: the outcome is unknown; retry

A new class needs a caller who would act differently. Messages say where and what to do next;
they are for people and are not part of the interface.
"""

__all__ = [
    "ConflictError",
    "CorruptError",
    "FencedError",
    "FullError",
    "InvalidInputError",
    "LakelogError",
    "NotFoundError",
    "TooLargeError",
    "UnavailableError",
    "UnsupportedError",
]


class LakelogError(Exception):
    """The root: catch this to catch everything lakelog raises on purpose."""

    retryable = False


class InvalidInputError(LakelogError, ValueError):
    """The call itself is wrong; no bytes were read or written."""


class TooLargeError(InvalidInputError):
    """The store refuses an object of this size. Nothing was stored: split it."""


class _ByteError(LakelogError):
    """Something about the bytes at one position of one object."""

    def __init__(self, what: str, *, at: int, where: str = "") -> None:
        super().__init__(what, at, where)
        self.what = what
        self.at = at
        self.where = where

    def __str__(self) -> str:
        return f"{self.where or 'input'} at byte {self.at}: {self.what}"

    def __reduce__(self) -> tuple[object, ...]:
        # Errors cross process borders (Spark pickles them), so rebuild from the parts.
        return (_rebuild, (type(self), self.what, self.at, self.where))


def _rebuild(kind: type["_ByteError"], what: str, at: int, where: str) -> "_ByteError":
    return kind(what, at=at, where=where)


class UnsupportedError(_ByteError):
    """The bytes may be fine, but this reader does not know how to read them."""


class CorruptError(_ByteError):
    """Bytes that no correct writer can have written."""


class NotFoundError(LakelogError, KeyError):
    """The thing asked for is not there."""

    def __str__(self) -> str:
        # KeyError shows the repr of its argument; people want the sentence.
        return str(self.args[0]) if self.args else ""


class ConflictError(LakelogError):
    """Another writer won. Refresh what you know, then retry."""

    retryable = True


class FencedError(ConflictError):
    """Another owner took over. Stop for good."""

    retryable = False


class FullError(LakelogError):
    """There is no room. Nothing was stored: make room first; it stays full by itself."""


class UnavailableError(LakelogError):
    """No answer. The operation may or may not have taken effect."""

    retryable = True
