"""Nothing is left out of the golden namespaces: every kind of object, and every field of each."""

import inspect
import json
from collections import defaultdict
from typing import Any

from lakelog import names
from lakelog.formats.lanes import EventKind, decode_bundle, decode_checkpoint
from lakelog.groups import Kind
from lakelog.manifests import decode_manifest
from lakelog.model import TimestampType
from lakelog.records import Codec, decode_header
from tests.golden.namespaces.copies import objects_of, versions
from tests.golden.namespaces.kinds import KINDS, kind_of

OBJECTS = [(key, body) for version in versions() for key, body in objects_of(version).items()]

NEVER_WRITTEN = {EventKind.WRITE_ABORTED}
"""The format has it, and nobody writes it."""


UNRELEASED = {"beat_key", "member_key", "claim_key", "group_key", "mirror_key"}
"""What no release has written yet: the next one's namespace is to have it."""


def of_kind(end: str) -> list[tuple[str, bytes]]:
    return [(key, body) for key, body in OBJECTS if key.endswith(end)]


def test_every_kind_of_object_is_in_a_golden_namespace() -> None:
    assert len(KINDS) > 15
    assert {kind_of(key) for key, _ in OBJECTS} == set(KINDS)


def test_every_key_that_the_code_can_make_is_of_a_kind_that_is_named() -> None:
    given: dict[str, Any] = {
        "topic": "t", "path": "t~1", "partition": 0, "lane": 1, "seq": 2, "part": 3, "page": 1,
        "shard": 4, "number": 5, "write": bytes(16), "query": bytes(16), "broker": bytes(16),
        "id_": bytes(16), "node": 6, "group_id": "g", "move": 0,
    }  # fmt: skip
    makers = [name for name in names.__all__ if name.endswith("_key")]
    assert len(makers) > 8
    for name in makers:
        maker = getattr(names, name)
        wanted = inspect.signature(maker).parameters
        is_named = kind_of(maker(**{one: given[one] for one in wanted})) is not None
        assert is_named != (name in UNRELEASED), name


def test_every_field_of_every_cell_says_something_somewhere() -> None:
    """A field that is always empty would be tested by nobody."""
    said: dict[str, dict[str, bool]] = defaultdict(lambda: defaultdict(bool))

    def note(where: str, fields: dict[str, Any]) -> None:
        for name, value in fields.items():
            said[where][name] |= value not in (None, "", 0, -1, False, [], {})

    for key, body in OBJECTS:
        if body[:1] == b"{":
            fields = json.loads(body)
            note(str(kind_of(key)), fields)
            for group in fields.get("groups", ()):
                note(f"group {group.get('kind', 'classic')}", group)
    silent = {(where, name) for where, one in said.items() for name in one if not one[name]}
    assert len(said) > 10
    assert silent == {
        ("group consumer", "since_ms"),  # Since when it is empty, and it is not.
    }


def test_every_codec_is_in_the_journal_and_in_history() -> None:
    sealed: set[Codec] = set()
    for _, body in of_kind("/manifest"):
        for row in decode_manifest(body).segments:
            sealed |= {codec for codec in Codec if row.codecs & 1 << codec}
    assert sealed == set(Codec)
    unsealed = {
        Codec(batch.attributes & 7)
        for _, body in of_kind(".bundle")
        for batch in decode_bundle(body)[0].batches
    }
    assert unsealed == set(Codec)


def test_records_have_times_of_both_types() -> None:
    found = {
        TimestampType(batch.attributes >> 3 & 1)
        for _, body in of_kind(".bundle")
        for batch in decode_bundle(body)[0].batches
    }
    assert found == set(TimestampType)


def test_every_event_of_a_lane_and_every_table_of_a_checkpoint_is_there() -> None:
    bundles = [decode_bundle(body)[0] for _, body in of_kind(".bundle")]
    events = {EventKind(event.kind) for one in bundles for event in one.events}
    assert events == set(EventKind) - NEVER_WRITTEN
    assert any(one.bulk for one in bundles)
    assert any(len(one.slices) > 1 for one in bundles)
    checkpoints = [decode_checkpoint(body) for _, body in of_kind(".checkpoint")]
    for table in ("ends", "producers", "writes", "marks", "slice_index"):
        assert any(getattr(one, table) for one in checkpoints), table


def test_groups_of_every_kind_have_members_and_offsets() -> None:
    kinds = set()
    for key, body in OBJECTS:
        if kind_of(key) == "_lakelog/groups/{shard:02}":
            for group in json.loads(body)["groups"]:
                if group["members"] and group["offsets"]:
                    kinds.add(Kind(group.get("kind", "classic")))
    assert kinds == set(Kind)


def test_segments_were_sealed_merged_and_compacted() -> None:
    manifests = [(key, decode_manifest(body)) for key, body in of_kind("/manifest")]
    generations = {row.generation > 0 for _, one in manifests for row in one.segments}
    assert generations == {True, False}
    assert any(one.cleaned_end for _, one in manifests)
    assert any(one.pages for _, one in manifests)
    assert any(row.since_ms for _, one in manifests for row in one.dropped)
    assert any(one.deleted for _, one in manifests)
    assert any(0 < one.log_start < one.sealed_end for _, one in manifests)


def test_a_batch_of_a_golden_segment_decodes() -> None:
    key, body = next(iter(of_kind(".kfs")))
    assert decode_header(body, 32).count > 0, key
