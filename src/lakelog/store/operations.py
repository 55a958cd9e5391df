"""What can be asked of an object store, as values, and the flows that ask for it.

    operation                          answer
    ListPage(prefix, after, limit)     Page       up to ``limit`` objects
    Head(key)                          ObjectInfo
    Get(key)                           Fetched    the whole object
    GetRange(key, start, end)          Fetched    [start, end), less where the object ends
    GetSuffix(key, length)             Fetched    the last bytes, all if there are fewer
    PutIfAbsent(key, body)             Created | Exists
    PutIfMatch(key, body, etag)        Replaced | Changed
    Delete(key)                        None, also when nothing was there

A flow yields operations and is sent answers; whoever runs it decides what performs them. An
operation knows the type of its answer, and ``ask`` returns one of that type, where a bare ``yield``
would return ``Any``: ``fetched = yield from ask(GetRange(key, 0, 32))``.

Work is a flow that may also wait (``Wait``), and ask for several things at once (``Many``).

Three errors are raised into a flow. NotFoundError: there is no such object. UnavailableError: there
is no answer, and *nothing is known*; a write that ends so may have been stored. A lost answer, a
timeout, a 5xx and a 409 are all of this kind. InvalidInputError: the store has refused the request,
for its size if it is a TooLargeError; *this* request has stored nothing, and the same one would be
refused again. ``Exists`` and ``Changed`` are never guesses: the store has said so.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from lakelog.errors import InvalidInputError, LakelogError, NotFoundError
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
    "Read",
    "Replaced",
    "Wait",
    "Work",
    "Write",
    "ask",
    "ask_all",
    "ask_many",
    "delete",
    "delete_many",
    "fetch_many",
    "get",
    "get_range",
    "head",
    "is_there",
    "join_body",
    "list_objects",
    "put_if_absent",
    "put_if_match",
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
class Delete(Operation[None]):
    """Remove an object, or find that it is gone."""

    key: str

    def __post_init__(self) -> None:
        check_key(self.key)


Read = ListPage | Head | Get | GetRange | GetSuffix
Write = PutIfAbsent | PutIfMatch | Delete
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


# ---------------------------------------------------------------------------- flows


def ask(operation: Operation[A]) -> Flow[A]:
    """Return the store's answer to an operation.

    Raises:
        NotFoundError: it is about an object that is not there.
        UnavailableError: no answer; what it should write may be stored.
        UnsupportedError: the object is larger than the operation allows; read it by ranges.
    """
    answer: A = yield operation  # type: ignore[misc]  # Every operation is one of ``Op``.
    return answer


def ask_all(operations: Sequence[Operation[A]]) -> Work[tuple[A | LakelogError, ...]]:
    """Return the answer to each of some operations, or its error; all of them are asked at once."""
    answers: tuple[A | LakelogError, ...] = yield Many(tuple(operations))  # type: ignore[arg-type]
    return answers


def ask_many(operations: Sequence[Operation[A]]) -> Work[list[A | NotFoundError]]:
    """Return the answers to operations, NotFoundError where there is no object; some at once.

    Raises:
        LakelogError: the first of the other errors. Operations behind it may not have been asked.
    """
    found: list[A | NotFoundError] = []
    for at in range(0, len(operations), AT_ONCE):
        for answer in (yield from ask_all(operations[at : at + AT_ONCE])):
            if isinstance(answer, LakelogError) and not isinstance(answer, NotFoundError):
                raise answer
            found.append(answer)
    return found


def fetch_many(operations: Sequence[Get | GetRange | GetSuffix]) -> Work[list[Fetched | None]]:
    """Return what each of some reads found, None where there is no object: see ``ask_many``."""
    answers = yield from ask_many(operations)
    return [None if isinstance(answer, NotFoundError) else answer for answer in answers]


def list_objects(prefix: str) -> Flow[list[ObjectInfo]]:
    """Return every object below ``prefix``."""
    objects: list[ObjectInfo] = []
    after, more = "", True
    while more:
        page = yield from ask(ListPage(prefix, after))
        objects += page.objects
        more = page.more and bool(page.objects)
        after = page.objects[-1].key if page.objects else after
    return objects


def head(key: str) -> Flow[ObjectInfo]:
    """Return what is known of an object; NotFoundError: there is none."""
    return ask(Head(key))


def is_there(key: str) -> Flow[bool]:
    """Say whether there is an object."""
    try:
        yield from head(key)
    except NotFoundError:
        return False
    return True


def get(key: str) -> Flow[bytes]:
    """Return the bytes of an object, which has at most ``GET_BYTES_MAX``; NotFoundError: none."""
    return (yield from ask(Get(key))).body


def get_range(key: str, start: int, end: int) -> Flow[bytes]:
    """Return ``[start, end)`` of an object, less where it ends."""
    return (yield from ask(GetRange(key, start, end))).body


def put_if_absent(key: str, body: Body) -> Flow[Created | Exists]:
    """Create an object unless there is one.

    Raises:
        UnavailableError: no answer; it may be stored. Put the same bytes again.
    """
    return ask(PutIfAbsent(key, body))


def put_if_match(key: str, body: bytes, etag: str) -> Flow[Replaced | Changed]:
    """Replace an object if it still is the one that ``etag`` names.

    Raises:
        UnavailableError: no answer; it may be replaced. Read it to find out.
    """
    return ask(PutIfMatch(key, body, etag))


def delete(key: str) -> Flow[None]:
    """Remove an object, or find that it is gone."""
    return ask(Delete(key))


def delete_many(keys: Sequence[str]) -> Work[None]:
    """Remove objects, or find that they are gone; some at once, in any order.

    Raises:
        LakelogError: the first of the errors. Others are gone, or not.
    """
    yield from ask_many([Delete(key) for key in keys])
