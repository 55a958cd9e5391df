"""Which keys there are: the ones that mean the same in every store.

    key    => segment ("/" segment)*        at most 1,024 bytes of UTF-8
    prefix => "" | (segment "/")+           always whole segments

An object store takes almost any string as a key, a file system does not, and S3 look-alikes that
stand on a file system differ in silence: SeaweedFS turns a backslash into a slash. So a key is a
relative path of plain segments, which no store changes. It never ends in a slash, has no empty
segment, no ``.`` and no ``..``, and no character that a terminal or a path would act upon.
"""

import re

from lakelog.errors import InvalidInputError
from lakelog.names import STAGING

__all__ = ["KEY_BYTES_MAX", "SEGMENT_BYTES_MAX", "check_key", "check_prefix", "is_name"]

KEY_BYTES_MAX = 1024
"""What S3 allows."""

SEGMENT_BYTES_MAX = 255
"""What a Linux file system allows for a name."""

# Control characters, the slash, the backslash and lone surrogates are in no segment.
_NAME = re.compile(r"[^\x00-\x1f\x7f/\\\ud800-\udfff]+")

# What our own keys look like. They are most of all keys, and need no second look.
_PLAIN = re.compile(r"(?:[A-Za-z0-9_~][A-Za-z0-9._~-]{0,200}/)*[A-Za-z0-9_~][A-Za-z0-9._~-]{0,200}")


def is_name(segment: str) -> bool:
    """Say whether ``segment`` can stand between two slashes of a key."""
    if segment in (".", "..") or not _NAME.fullmatch(segment):
        return False
    return len(segment.encode()) <= SEGMENT_BYTES_MAX


def check_key(key: str) -> None:
    """Do nothing if ``key`` is one.

    Raises:
        InvalidInputError: it is not, and the message says why.
    """
    if len(key) <= KEY_BYTES_MAX and _PLAIN.fullmatch(key):
        return
    segments = key.split("/")
    for segment in segments:
        if not is_name(segment):
            raise InvalidInputError(
                f"the key {key!r} has the segment {segment!r}: use segments of 1 to "
                f"{SEGMENT_BYTES_MAX} bytes, without control characters and backslashes, "
                "that are not '.' or '..'"
            )
    if len(key.encode()) > KEY_BYTES_MAX:
        raise InvalidInputError(f"the key {key!r} is longer than {KEY_BYTES_MAX} bytes: shorten it")
    if segments[0] == STAGING:
        raise InvalidInputError(f"the key {key!r} is in {STAGING}/, which is not for objects")


def check_prefix(prefix: str) -> None:
    """Do nothing if ``prefix`` is one.

    Raises:
        InvalidInputError: it is neither empty nor a folder.
    """
    if not prefix:
        return
    if not prefix.endswith("/"):
        # object_store lists by whole segments, so half a name would find nothing there.
        raise InvalidInputError(f"the prefix {prefix!r} does not end in '/': add it")
    check_key(prefix[:-1])
