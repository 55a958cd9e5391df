"""What can be asked of an object store, as values.

    operation                          answer
    ListPage(prefix, after, limit)     Page       up to ``limit`` objects
    Head(key)                          ObjectInfo
    Get(key)                           Fetched    the whole object
    GetRange(key, start, end)          Fetched    [start, end), less where the object ends
    GetSuffix(key, length)             Fetched    the last bytes, all if there are fewer
    PutIfAbsent(key, body)             Created | Exists
    PutIfMatch(key, body, etag)        Replaced | Changed
    PutTogether(key, body, etag, others)   the same, and others with it; etcd and memory only
    Delete(key)                        None, also when nothing was there

A flow yields operations and is sent answers; whoever runs it decides what performs them. An
operation knows the type of its answer (``asking``).

Work is a flow that may also wait (``Wait``), and ask for several things at once (``Many``).

Three errors are raised into a flow. NotFoundError: there is no such object. UnavailableError: there
is no answer, and *nothing is known*; a write that ends so may have been stored. A lost answer, a
timeout, a 5xx and a 409 are all of this kind. InvalidInputError: the store has refused the request,
for its size if it is a TooLargeError; *this* request has stored nothing, and the same one would be
refused again. ``Exists`` and ``Changed`` are never guesses: the store has said so.
"""

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from lakelog.errors import InvalidInputError
from lakelog.store.keys import check_key, check_prefix

__all__ = [
    "AT_ONCE",
    "GET_BYTES_MAX",
    "LIST_LIMIT_MAX",
    "WORK",
    "Body",
    "Changed",
    "Created",
    "Delete",
    "Exists",
    "Fetched",
    "Flow",
    "Get",
    "GetRange",
    "GetSuffix",
    "Head",
    "ListPage",
    "Many",
    "ObjectInfo",
    "Op",
    "Operation",
    "Page",
    "PutIfAbsent",
    "PutIfMatch",
    "PutTogether",
    "Read",
    "Replaced",
    "Wait",
    "Work",
    "Write",
    "join_body",
    "no_transactions",
]

A = TypeVar("A")
T = TypeVar("T")

AT_ONCE = 64
"""Of many small objects, as many are asked for at a time."""

LIST_LIMIT_MAX = 1000
"""What S3 returns for one LIST request."""

GET_BYTES_MAX = 256 << 20
"""The largest object that is fetched whole unless a caller says otherwise; ranges have no cap."""


# ---------------------------------------------------------------------------- answers


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectInfo:
    """What a store knows of an object."""

    key: str
    size: int
    etag: str
    """Names this version of the object. Opaque; in a listing of GCS it is empty."""
    modified_ms: int
    """By the store's clock, which may tick in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Some objects of a listing."""

    objects: tuple[ObjectInfo, ...]
    more: bool
    """Whether to ask again behind the last of them. There may turn out to be nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """Bytes of an object, where they begin in it, and what it was when they were read."""

    info: ObjectInfo
    start: int
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Created:
    """This call made the object."""

    etag: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Exists:
    """There is an object with this key. It may be from an earlier call whose answer was lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaced:
    """This call replaced the object."""

    etag: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """The object is another one now, or gone."""


# ---------------------------------------------------------------------------- operations


