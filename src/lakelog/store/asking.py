"""The flows that ask a store for something, one for each operation.

An operation knows the type of its answer, and ``ask`` returns one of that type, where a bare
``yield`` would return ``Any``: ``fetched = yield from ask(GetRange(key, 0, 32))``.
"""

from collections.abc import Sequence
from typing import TypeVar

from lakelog.errors import LakelogError, NotFoundError
from lakelog.store.operations import (
    AT_ONCE,
    Body,
    Changed,
    Created,
    Delete,
    Exists,
    Fetched,
    Flow,
    Get,
    GetRange,
    GetSuffix,
    Head,
    ListPage,
    Many,
    ObjectInfo,
    Operation,
    PutIfAbsent,
    PutIfMatch,
    PutTogether,
    Replaced,
    Work,
)

__all__ = [
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
    "list_objects",
    "put_if_absent",
    "put_if_match",
    "put_together",
]

A = TypeVar("A")


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


def put_together(
    key: str, body: bytes, etag: str, others: Sequence[tuple[str, bytes | None]]
) -> Flow[Replaced | Changed]:
    """Replace an object if it still is the one that ``etag`` names, and others with it; None
    removes one.

    Raises:
        UnavailableError: no answer; all of it may be stored. Read the first to find out.
        InvalidInputError: the store cannot, or not so many at once; nothing was stored.
    """
    return ask(PutTogether(key, body, etag, tuple(others)))


def delete(key: str) -> Flow[None]:
    """Remove an object, or find that it is gone."""
    return ask(Delete(key))


def delete_many(keys: Sequence[str]) -> Work[None]:
    """Remove objects, or find that they are gone; some at once, in any order.

    Raises:
        LakelogError: the first of the errors. Others are gone, or not.
    """
    yield from ask_many([Delete(key) for key in keys])
