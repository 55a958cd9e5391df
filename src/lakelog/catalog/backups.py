"""A backup: all consumer groups of a namespace in one file.

    {"format":1,"backup":"lakelog groups","namespace":"…","storage":"s3://…","at_ms":…,
     "shards":8,"groups":2}
    {"id":"billing",…,"offsets":{…}}           a group on a line of its own, as in a shard
    {"id":"shipping",…,"offsets":{…}}

The first line, which is one line, says how many follow: a file that was cut is told from a whole
one. It depends on no number of shards, and on no place.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from lakelog.catalog.namespace import Namespace
from lakelog.coordination import decode_group
from lakelog.errors import CorruptError
from lakelog.formats import decode_fields, decoding, number

__all__ = ["Backup", "decode_backup", "encode_backup"]

FORMAT = 1
_WHAT = "lakelog groups"
_FIELDS = ("backup", "namespace", "storage", "at_ms", "shards", "groups")


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """The groups of a namespace as they were."""

    namespace: bytes
    storage: str
    at_ms: int
    shards: int
    name: str
    """Another one for every other backup."""
    groups: Mapping[str, bytes] = field(repr=False)


def encode_backup(
    namespace: Namespace, storage: str, at_ms: int, shards: int, groups: Mapping[str, bytes]
) -> bytes:
    """Return a backup as it is stored."""
    head = {"format": FORMAT, "backup": _WHAT, "namespace": namespace.id.hex()}
    more = {"storage": storage, "at_ms": at_ms, "shards": shards, "groups": len(groups)}
    lines = (body for _, body in sorted(groups.items()))
    return b"\n".join((json.dumps({**head, **more}).encode(), *lines, b""))


def decode_backup(data: bytes, where: str) -> Backup:
    """Return what a file holds.

    Raises:
        CorruptError: it is no backup, or a part of one.
        UnsupportedError: a later version made it.
    """
    first, *lines = data.removesuffix(b"\n").split(b"\n")
    with decoding("backup", where):
        fields = decode_fields(first, format_=FORMAT, where=where, known=_FIELDS)
        if fields["backup"] != _WHAT:
            raise ValueError("it is no backup of groups")
        groups = {decode_group(line, where).id: line for line in lines}
        backup = Backup(
            namespace=bytes.fromhex(fields["namespace"]),
            storage=str(fields["storage"]),
            at_ms=number(fields["at_ms"]),
            shards=number(fields["shards"]),
            name=f"backup {hashlib.sha256(data).hexdigest()[:32]}",
            groups=groups,
        )
    if not len(groups) == len(lines) == number(fields["groups"]):
        what = f"it says that it has {fields['groups']} groups, and has {len(groups)}"
        raise CorruptError(what, at=0, where=where)
    return backup
