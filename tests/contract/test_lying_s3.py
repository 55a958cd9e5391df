"""A server that lies, one lie at a time: each must end in the right verdict, and be asked once.

The table of what a conditional PUT comes to is the heart of it. A lost answer is unknown and never
"exists"; whoever asks again, with the same bytes, finds out. And the probe must refuse every store
that is wrong in a way stores have been wrong, and accept those that are right.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakelog.errors import InvalidInputError, UnavailableError
from lakelog.store import (
    PROBE_AT_START,
    PROBE_THOROUGH,
    Changed,
    Created,
    Delete,
    Exists,
    Finding,
    Get,
    GetRange,
    GetSuffix,
    Head,
    ListPage,
    Op,
    ProbeSize,
    PutIfAbsent,
    PutIfMatch,
    Replaced,
    RetryPolicy,
    Store,
    StoreSpec,
    Verdict,
    admit,
    each_object,
    expiry_finding,
    find_expiry,
    open_store,
    probe_store,
    retrying,
)
from tests.parts.lying_s3 import (
    FLIPPED,
    NOT_STORED_409,
    NOT_STORED_500,
    NOT_STORED_503,
    RESET_IN_MID_BODY,
    SLOW,
    STORED_THEN_500,
    STORED_THEN_CLOSED,
    STORED_THEN_SILENCE,
    TRUNCATED,
    Lie,
    LyingS3,
    Word,
    running_lying_s3,
)
from tests.parts.seaweedfs import SeaweedFS

BODY = bytes(range(256)) * 8192
"""Two megabytes: a reset in the middle of it meets a client that is still sending."""

LOST = [STORED_THEN_500, STORED_THEN_CLOSED, STORED_THEN_SILENCE]
REFUSED = [RESET_IN_MID_BODY, NOT_STORED_503, NOT_STORED_409, NOT_STORED_500]


@pytest.fixture
def s3() -> Iterator[LyingS3]:
    with running_lying_s3() as server:
        yield server


@pytest.fixture
def store(s3: LyingS3) -> Store:
    return open_store("s3://bucket", {**s3.options, "timeout": "1s"})


@pytest.fixture
def patient(s3: LyingS3) -> Store:
    """The same for tests that do not wait for the end of a silence."""
    return open_store("s3://bucket", s3.options)


def perform(store: Store, op: Op, on_a_loop: bool) -> Any:
    return asyncio.run(store.perform_async(op)) if on_a_loop else store.perform(op)


def lies(*some: Lie) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("lie", some, ids=lambda lie: lie.name)


both_ways = pytest.mark.parametrize("on_a_loop", [False, True], ids=["plain", "loop"])


# ---------------------------------------------------------------------------- the truth


def test_without_a_lie_it_is_a_store_like_any_other(s3: LyingS3, store: Store) -> None:
    made = store.perform(PutIfAbsent("a/1", b"0123456789"))
    assert store.perform(PutIfAbsent("a/1", b"x")) == Exists()
    assert store.perform(GetRange("a/1", 2, 5)).body == b"234"
    assert store.perform(GetRange("a/1", 7, 99)).body == b"789"
    assert store.perform(GetRange("a/1", 20, 30)).body == b""
    assert store.perform(GetSuffix("a/1", 3)).body == b"789"
    assert store.perform(Head("a/1")).etag == made.etag
    replaced = store.perform(PutIfMatch("a/1", b"new", made.etag))
    assert store.perform(PutIfMatch("a/1", b"newer", made.etag)) == Changed()
    assert store.perform(Get("a/1")).info.etag == replaced.etag
    for number in range(5):
        store.perform(PutIfAbsent(f"f/{number}", b""))
    assert [one.key for one in store.perform(ListPage("f/", "f/1", 2)).objects] == ["f/2", "f/3"]
    assert [one.key for one in each_object(store.perform, "f/")] == [f"f/{n}" for n in range(5)]
    store.perform(Delete("a/1"))
    assert s3.holds("a/1") is None


# ---------------------------------------------------------------------------- conditional writes


@both_ways
@lies(*LOST, *REFUSED)
def test_a_create_without_a_clear_answer_is_unknown_and_is_sent_once(
    s3: LyingS3, store: Store, lie: Lie, on_a_loop: bool
) -> None:
    # A connection that is kept from before is closed in other places of the client than a new one.
    store.perform(PutIfAbsent("before", b""))
    s3.lie(lie, "PUT", "k")
    with pytest.raises(UnavailableError, match="outcome unknown"):
        perform(store, PutIfAbsent("k", BODY), on_a_loop)
    (sent,) = s3.requests("PUT", "k")
    assert (sent.condition, sent.told) == ("*", lie.name)
    assert s3.holds("k") == (BODY if lie in LOST else None)


@lies(*LOST)
def test_an_answer_that_was_lost_is_found_by_reading_the_key(
    s3: LyingS3, store: Store, lie: Lie
) -> None:
    s3.lie(lie, "PUT", "k")
    with pytest.raises(UnavailableError):
        store.perform(PutIfAbsent("k", b"mine"))
    assert store.perform(PutIfAbsent("k", b"mine")) == Exists()
    assert store.perform(Get("k")).body == b"mine"
    assert len(s3.requests("PUT", "k")) == 2


@lies(*REFUSED)
def test_a_write_that_was_not_stored_is_created_when_it_is_sent_again(
    s3: LyingS3, store: Store, lie: Lie
) -> None:
    s3.lie(lie, "PUT", "k")
    with pytest.raises(UnavailableError):
        store.perform(PutIfAbsent("k", BODY))
    assert isinstance(store.perform(PutIfAbsent("k", BODY)), Created)


@lies(*LOST, *REFUSED)
def test_a_replacement_without_a_clear_answer_is_unknown_and_is_sent_once(
    s3: LyingS3, store: Store, lie: Lie
) -> None:
    etag = store.perform(PutIfAbsent("k", b"old")).etag
    s3.lie(lie, "PUT", "k")
    with pytest.raises(UnavailableError, match="outcome unknown"):
        store.perform(PutIfMatch("k", BODY, etag))
    sent = s3.requests("PUT", "k")[1:]
    assert [(one.condition, one.told) for one in sent] == [(etag, lie.name)]
    again = store.perform(PutIfMatch("k", BODY, etag))
    if lie in LOST:
        assert again == Changed()
    else:
        assert isinstance(again, Replaced)
    assert s3.holds("k") == BODY


def test_the_retries_of_reads_do_not_repeat_a_write(s3: LyingS3, store: Store) -> None:
    repeating = retrying(store.perform, RetryPolicy(attempts_max=3, delay_ms_base=0))
    s3.lie(STORED_THEN_500, "PUT", "k")
    with pytest.raises(UnavailableError):
        repeating(PutIfAbsent("k", b"mine"))
    assert len(s3.requests("PUT", "k")) == 1


def test_a_slow_answer_is_an_answer(s3: LyingS3, store: Store) -> None:
    s3.lie(SLOW, "PUT", "k")
    assert isinstance(store.perform(PutIfAbsent("k", b"x")), Created)
    s3.lie(SLOW, "PUT", "k")
    assert store.perform(PutIfAbsent("k", b"y")) == Exists()
    s3.lie(SLOW, "GET", "k")
    assert store.perform(Get("k")).body == b"x"


def test_a_delete_that_was_done_without_an_answer_is_unknown(s3: LyingS3, store: Store) -> None:
    store.perform(PutIfAbsent("k", b"x"))
    s3.lie(STORED_THEN_CLOSED, "POST", "k")
    with pytest.raises(UnavailableError, match="outcome unknown"):
        store.perform(Delete("k"))
    assert len(s3.requests("POST", "k")) == 1
    assert s3.holds("k") is None


# ---------------------------------------------------------------------------- reads


@both_ways
@lies(TRUNCATED, STORED_THEN_SILENCE, STORED_THEN_CLOSED, NOT_STORED_503)
@pytest.mark.parametrize("op", [Get("k"), GetRange("k", 5, 1000), GetSuffix("k", 1000)])
def test_a_read_that_is_cut_short_is_no_answer(
    s3: LyingS3, store: Store, op: Op, lie: Lie, on_a_loop: bool
) -> None:
    store.perform(PutIfAbsent("k", BODY))
    s3.lie(lie, "GET", "k")
    with pytest.raises(UnavailableError):
        perform(store, op, on_a_loop)
    assert len(s3.requests("GET", "k")) == 1
    assert perform(store, op, on_a_loop).body in BODY


def test_a_flipped_bit_comes_through_and_is_for_checksums_to_find(
    s3: LyingS3, store: Store
) -> None:
    """The store cannot know. This is why every format has its own CRC."""
    store.perform(PutIfAbsent("k", BODY))
    s3.lie(FLIPPED, "GET", "k")
    read = store.perform(Get("k")).body
    differing = [a ^ b for a, b in zip(read, BODY, strict=True) if a != b]
    assert differing == [1]
    assert store.perform(Get("k")).body == BODY


# ---------------------------------------------------------------------------- the probe


def verdicts(findings: tuple[Finding, ...]) -> dict[str, Verdict]:
    return {one.check: one.verdict for one in findings}


ALL_GOOD = dict.fromkeys(["create", "replace", "taken", "stale", "read", "delete"], Verdict.GOOD)


@pytest.mark.parametrize(
    ("word", "broken"),
    [
        (Word.IGNORES_IF_NONE_MATCH, {"create", "taken"}),
        (Word.IGNORES_IF_MATCH, {"replace", "stale"}),
        (Word.LOOKS_THEN_WRITES, {"create", "replace"}),
    ],
    ids=lambda one: one.name if isinstance(one, Word) else "",
)
def test_a_store_that_does_not_keep_its_word_is_refused(word: Word, broken: set[str]) -> None:
    with running_lying_s3(word) as wrong:
        store = open_store("s3://bucket/folder", wrong.options)
        findings = probe_store(store, "logs/")
        assert {one.check for one in findings if not one.is_fine} == broken
        with pytest.raises(InvalidInputError, match=r"upgrade the store.* or use another"):
            admit(store.url, findings)
        assert store.perform(ListPage()).objects == ()


def test_a_store_that_is_right_is_accepted(patient: Store) -> None:
    findings = probe_store(patient, "logs/")
    admit(patient.url, findings)
    assert verdicts(findings) == ALL_GOOD
    assert patient.perform(ListPage()).objects == ()


def test_the_thorough_probe_accepts_it_as_well(patient: Store) -> None:
    size = ProbeSize(writers=PROBE_THOROUGH.writers, keys=3)
    assert verdicts(probe_store(patient, "", size)) == ALL_GOOD


def test_a_store_that_is_away_is_not_called_wrong(s3: LyingS3, store: Store) -> None:
    s3.shutdown()
    s3.server_close()
    findings = probe_store(store, "")
    assert Verdict.BAD not in verdicts(findings).values()
    with pytest.raises(UnavailableError, match="probe again"):
        admit(store.url, findings)


@pytest.fixture(
    params=["memory", "local", pytest.param("seaweedfs", marks=pytest.mark.seaweedfs)],
)
def sound(request: pytest.FixtureRequest, tmp_path: Path) -> StoreSpec:
    if request.param == "memory":
        return StoreSpec("memory:")
    if request.param == "local":
        return StoreSpec(f"file://{tmp_path}/root")
    seaweedfs: SeaweedFS = request.getfixturevalue("seaweedfs")
    return StoreSpec(f"s3://{seaweedfs.bucket('probe')}/sound", seaweedfs.options)


def test_sound_stores_are_accepted_and_left_empty(sound: StoreSpec) -> None:
    store = sound.open()
    findings = probe_store(store, "logs/", PROBE_AT_START)
    assert verdicts(findings) == ALL_GOOD
    expiry = expiry_finding(find_expiry(sound, "logs/"))
    assert expiry.verdict is Verdict.GOOD
    admit(store.url, [*findings, expiry])
    assert list(each_object(store.perform)) == []


# ---------------------------------------------------------------------------- expiry

RULE = (
    b"<LifecycleConfiguration><Rule><ID>old</ID><Status>Enabled</Status>"
    b"<Filter><Prefix>folder/logs/</Prefix></Filter>"
    b"<Expiration><Days>3</Days></Expiration></Rule></LifecycleConfiguration>"
)


def expiry(url: str, options: dict[str, str], prefix: str) -> Finding:
    return expiry_finding(find_expiry(StoreSpec(url, options), prefix))


def test_a_rule_that_deletes_our_objects_is_a_reason_to_refuse(s3: LyingS3) -> None:
    url = "s3://bucket/folder"
    assert expiry(url, s3.options, "logs/").verdict is Verdict.GOOD
    s3.lifecycle = RULE
    found = expiry(url, s3.options, "logs/")
    with pytest.raises(InvalidInputError, match="with 'folder/logs/': take the rule"):
        admit(url, [found])
    assert expiry(url, s3.options, "other/").verdict is Verdict.GOOD
    assert expiry("s3://bucket", s3.options, "").verdict is Verdict.BAD


@lies(NOT_STORED_503, NOT_STORED_409, STORED_THEN_CLOSED, STORED_THEN_SILENCE, TRUNCATED)
def test_rules_that_cannot_be_read_are_not_known_and_no_error(s3: LyingS3, lie: Lie) -> None:
    s3.lifecycle = RULE
    s3.lie(lie, "GET", "")
    found = find_expiry(StoreSpec("s3://bucket", s3.options), "", timeout_s=0.5)
    assert found.rules is None
    assert found.said
    admit("s3://bucket", [expiry_finding(found)])


@pytest.mark.seaweedfs
def test_seaweedfs_takes_our_signature_and_tells_its_rules(seaweedfs: SeaweedFS) -> None:
    bucket = seaweedfs.bucket("expiring")
    url = f"s3://{bucket}/folder"
    assert expiry(url, seaweedfs.options, "logs/").seen == "no rules"
    assert seaweedfs.request("PUT", f"/{bucket}?lifecycle", RULE).status == 200
    assert expiry(url, seaweedfs.options, "logs/").verdict is Verdict.BAD
    wrong = {**seaweedfs.options, "secret_access_key": "wrong"}
    found = expiry(url, wrong, "logs/")
    assert (found.verdict, found.seen) == (
        Verdict.UNCHECKED,
        "the store answers 403 to ?lifecycle",
    )
