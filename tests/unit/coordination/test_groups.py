"""Groups in the bucket: one owner, no lost state, and no guess about what was stored."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from lakelog.coordination import (
    SHARD_BYTES_MAX,
    BucketGroups,
    KeyedGroups,
    decode_group,
    decode_shard,
    encode_group,
    shard_of,
)
from lakelog.errors import (
    CorruptError,
    FencedError,
    InvalidInputError,
    UnavailableError,
    UnsupportedError,
)
from lakelog.groups import (
    AnyDurable,
    Committed,
    ConsumerDurable,
    ConsumerMember,
    ConsumerRoster,
    Durable,
    Offsets,
    Roster,
    RosterMember,
    TopicIdPartition,
    TopicShape,
)
from lakelog.names import claim_key, group_shard_key
from lakelog.store import (
    Delete,
    Get,
    MemoryStore,
    Op,
    PutIfMatch,
    PutTogether,
    Store,
    Work,
    run,
    working,
)

A, B = b"a" * 16, b"b" * 16
TOPIC = b"0123456789abcdef"


def group(name: str, *, generation: int = 3) -> Durable:
    member = RosterMember(
        id="m-1",
        instance_id=None,
        client_id="ä\ud800",
        client_host="/h",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        metadata=bytes(range(256)),
        assignment=b"",
    )
    roster = Roster(
        generation=generation,
        protocol_type="consumer",
        protocol="range",
        leader="m-1",
        since_ms=17,
        is_decided=True,
        members=(member,),
    )
    rows = {
        TopicIdPartition(TOPIC, 7): Committed(1 << 62, -1, 'say "x"', 5),
        TopicIdPartition(TOPIC, 0): Committed(0, 3, "", 6),
    }
    return Durable(id=name, roster=roster, offsets=Offsets.of(rows))


def name_in(shard: int, shards: int = 8) -> str:
    return next(name for name in map(str, range(999)) if shard_of(name, shards) == shard)


Maker = type[BucketGroups] | type[KeyedGroups]

CLAIMS: dict[Maker, str] = {BucketGroups: group_shard_key(0), KeyedGroups: claim_key(0)}
"""What says who has shard 0."""


@pytest.fixture(params=CLAIMS)
def groups(request: pytest.FixtureRequest) -> Maker:
    """Both ways to keep groups: what is said of owners is so of both."""
    made: Maker = request.param
    return made


class Site:
    """A store whose puts can be lost on the way there or back."""

    open_store: Callable[[], Store] = MemoryStore

    def __init__(self) -> None:
        self.store = type(self).open_store()
        self.faults: list[Callable[[Op], Any]] = []
        self.puts: list[PutIfMatch | PutTogether] = []

    def perform(self, op: Op) -> Any:
        if isinstance(op, PutIfMatch | PutTogether):
            self.puts.append(op)
            if self.faults:
                return self.faults.pop(0)(op)
        return self.store.perform(op)

    def run(self, flow: Work[Any]) -> Any:
        return run(flow, working(self.perform, sleep=lambda _: None))

    def lose_request(self, _: Op) -> Any:
        raise UnavailableError("the request was lost")

    def lose_answer(self, op: Op) -> Any:
        self.store.perform(op)
        raise UnavailableError("the answer was lost")

    def body(self, shard: int = 0) -> bytes:
        body: bytes = self.store.perform(Get(group_shard_key(shard))).body
        return body

    def write(self, body: bytes, shard: int = 0) -> None:
        found = self.store.perform(Get(group_shard_key(shard)))
        self.store.perform(PutIfMatch(group_shard_key(shard), body, found.info.etag))


# ---------------------------------------------------------------------------- owners


def test_what_one_saved_the_next_owner_finds(groups: Maker) -> None:
    drive, first, second = Site().run, groups(A), groups(B)
    name, other = name_in(0), "x" + name_in(0)
    held = drive(first.claim(0))
    assert (held.shards, held.claim.epoch, dict(held.groups)) == (8, 1, {})
    held = drive(
        first.save(held, {name: encode_group(group(name)), other: encode_group(group(other))})
    )
    held = drive(first.save(held, {other: None}))
    taken = drive(second.claim(0))
    assert taken.claim.epoch == 2
    assert {key: decode_group(one) for key, one in taken.groups.items()} == {name: group(name)}


def test_whoever_lost_the_claim_writes_nothing_more(groups: Maker) -> None:
    drive, first, second = Site().run, groups(A), groups(B)
    name = name_in(0)
    old = drive(first.claim(0))
    new = drive(second.claim(0))
    with pytest.raises(FencedError):
        drive(first.save(old, {name: encode_group(group(name, generation=1))}))
    with pytest.raises(FencedError):
        drive(first.look(old))
    drive(second.look(new))
    drive(second.save(new, {name: encode_group(group(name, generation=2))}))
    with pytest.raises(FencedError):
        drive(first.save(old, {name: None}))
    found = drive(first.claim(0))
    assert decode_group(found.groups[name]) == group(name, generation=2)
    assert found.claim.epoch == 3


def test_the_number_of_shards_is_fixed_by_the_first(groups: Maker) -> None:
    site = Site()
    site.run(groups(A, shards=3).claim(0))
    assert site.run(groups(B, shards=8).claim(0)).shards == 3
    assert site.run(groups(B, shards=8).claim(2, 3)).shards == 3
    with pytest.raises(CorruptError, match="one of 3 shards"):
        site.run(groups(B).claim(2, 5))


def test_to_claim_again_is_no_new_epoch(groups: Maker) -> None:
    site = Site()
    assert site.run(groups(A).claim(0)).claim.epoch == 1
    assert site.run(groups(A).claim(0)).claim.epoch == 1


@pytest.mark.parametrize(("broker", "shards"), [(b"short", 8), (A, 0), (A, 101)])
def test_an_owner_without_a_name_is_refused(groups: Maker, broker: bytes, shards: int) -> None:
    with pytest.raises(InvalidInputError):
        groups(broker, shards)


# ---------------------------------------------------------------------------- answers that are lost


def test_a_save_is_one_request(groups: Maker) -> None:
    site = Site()
    held = site.run(groups(A).claim(0))
    before = len(site.puts)
    flow = groups(A).save(held, {})
    assert isinstance(next(flow), PutIfMatch | PutTogether)
    site.run(groups(A).save(held, {}))
    assert len(site.puts) == before + 1


@pytest.mark.parametrize("fault", ["lose_request", "lose_answer"])
def test_a_save_without_an_answer_is_made_again_and_counts_once(groups: Maker, fault: str) -> None:
    site, mine = Site(), groups(A)
    name = name_in(0)
    held = site.run(mine.claim(0))
    changed: Mapping[str, bytes | None] = {name: encode_group(group(name))}
    site.faults = [getattr(site, fault), getattr(site, fault)]
    for _ in range(2):
        with pytest.raises(UnavailableError):
            site.run(mine.save(held, changed))
    after = site.run(mine.save(held, changed))
    assert after.writes == 1
    assert len({put.body for put in site.puts}) == 1
    assert site.run(mine.save(after, {name: None})).writes == 2  # Its etag is the right one.


def test_a_save_that_was_stored_and_then_taken_over_is_fenced(groups: Maker) -> None:
    site, mine = Site(), groups(A)
    held = site.run(mine.claim(0))
    site.faults = [site.lose_answer]
    with pytest.raises(UnavailableError):
        site.run(mine.save(held, {}))
    site.run(groups(B).claim(0))
    with pytest.raises(FencedError):
        site.run(mine.save(held, {}))


def test_a_put_of_a_former_owner_cannot_land_late(groups: Maker) -> None:
    site, mine = Site(), groups(A)
    name = name_in(0)
    held = site.run(mine.claim(0))
    late: list[Op] = []

    def delay(op: Op) -> Any:
        late.append(op)
        raise UnavailableError("still on its way")

    site.faults = [delay]
    with pytest.raises(UnavailableError):
        site.run(mine.save(held, {name: encode_group(group(name))}))
    site.run(groups(B).claim(0))
    site.store.perform(late[0])
    stored = site.run(groups(B).read(0))
    assert stored.claim.broker == B
    assert dict(stored.groups) == {}


def test_a_claim_that_was_taken_back_meanwhile_is_not_taken_again(groups: Maker) -> None:
    """B's put is performed, and its answer lost; before B looks, A has taken the shard back."""
    site, mine = Site(), groups(A)
    before = site.run(mine.claim(0)).claim
    site.run(groups(B).claim(0, former=before))
    back = site.run(mine.claim(0)).claim
    assert (back.broker, back.epoch) == (A, before.epoch + 2)
    with pytest.raises(FencedError):
        site.run(groups(B).claim(0, former=before))
    assert site.run(mine.read(0)).claim == back


