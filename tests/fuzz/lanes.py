"""Bundles and checkpoints.

The first byte of an input says in its lowest bit whether checksums are made right, and in the
others, for a directory, how many bytes of the object stand before those that are here.
"""

from collections.abc import Callable

from lakelog.errors import CorruptError, UnsupportedError
from lakelog.formats.lanes import (
    bundle_directory_start,
    decode_bundle,
    decode_checkpoint,
    decode_directory,
    encode_bundle,
    encode_checkpoint,
)
from lakelog.formats.lanes.bundle import encode_directory
from tests.fuzz.reseal import reseal_lane
from tests.fuzz.targets import Target

__all__ = ["MISSING_MAX", "TARGETS"]

MISSING_MAX = 127


def _bundle(_: int, data: bytes) -> None:
    bundle, payload = decode_bundle(data)
    assert encode_bundle(bundle, [payload]) == data
    assert decode_directory(data, len(data)) == bundle


def _directory(missing: int, data: bytes) -> None:
    size = missing + len(data)
    bundle = decode_directory(data, size)
    start = bundle_directory_start(data, size)
    assert 8 <= start <= size - 24
    assert encode_directory(bundle) == data[start - missing : -24]
    # Its slices tile the payload, so that all but the bytes is known.
    stored = sum(row.length for row in bundle.slices if row.write < 0)
    assert 8 + stored == start
    again = encode_bundle(bundle, [bytes(stored)])
    assert again[start:-24] == data[start - missing : -24]


def _checkpoint(_: int, data: bytes) -> None:
    assert encode_checkpoint(decode_checkpoint(data)) == data


def _target(check: Callable[[int, bytes], None], data: bytes) -> bool:
    told, data = data[0] if data else 0, data[1:]
    missing = told >> 1 if check is _directory else 0
    try:
        check(missing, reseal_lane(data, missing + len(data)) if told & 1 else data)
    except (CorruptError, UnsupportedError):
        return False
    return True


def _make(check: Callable[[int, bytes], None]) -> Target:
    return lambda data: _target(check, data)


TARGETS: dict[str, Target] = {
    "lane-bundle": _make(_bundle),
    "lane-directory": _make(_directory),
    "lane-checkpoint": _make(_checkpoint),
}