class Operation(Generic[A]):
    """One request to a store; ``A`` is what the store answers to it."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class ListPage(Operation[Page]):
    """The objects below ``prefix`` that come behind the key ``after``.

    Every object is listed once, in the order of the bytes of its key. That is the order of S3,
    GCS, Azure, files and memory; SeaweedFS goes folder by folder (``a/x`` before ``a-b``). Within
    one folder the order is the same everywhere.
    """

    prefix: str = ""
    after: str = ""
    limit: int = LIST_LIMIT_MAX

    def __post_init__(self) -> None:
        check_prefix(self.prefix)
        if self.after:
            check_key(self.after)
        if not 1 <= self.limit <= LIST_LIMIT_MAX:
            raise InvalidInputError(f"limit {self.limit}: use 1 to {LIST_LIMIT_MAX}")


@dataclass(frozen=True, slots=True)
class Head(Operation[ObjectInfo]):
    """What is known of an object without its bytes."""

    key: str

    def __post_init__(self) -> None:
        check_key(self.key)


@dataclass(frozen=True, slots=True)
class Get(Operation[Fetched]):
    """A whole object."""

    key: str
    size_bytes_max: int = GET_BYTES_MAX

    def __post_init__(self) -> None:
        check_key(self.key)


@dataclass(frozen=True, slots=True)
class GetRange(Operation[Fetched]):
    """Bytes ``[start, end)`` of an object; the answer is shorter only where the object ends."""

    key: str
    start: int
    end: int

    def __post_init__(self) -> None:
        check_key(self.key)
        if not 0 <= self.start <= self.end:
            raise InvalidInputError(f"range [{self.start}, {self.end}): use 0 <= start <= end")


@dataclass(frozen=True, slots=True)
class GetSuffix(Operation[Fetched]):
    """The last ``length`` bytes of an object; the whole object if it is shorter."""

    key: str
    length: int

    def __post_init__(self) -> None:
        check_key(self.key)
        if self.length < 0:
            raise InvalidInputError(f"a suffix of {self.length} bytes: use 0 or more")


Body = bytes | tuple[bytes | bytearray | memoryview, ...]
"""What is stored: bytes, or pieces that stand one behind the other in the object."""


def join_body(body: Body) -> bytes:
    """Return a body in one piece."""
    return body if isinstance(body, bytes) else b"".join(body)


@dataclass(frozen=True, slots=True)
class PutIfAbsent(Operation[Created | Exists]):
    """Create an object, unless there is one with this key."""

    key: str
    body: Body = field(repr=False)
    """Pieces save a copy of what is large. They may not change any more: a store may keep them."""

    def __post_init__(self) -> None:
        check_key(self.key)

    @property
    def size(self) -> int:
        """Bytes of the object."""
        if isinstance(self.body, bytes):
            return len(self.body)
        return sum(map(len, self.body))


@dataclass(frozen=True, slots=True)
class PutIfMatch(Operation[Replaced | Changed]):
    """Replace an object, if it still is the one that ``etag`` names."""

    key: str
    body: bytes = field(repr=False)
    etag: str

    @property
    def size(self) -> int:
        """Bytes of the object."""
        return len(self.body)

    def __post_init__(self) -> None:
        check_key(self.key)
        if not self.etag:
            raise InvalidInputError(f"no etag for {self.key!r}: take it from a head, get or put")


@dataclass(frozen=True, slots=True)
class PutTogether(Operation[Replaced | Changed]):
    """Replace an object, if it still is the one that ``etag`` names, and put or remove others with
    it: all of that or nothing. No object store can do it; etcd can.
    """

    key: str
    body: bytes = field(repr=False)
    etag: str
    others: tuple[tuple[str, bytes | None], ...] = field(repr=False)
    """Keys, each once and another than ``key``; with a body, or None to remove it."""

    @property
    def size(self) -> int:
        """Bytes of all objects."""
        return len(self.body) + sum(len(body) for _, body in self.others if body is not None)

    def __post_init__(self) -> None:
        for key in (self.key, *(key for key, _ in self.others)):
            check_key(key)
        if not self.etag:
            raise InvalidInputError(f"no etag for {self.key!r}: take it from a head, get or put")


def no_transactions(where: str) -> InvalidInputError:
    """Return what a store raises that cannot put objects together."""
    return InvalidInputError(
        f"{where} cannot put several objects together: only etcd can, and memory"
    )


@dataclass(frozen=True, slots=True)
class Delete(Operation[None]):
    """Remove an object, or find that it is gone."""

    key: str

    def __post_init__(self) -> None:
        check_key(self.key)


Read = ListPage | Head | Get | GetRange | GetSuffix
Write = PutIfAbsent | PutIfMatch | PutTogether | Delete
Op = Read | Write
Flow = Generator[Op, Any, T]


@dataclass(frozen=True, slots=True)
class Many:
    """Operations in any order, or all at once.

    The answer is a tuple with an answer or an error for each: the one that fails does not keep the
    others from being known.
    """

    ops: tuple[Op, ...]


@dataclass(frozen=True, slots=True)
class Wait:
    """A pause: before trying again, for instance."""

    ms: int


WORK = Op | Many | Wait
"""Whatever work asks for."""
Work = Generator[Op | Many | Wait, Any, T]