def test_a_cell_that_was_removed_is_a_lost_claim(groups: Maker) -> None:
    site, mine = Site(), groups(A)
    held = site.run(mine.claim(0))
    site.store.perform(Delete(CLAIMS[groups]))
    with pytest.raises(FencedError):
        site.run(mine.save(held, {}))


def test_a_look_is_not_misled_by_a_save_that_is_on_its_way(groups: Maker) -> None:
    site, mine = Site(), groups(A)
    held = site.run(mine.claim(0))
    site.run(mine.save(held, {}))
    run(mine.look(held), working(site.perform))  # Another etag, but the same claim.
    site.store.perform(Delete(CLAIMS[groups]))
    with pytest.raises(FencedError):
        run(mine.look(held), working(site.perform))


def _going_on(flow: Work[Any], op: Any) -> Work[Any]:
    """Return the rest of a flow, which asks for something now."""
    while True:
        op = flow.send((yield op))


def test_a_claim_that_is_taken_while_it_is_made_is_not_believed(groups: Maker) -> None:
    site = Site()
    site.run(groups(B).claim(0))
    flow = groups(A).claim(0)
    op: Any = next(flow)
    while not isinstance(op, PutIfMatch):
        op = flow.send(site.store.perform(op))
    answer = site.store.perform(op)
    site.run(groups(B).claim(0))
    op = flow.send(answer)
    with pytest.raises(FencedError):
        site.run(_going_on(flow, op))


