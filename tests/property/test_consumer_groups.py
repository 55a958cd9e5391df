"""Laws of the newer groups: no partition is ever owned by two members.

The clients here behave as real ones do. They adopt what they are told at once, and let go late.
Answers get lost; the store lags behind, and what it does not have a new coordinator does not know.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from lakelog.coordination import decode_group, encode_group
from lakelog.groups import (
    AnyDurable,
    AnyGroup,
    Code,
    Commit,
    CommitAnswer,
    ConsumerAnswer,
    ConsumerGroup,
    ConsumerHeartbeat,
    Effect,
    Event,
    GroupRules,
    NewOffset,
    Now,
    Persist,
    Reply,
    State,
    StoredPart,
    Subscriber,
    Tick,
    TopicIdPartition,
    TopicShape,
    absent,
    advance,
    assign_range,
    assign_uniform,
    revive,
)

tenfold = settings(max_examples=10 * settings().max_examples)

SESSION_MS, BEAT_MS, REBALANCE_MS = 1_000, 100, 400
RULES = GroupRules(
    consumer_session_timeout_ms=SESSION_MS,
    consumer_heartbeat_interval_ms=BEAT_MS,
    members_max=4,
    partitions_max=12,
)
NAMES = ("apples", "bears", "cars")
CLIENTS = 5
ANY = "a.*|b.*"
MATCHES = {ANY: frozenset(("apples", "bears"))}

Owned = frozenset[TopicIdPartition]


@dataclass
class Client:
    """A consumer: what it believes."""

    number: int
    names: tuple[str, ...]
    instance: str | None = None
    life: int = 0
    epoch: int = 0
    owned: Owned = frozenset()
    """What it uses."""
    wanted: Owned = frozenset()
    """What it was told to use."""
    told: Owned = frozenset()
    """What it last said that it owns."""
    asked: int | None = None
    """The ticket of the request that it waits for."""
    is_whole: bool = True
    """Whether it must say all of itself: it joins, or an answer was lost."""
    assignor: str | None = None

    @property
    def id(self) -> str:
        return f"m{self.number}.{self.life}"

    def forget(self) -> None:
        self.owned = self.wanted = self.told = frozenset()
        self.epoch, self.is_whole, self.asked = 0, True, None


@dataclass
class World:
    """A group, its clients and its store, and a judge that checks every step."""

    clients: list[Client]
    topics: dict[str, TopicShape] = field(default_factory=dict)
    group: AnyGroup = field(default_factory=lambda: absent("g"))
    stored: AnyDurable | None = None
    waiting: list[tuple[int, ConsumerAnswer]] = field(default_factory=list)
    """Answers that wait for the store."""
    lost: set[int] = field(default_factory=set)
    now_ms: int = 0
    tickets: int = 0
    ids: int = 0

    @property
    def now(self) -> Now:
        return Now(self.now_ms, 1_000_000 + self.now_ms)

    # ------------------------------------------------------------------------ happening

    def happen(self, event: Event) -> tuple[Effect, ...]:
        before = self.group
        self.group, effects = advance(before, event, self.now, RULES)
        assert advance(before, event, self.now, RULES) == (self.group, effects), "a function"
        is_stored = Persist(StoredPart.ROSTER) in effects
        assert is_stored == (_roster(self.group) != _roster(before)), "what changes is stored"
        self.judge()
        return effects

    def pass_time(self, wait_ms: int) -> None:
        """Deadlines that pass are noticed in time, as a timer does it."""
        end_ms = self.now_ms + wait_ms
        while (due_ms := self.group.next_deadline_ms) is not None and due_ms <= end_ms:
            self.now_ms = max(due_ms, self.now_ms)
            self.happen(Tick())
        self.now_ms = end_ms

    def store(self) -> None:
        """The store has everything; answers go out."""
        self.stored = None if self.group.is_absent else self.group.durable
        waiting, self.waiting = self.waiting, []
        for ticket, answer in waiting:
            self.deliver(ticket, answer)

    def restart(self) -> None:
        """Another coordinator goes on with what is stored; answers that waited are lost."""
        self.waiting.clear()
        for one in self.clients:
            if one.asked is not None:
                one.asked, one.is_whole = None, True
        self.group = absent("g")
        if self.stored is not None:
            self.group = revive(decode_group(encode_group(self.stored)), self.now, RULES)
        self.judge()

    # ------------------------------------------------------------------------ clients

    def beat(self, one: Client, *, loses: bool = False, epoch: int | None = None) -> None:
        """A client sends a heartbeat, unless it still waits for the answer to one."""
        if one.asked is not None:
            return
        self.tickets += 1
        joins = one.epoch == 0
        is_whole = joins or one.is_whole
        event = ConsumerHeartbeat(
            ticket=self.tickets,
            member_id=one.id,
            instance_id=one.instance,
            epoch=one.epoch if epoch is None else epoch,
            rebalance_timeout_ms=REBALANCE_MS if is_whole else -1,
            names=one.names if is_whole else None,
            regex=("" if one.number else ANY) if is_whole else None,
            assignor=one.assignor if is_whole else None,
            owned=one.owned if is_whole or one.owned != one.told else None,
            topics=self.topics,
            matches=MATCHES,
        )
        one.told = one.owned
        one.asked, one.is_whole = self.tickets, False
        if loses:
            self.lost.add(self.tickets)
        for effect in self.happen(event):
            if isinstance(effect, Reply):
                answer = effect.answer
                assert isinstance(answer, ConsumerAnswer)
                if effect.waits_for is StoredPart.ROSTER:
                    self.waiting.append((effect.ticket, answer))
                else:
                    assert answer.code is not Code.NONE
                    self.deliver(effect.ticket, answer)

    def deliver(self, ticket: int, answer: ConsumerAnswer) -> None:
        """An answer arrives, or does not."""
        one = next((one for one in self.clients if one.asked == ticket), None)
        if one is None:
            return
        one.asked = None
        if ticket in self.lost:
            one.is_whole = True
        elif answer.code is Code.NONE and answer.epoch >= 0:
            one.epoch = answer.epoch
            if answer.assignment is not None:
                one.wanted = answer.assignment
                one.owned |= answer.assignment
        elif answer.code in (Code.FENCED_MEMBER_EPOCH, Code.UNKNOWN_MEMBER_ID):
            one.forget()
        else:
            assert answer.code in (
                Code.NONE, Code.UNRELEASED_INSTANCE_ID, Code.GROUP_MAX_SIZE_REACHED,
                Code.GROUP_ID_NOT_FOUND, Code.FENCED_INSTANCE_ID,
            )  # fmt: skip
            one.forget()

    def leave(self, one: Client, epoch: int) -> None:
        """A client stops, says so, and comes back as somebody else."""
        one.asked = None
        one.owned = one.wanted = frozenset()
        if one.epoch:
            self.beat(one, epoch=epoch)
        self.reborn(one)

    def reborn(self, one: Client) -> None:
        one.life += 1
        one.forget()

    # ------------------------------------------------------------------------ laws

    def judge(self) -> None:
        group = self.group
        if not isinstance(group, ConsumerGroup):
            return
        members = group.roster.members
        had = [place for one in members.values() for place in (*one.assigned, *one.revoking)]
        assert len(had) == len(set(had)), "a partition has two owners"
        targets = [place for one in members.values() for place in one.target]
        assert len(targets) == len(set(targets))
        for client in self.clients:
            member = members.get(client.id)
            if member is not None:
                assert client.owned <= member.assigned | member.revoking, "it owns in secret"
        assert group.sessions.keys() == members.keys()
        assert group.revocations.keys() == {one.id for one in members.values() if one.revoking}
        assert len(members) <= RULES.members_max
        statics = [one.instance_id for one in members.values() if one.instance_id is not None]
        assert len(statics) == len(set(statics))
        data = encode_group(group.durable)
        assert decode_group(data) == group.durable
        assert len(data) <= group.size_bytes


def _roster(group: AnyGroup) -> object:
    return group.roster if isinstance(group, ConsumerGroup) else None


# ---------------------------------------------------------------------------- stories

who = st.integers(0, CLIENTS - 1)
some_names = st.sets(st.sampled_from(NAMES)).map(lambda some: tuple(sorted(some)))
rare = st.one_of(
    st.tuples(st.just("leave"), who, st.sampled_from([-1, -2])),
    st.tuples(st.just("die"), who),
    st.tuples(st.just("subscribe"), who, some_names),
    st.tuples(st.just("prefer"), who, st.sampled_from(["range", "uniform"])),
    st.tuples(st.just("topic"), st.sampled_from(NAMES), st.integers(0, 6), st.booleans()),
    st.tuples(st.just("restart")),
)
events = st.one_of(
    st.tuples(st.just("round")),
    st.tuples(st.just("round")),
    st.tuples(st.just("all beat")),
    st.tuples(st.just("beat"), who),
    st.tuples(st.just("lose"), who),
    st.tuples(st.just("let go"), who),
    st.tuples(st.just("store")),
    rare,
)
stories = st.lists(st.tuples(st.sampled_from([0, 0, 10, 100, 450, 1100]), events), max_size=60)
parties = st.lists(some_names, min_size=CLIENTS, max_size=CLIENTS)


def world_of(names: Iterable[tuple[str, ...]]) -> World:
    """Two of five clients are static, and have the same name."""
    clients = [
        Client(number, some or NAMES[:1], "i" if number % 3 == 1 else None)
        for number, some in enumerate(names)
    ]
    return World(clients, {"apples": TopicShape(bytes(16), 3)})


def tell(world: World, drawn: tuple) -> None:  # type: ignore[type-arg]
    """Let one thing happen."""
    match drawn:
        case ("beat", number):
            world.beat(world.clients[number])
        case ("all beat",):
            for one in world.clients:
                world.beat(one)
        case ("round",):
            for one in world.clients:
                world.beat(one)
                world.store()
        case ("lose", number):
            world.beat(world.clients[number], loses=True)
        case ("let go", number):
            one = world.clients[number]
            one.owned = one.wanted
        case ("leave", number, epoch):
            one = world.clients[number]
            world.leave(one, epoch if one.instance else -1)
        case ("die", number):
            world.reborn(world.clients[number])
        case ("subscribe", number, names):
            world.clients[number].names = names
            world.clients[number].is_whole = True
        case ("prefer", number, assignor):
            world.clients[number].assignor = assignor
        case ("topic", name, 0, _):
            world.topics = {key: one for key, one in world.topics.items() if key != name}
        case ("topic", name, partitions, is_new):
            old = world.topics.get(name)
            world.ids += 1
            if old is None or is_new:
                shape = TopicShape(world.ids.to_bytes(16, "big"), partitions)
            else:
                shape = TopicShape(old.id, max(partitions, old.partitions))
            world.topics = {**world.topics, name: shape}
        case ("store",):
            world.store()
        case ("restart",):
            world.restart()


@tenfold
@given(parties, stories)
def test_no_partition_is_ever_owned_by_two(parties: list, story: list) -> None:  # type: ignore[type-arg]
    world = world_of(parties)
    for wait_ms, drawn in story:
        world.pass_time(wait_ms)
        tell(world, drawn)


@given(parties, stories)
def test_whatever_was_before_a_group_comes_to_rest_and_reads_everything(
    parties: list,  # type: ignore[type-arg]
    story: list,  # type: ignore[type-arg]
) -> None:
    world = world_of(parties)
    for wait_ms, drawn in story:
        world.pass_time(wait_ms)
        tell(world, drawn)
    world.store()
    world.pass_time(2 * SESSION_MS)  # Whoever has died is fenced, and nobody keeps a name.
    world.topics = {"apples": TopicShape(b"a" * 16, 3), "bears": TopicShape(b"b" * 16, 4)}
    living = world.clients[: RULES.members_max]
    for _ in range(40):
        world.now_ms += BEAT_MS
        for one in living:
            one.owned = one.wanted
            world.beat(one)
            world.store()
    group = world.group
    assert isinstance(group, ConsumerGroup)
    assert group.state is State.STABLE
    assert set(group.roster.members) == {one.id for one in living}
    read = {place for one in living for place in one.owned}
    wanted = {name for one in living for name in one.names} | MATCHES[ANY]
    assert read == {
        TopicIdPartition(shape.id, partition)
        for name, shape in world.topics.items()
        if name in wanted
        for partition in range(shape.partitions)
    }
    # From now on nothing changes, and so nothing is stored.
    for one in living:
        assert one.owned == group.roster.members[one.id].assigned
        roster = group.roster
        world.beat(one)
        assert _roster(world.group) is roster


@given(parties, stories, st.integers(-1, 20), who)
def test_offsets_are_taken_of_members_in_their_epoch_alone(
    parties: list,  # type: ignore[type-arg]
    story: list,  # type: ignore[type-arg]
    epoch: int,
    number: int,
) -> None:
    world = world_of(parties)
    for _, drawn in story:
        tell(world, drawn)
    one = world.clients[number]
    event = Commit(
        member_id=one.id, generation=epoch, offsets=(NewOffset(TopicIdPartition(bytes(16), 0), 7),)
    )
    group, effects = advance(world.group, event, world.now, RULES)
    reply = effects[-1]
    assert isinstance(reply, Reply)
    assert isinstance(reply.answer, CommitAnswer)
    (code,) = reply.answer.codes
    if not isinstance(world.group, ConsumerGroup):
        assert code is (Code.NONE if epoch < 0 else Code.GROUP_ID_NOT_FOUND)
        return
    member = world.group.roster.members.get(one.id)
    if not world.group.roster.members and epoch < 0:
        expected = Code.NONE
    elif member is None:
        expected = Code.UNKNOWN_MEMBER_ID
    else:
        expected = Code.NONE if member.epoch == epoch else Code.STALE_MEMBER_EPOCH
    assert code is expected
    assert (group.offsets != world.group.offsets) == (code is Code.NONE)


# ---------------------------------------------------------------------------- assignors

shapes = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 9), min_size=1).map(
    lambda some: {name: TopicShape(name.encode() * 16, n) for name, n in some.items()}
)


def all_of(topics: dict[str, TopicShape], names: Iterable[str]) -> set[TopicIdPartition]:
    return {
        TopicIdPartition(topics[name].id, partition)
        for name in names
        for partition in range(topics[name].partitions)
    }


@given(shapes, st.data())
def test_every_partition_goes_to_one_who_wants_it(
    topics: dict[str, TopicShape], data: st.DataObject
) -> None:
    before: dict[str, Owned] = {}
    for _ in range(3):
        chosen = data.draw(
            st.dictionaries(
                st.sampled_from("uvwxyz"), st.frozensets(st.sampled_from(sorted(topics)))
            )
        )
        members = [
            Subscriber(name, None, wants, before.get(name, frozenset()))
            for name, wants in chosen.items()
        ]
        for assign in (assign_range, assign_uniform):
            before = found = assign(members, topics)
            assert found == assign(list(reversed(members)), topics), "whatever the order"
            assert found.keys() == chosen.keys()
            given_out = [place for places in found.values() for place in places]
            assert len(given_out) == len(set(given_out))
            wanted = frozenset[str]().union(*chosen.values())
            assert set(given_out) == all_of(topics, wanted)
            for name, places in found.items():
                assert places <= all_of(topics, chosen[name])


@given(shapes, st.sets(st.sampled_from("uvwxyz"), min_size=1), st.sampled_from("uvwxyz"))
def test_uniform_is_balanced_and_moves_no_more_than_it_must(
    topics: dict[str, TopicShape], names: set[str], other: str
) -> None:
    """All want the same. Then one comes, or goes."""
    everything = frozenset(topics)
    whole = len(all_of(topics, everything))

    def assign(members: set[str], before: dict[str, Owned]) -> dict[str, Owned]:
        found = assign_uniform(
            [Subscriber(one, None, everything, before.get(one, frozenset())) for one in members],
            topics,
        )
        sizes = {len(places) for places in found.values()}
        assert max(sizes) - min(sizes) <= 1
        return found

    first = assign(names, {})
    assert assign(names, first) == first
    after = names ^ {other}
    if not after:
        return
    second = assign(after, first)
    moved = sum(len(first.get(one, frozenset()) - places) for one, places in second.items())
    if other in after:
        assert moved == len(second[other]) <= -(-whole // len(after))
    else:
        assert moved == 0
