"""Laws of what a later version may have written: it is refused, and never rewritten without it.

Every kind of object that ``docs/reference/objects.md`` names is taken from the golden namespaces,
so a kind that is added is among them.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from lakelog.catalog import (
    claim_pipeline,
    configure_topic,
    make_namespace,
    open_namespace,
)
from lakelog.catalog.topic_cells import decode_topic
from lakelog.coordination import BucketGroups, decode_shard
from lakelog.errors import ConflictError, LakelogError, UnsupportedError
from lakelog.formats.lanes import decode_bundle, decode_checkpoint
from lakelog.journal import decode_head
from lakelog.journal.checkpoints import _point_tail
from lakelog.log import Identity, abandon_write, read_identity
from lakelog.log.staging import decode_plan
from lakelog.maintenance import SealSettings, maintain
from lakelog.manifests import (
    PartitionPath,
    change_manifest,
    changes,
    decode_manifest,
    decode_page,
)
from lakelog.model import Rules
from lakelog.names import CLUSTER_KEY, commit_of
from lakelog.store import Work
from tests.golden.namespaces.copies import Copy, expected, objects_of, versions
from tests.golden.namespaces.kinds import KINDS, kind_of

NEWEST = versions()[-1]
OBJECTS = objects_of(NEWEST)
NEW = {"a field of a later version": [1]}


def copy(objects: dict[str, bytes]) -> Copy:
    return Copy(expected(NEWEST)["now_ms"], objects)


def is_json(key: str) -> bool:
    return OBJECTS[key][:1] == b"{"


def examples(kind: str) -> list[str]:
    return [key for key in OBJECTS if kind_of(key) == kind]


JSON_KINDS = [kind for kind in KINDS if any(map(is_json, examples(kind)))]
ONLY_ITS_MAKER_WRITES_IT = {"_lakelog/brokers/{broker}"}
"""Nobody can lose what is said there, and a field more is passed over."""
ADVICE = {"_lakelog/lanes/{lane:04}/tail"}
"""It is one number, of no format: what else stands there is passed over, and it is left alone."""


def additions(fields: Any, *, is_cell: bool = True) -> Iterator[None]:
    """Add a field to each object of a cell, one after the other, in place."""
    if isinstance(fields, dict) and not is_cell and "id" not in fields:
        return  # A map: its keys are names, ids or configs.
    if isinstance(fields, dict):
        fields.update(NEW)
        yield
        for key in NEW:
            del fields[key]
    for value in fields.values() if isinstance(fields, dict) else fields:
        if isinstance(value, dict | list):
            yield from additions(value, is_cell=False)


def enlarged(key: str) -> Iterator[bytes]:
    """Yield an object as later versions may write it: with a field more, or of another format."""
    fields = json.loads(OBJECTS[key])
    for _ in additions(fields):
        yield json.dumps(fields).encode()
    if "format" in fields:
        yield json.dumps({**fields, "format": fields["format"] + 1}).encode()


# ---------------------------------------------------------------------------- reading


def read_as(key: str, body: bytes) -> object:
    """Read an object as whoever needs it does."""
    site = copy({**OBJECTS, key: body})
    parts = key.split("/")
    match kind_of(key):
        case "_lakelog/cluster.json":
            return site.do(open_namespace())
        case "_lakelog/topics/{topic}":
            return decode_topic(body, parts[2])
        case "_lakelog/lanes/{lane:04}/head":
            return decode_head(body, int(parts[2]))
        case "_lakelog/staged/{write}/identity":
            return site.do(read_identity(bytes.fromhex(parts[2])))
        case "_lakelog/staged/{write}/plan":
            return decode_plan(body, bytes.fromhex(parts[2]))
        case "_lakelog/staged/{write}/plan-{page:05}":
            return decode_plan(body, bytes.fromhex(parts[2]), int(parts[3][5:]))
        case "_lakelog/groups/{shard:02}":
            return decode_shard(body, int(parts[2]))
        case "{topic}/{partition}/manifest":
            return decode_manifest(body)
        case "{topic}/{partition}/page-{write}.json":
            return decode_page(body)
        case _:
            return site.do(rewritten(key)(site))


@pytest.mark.parametrize("kind", [*dict.fromkeys(JSON_KINDS)])
def test_an_object_with_a_field_that_is_not_known_is_refused(kind: str) -> None:
    if kind in ONLY_ITS_MAKER_WRITES_IT | ADVICE:
        return
    tried = 0
    for key in examples(kind):
        read_as(key, OBJECTS[key])
        for body in enlarged(key):
            tried += 1
            with pytest.raises(UnsupportedError):
                read_as(key, body)
    assert tried >= 2


def test_bytes_of_a_later_version_are_refused() -> None:
    for suffix, at, decode in (
        (".bundle", 4, decode_bundle),
        (".checkpoint", 4, decode_checkpoint),
    ):
        key = next(key for key in OBJECTS if key.endswith(suffix))
        body = bytearray(OBJECTS[key])
        decode(bytes(body))
        body[at + 1] += 1
        with pytest.raises(UnsupportedError):
            decode(bytes(body))


# ---------------------------------------------------------------------------- rewriting


def rewritten(key: str) -> Callable[[Copy], Work[Any]]:
    """Return what would write such a cell anew."""
    parts = key.split("/")

    def change(site: Copy) -> Work[Any]:
        match kind_of(key):
            case "_lakelog/cluster.json":
                return make_namespace(site.id(), Rules())
            case "_lakelog/topics/{topic}":
                topic = bytes.fromhex(json.loads(OBJECTS[key])["id"])
                return configure_topic(parts[2], topic, site.id(), lambda _: {"new": "config"})
            case "_lakelog/groups/{shard:02}":
                return BucketGroups(site.id()).claim(int(parts[2]))
            case "_lakelog/commits/{query}/{number:020}":
                query, number = commit_of(key) or (b"", 0)
                return abandon_write(Identity(query, number, is_stream=True), site.id())
            case "_lakelog/lanes/{lane:04}/tail":
                return _point_tail(int(parts[2]), 1 << 30)
            case "_lakelog/pipeline":
                return claim_pipeline(site.id(), 1)
            case "{topic}/{partition}/manifest":
                about = json.loads(OBJECTS[key])
                where = PartitionPath(bytes.fromhex(about["topic"]), parts[0], int(parts[1]))
                id_ = site.id().hex()
                return change_manifest(where, id_, lambda now: changes.start(now, id_, 1 << 40))
            case _:
                return maintain(site.lanes(), SealSettings(), idle=True)

    return change


CELLS = [kind for kind, (what, _) in KINDS.items() if what == "cell"]


@pytest.mark.parametrize("kind", [*CELLS, *ADVICE])
def test_a_cell_with_a_field_that_is_not_known_is_never_rewritten(kind: str) -> None:
    if kind in ONLY_ITS_MAKER_WRITES_IT:
        return
    tried = 0
    for key in examples(kind):
        for body in enlarged(key):
            tried += 1
            site = copy({**OBJECTS, key: body})
            with suppress(UnsupportedError, ConflictError):  # There is a namespace already.
                site.do(rewritten(key)(site))
            assert site.objects()[key] == body
    assert tried


def test_a_cell_that_is_known_is_rewritten_by_the_same_means() -> None:
    """The law above would hold of what changes nothing."""
    for kind in {*CELLS, *ADVICE} - ONLY_ITS_MAKER_WRITES_IT - {CLUSTER_KEY}:
        changed = 0
        for key in examples(kind):
            site = copy(OBJECTS)
            try:
                site.do(rewritten(key)(site))
            except LakelogError:
                continue
            changed += site.objects()[key] != OBJECTS[key]
        assert changed, kind