def test_a_shard_that_could_not_be_read_again_is_not_written() -> None:
    site, mine = Site(), BucketGroups(A)
    held = site.run(mine.claim(0))
    before = site.body()
    with pytest.raises(InvalidInputError, match="delete old groups"):
        site.run(mine.save(held, {"g": bytes(SHARD_BYTES_MAX)}))
    assert site.body() == before


def test_a_shard_that_is_full_can_still_be_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    site, mine, name = Site(), BucketGroups(A), name_in(0)
    held = site.run(mine.claim(0))
    held = site.run(mine.save(held, {name: encode_group(group(name))}))
    most = len(site.body())
    monkeypatch.setattr("lakelog.coordination.shards.SHARD_BYTES_MAX", most)
    claims = [site.run(BucketGroups(broker).claim(0)) for broker in (B, A) * 5]
    taken = claims[-1]
    assert taken.claim.epoch == 11
    assert len(site.body()) > most, "the number of the claim has grown"
    assert set(taken.groups) == {name}


# ---------------------------------------------------------------------------- damage


def cell(**changes: Any) -> bytes:
    site = Site()
    name = name_in(0)
    held = site.run(BucketGroups(A).claim(0))
    site.run(BucketGroups(A).save(held, {name: encode_group(group(name))}))
    fields = json.loads(site.body())
    for path, value in changes.items():
        at, *inner = path.split("__")
        if inner:
            fields["groups"][0][inner[0]] = value
        else:
            fields[at] = value
    return json.dumps(fields).encode()


ROW = ["m", None, "c", "h", 1, 1, "", ""]


@pytest.mark.parametrize(
    "changes",
    [
        {"shard": 1},
        {"shards": 0},
        {"shards": 101},
        {"shards": "8"},
        {"broker": "00"},
        {"epoch": 1.5},
        {"writes": None},
        {"groups": 5},
        {"groups": [5]},
        {"groups__id": 5},
        {"groups__id": "of another shard"},
        {"groups__generation": -1},
        {"groups__generation": 1 << 31},
        {"groups__decided": 1},
        {"groups__leader": "nobody"},
        {"groups__members": [ROW, ROW], "groups__leader": "m"},
        {"groups__members": [ROW[:-1]]},
        {"groups__members": [[*ROW[:-1], "no base64!"]]},
        {"groups__offsets": {"00": []}},
        {"groups__offsets": {TOPIC.hex(): [[0, 1, 2, "", 3], [0, 1, 2, "", 3]]}},
        {"groups__offsets": {TOPIC.hex(): [[0, 1 << 63, 2, "", 3]]}},
        {"groups__offsets": {TOPIC.hex(): [[True, 1, 2, "", 3]]}},
        {"groups__offsets": {TOPIC.hex(): [[0, 1, 2, None, 3]]}},
        {"groups__offsets": {TOPIC.hex(): [[0, 1]]}},
    ],
    ids=str,
)
def test_a_damaged_cell_is_noticed_and_left_alone(changes: dict[str, Any]) -> None:
    site = Site()
    site.run(BucketGroups(A).claim(0))
    site.write(cell(**changes))
    before = site.body()
    with pytest.raises(CorruptError):
        site.run(BucketGroups(B).claim(0))
    assert site.body() == before


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b"null", b"\xff", b"[" * 100_000])
def test_noise_is_no_shard(body: bytes) -> None:
    with pytest.raises(CorruptError):
        decode_shard(body, 0)
    with pytest.raises(CorruptError):
        decode_group(body)


def test_a_cell_of_a_later_version_is_not_touched() -> None:
    site = Site()
    site.run(BucketGroups(A).claim(0))
    site.write(cell(format=2))
    with pytest.raises(UnsupportedError, match="newer"):
        site.run(BucketGroups(B).claim(0))


def test_a_cell_says_what_it_is() -> None:
    """The layout of the page of objects, as text."""
    held = decode_shard(cell(), 0)
    fields = json.loads(cell())
    assert list(fields) == ["format", "shard", "shards", "broker", "epoch", "writes", "groups"]
    assert fields["broker"] == A.hex()
    assert list(held.groups) == [name_in(0)]
    row = fields["groups"][0]["offsets"][TOPIC.hex()]
    assert row == [[7, 1 << 62, -1, 'say "x"', 5], [0, 0, 3, "", 6]]


# ---------------------------------------------------------------------------- the newer protocol


def consumer_group(name: str) -> ConsumerDurable:
    one = ConsumerMember(
        id="m-1", instance_id="i", rack_id="r", client_id="\N{WATER WAVE}", client_host="/h",
        rebalance_timeout_ms=60_000, names=("a", "b"), regex="a.*", assignor="range",
        epoch=7, previous_epoch=6,
        target=frozenset({TopicIdPartition(TOPIC, 0), TopicIdPartition(TOPIC, 2)}),
        assigned=frozenset({TopicIdPartition(TOPIC, 0)}),
        revoking=frozenset({TopicIdPartition(A, 1)}),
    )  # fmt: skip
    away = ConsumerMember(
        id="m-2", instance_id="j", epoch=-2, assigned=frozenset({TopicIdPartition(A, 0)})
    )
    roster = ConsumerRoster(
        epoch=8,
        target_epoch=7,
        topics={"a": TopicShape(TOPIC, 3)},
        members={one.id: one, away.id: away},
        since_ms=5,
    )
    return ConsumerDurable(id=name, roster=roster, offsets=group(name).offsets)


def test_a_group_of_the_newer_protocol_is_stored_beside_the_others() -> None:
    site, mine = Site(), BucketGroups(A)
    name, other = name_in(0), "x" + name_in(0)
    while shard_of(other, 8):
        other += "x"
    both: dict[str, AnyDurable] = {name: consumer_group(name), other: group(other)}
    held = site.run(mine.claim(0))
    site.run(mine.save(held, {key: encode_group(one) for key, one in both.items()}))
    found = site.run(BucketGroups(B).claim(0)).groups
    assert {key: decode_group(one) for key, one in found.items()} == both


def test_a_group_says_who_made_it_and_one_of_before_is_written_as_it_was() -> None:
    for before in (group("g"), consumer_group("n")):
        text = encode_group(before)
        assert b'"by"' not in text
        made = replace(before, made_by="10.0.0.9")
        assert b',"by":"10.0.0.9",' in encode_group(made)
        assert decode_group(encode_group(made)) == made
        assert decode_group(text) == before


def test_a_group_that_an_older_version_stored_is_read() -> None:
    """These bytes were written before there were two kinds."""
    old = (
        b'{"id":"g","generation":3,"type":"consumer","protocol":"range","leader":"m-1",'
        b'"since_ms":17,"decided":true,"members":[["m-1",null,"\\u00e4\\ud800","/h",10000,60000,'
        b'"AAEC",""]],"offsets":{"30313233343536373839616263646566":[[0,4711,3,"",6]]}}'
    )
    found = decode_group(old)
    assert isinstance(found, Durable)
    assert found.roster.members[0].metadata == bytes(range(3))
    assert found.offsets.rows == {TopicIdPartition(TOPIC, 0): Committed(4711, 3, "", 6)}
    assert encode_group(found) == old


def test_these_bytes_are_a_group_of_the_newer_protocol_for_ever() -> None:
    stored = (
        b'{"id":"g","kind":"consumer","epoch":8,"target_epoch":7,"since_ms":5,'
        b'"topics":{"a":["30313233343536373839616263646566",3]},"members":['
        b'["m-1","i","r","\\ud83c\\udf0a","/h",60000,["a","b"],"a.*","range",7,6,'
        b'{"30313233343536373839616263646566":[0,2]},{"30313233343536373839616263646566":[0]},'
        b'{"61616161616161616161616161616161":[1]}],'
        b'["m-2","j",null,"","",0,[],null,null,-2,0,{},{"61616161616161616161616161616161":[0]},{}]],'
        b'"offsets":{"30313233343536373839616263646566":['
        b'[7,4611686018427387904,-1,"say \\"x\\"",5],[0,0,3,"",6]]}}'
    )
    assert decode_group(stored) == consumer_group("g")
    assert encode_group(consumer_group("g")) == stored


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("kind", "share"),
        ("epoch", -1),
        ("target_epoch", "7"),
        ("topics", {"a": ["00", 3]}),
        ("topics", {"a": [TOPIC.hex()]}),
        ("members", [[]]),
        ("members", "twice"),
        ("members", "shared"),
        ("members", None),
    ],
)
def test_a_damaged_group_of_the_newer_protocol_is_noticed(field: str, value: Any) -> None:
    fields = json.loads(encode_group(consumer_group("g")))
    first, second = fields["members"]
    if value == "twice":
        value = [first, first]
    elif value == "shared":
        value = [first, [*second[:-1], first[-2]]]
    fields[field] = value
    with pytest.raises(CorruptError):
        decode_group(json.dumps(fields).encode())
