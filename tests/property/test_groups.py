"""Laws of groups: whatever comes, in whatever order, and whenever the coordinator changes."""

from dataclasses import dataclass, field, replace

from hypothesis import given
from hypothesis import strategies as st

from lakelog.coordination import decode_group, encode_group
from lakelog.groups import (
    Code,
    Commit,
    CommitAnswer,
    Delete,
    Durable,
    Effect,
    Event,
    Group,
    GroupRules,
    Heartbeat,
    Identity,
    Join,
    JoinAnswer,
    Leave,
    NewOffset,
    Now,
    Offer,
    Persist,
    Reply,
    Request,
    State,
    StoredPart,
    Sweep,
    Sync,
    SyncAnswer,
    Tick,
    TopicIdPartition,
    TopicsGone,
    absent,
    restore,
    step,
)

RULES = GroupRules(
    session_timeout_ms_min=10,
    session_timeout_ms_max=1000,
    initial_rebalance_delay_ms=30,
    members_max=4,
    offsets_retention_ms=2000,
    offset_metadata_bytes_max=8,
    new_member_join_timeout_ms=700,
    rebalance_timeout_ms_max=500,
    protocols_max=3,
    protocol_bytes_max=40,
    assignment_bytes_max=30,
)
WAIT_MS_MAX = 3 * RULES.rebalance_timeout_ms_max + RULES.new_member_join_timeout_ms
"""No request may wait longer: a delay, a rebalance, and a sync that nobody completes."""

TOPICS = (b"0123456789abcdef", b"fedcba9876543210")

numbers = st.integers(0, 5)
instances = st.sampled_from([None, None, "i", "j"])
names = st.sampled_from(["range", "sticky", "other"])
offers = st.lists(st.builds(Offer, names, st.binary(max_size=6)), max_size=4).map(tuple)
committed = st.builds(
    NewOffset,
    st.builds(TopicIdPartition, st.sampled_from(TOPICS), st.integers(0, 2)),
    st.integers(0, 100),
    st.integers(-1, 3),
    st.text(max_size=4),
)

# Who is meant is drawn as a number: one of the ids that were given out so far, or none.
events = st.one_of(
    st.tuples(
        st.just("join"),
        numbers,
        instances,
        offers,
        st.sampled_from([5, 10, 200, 1000, 2000]),
        st.sampled_from([-1, 0, 40, 500, 9999]),
        st.booleans(),
        st.booleans(),
        st.sampled_from(["consumer", "consumer", "consumer", "connect", ""]),
    ),
    st.tuples(st.just("rejoin"), numbers),
    st.tuples(st.just("sync"), numbers, instances, numbers, st.binary(max_size=12)),
    st.tuples(st.just("sync"), numbers, st.none(), st.just(0), st.binary(max_size=3)),
    st.tuples(st.just("heartbeat"), numbers, instances, numbers),
    st.tuples(st.just("leave"), st.lists(st.tuples(numbers, instances), max_size=3)),
    st.tuples(st.just("commit"), numbers, instances, numbers, st.lists(committed, max_size=3)),
    st.tuples(st.just("tick")),
    st.tuples(st.just("tick")),
    st.tuples(st.just("sweep")),
    st.tuples(st.just("gone"), st.sets(st.sampled_from(TOPICS), max_size=1)),
    st.tuples(st.just("delete")),
    st.tuples(st.just("restart")),
)
stories = st.lists(st.tuples(st.integers(0, 60), events), max_size=60)


@dataclass
class World:
    """A group, whoever talks to it, and a judge that checks every step."""

    group: Group = field(default_factory=lambda: absent("g"))
    now_ms: int = 0
    tickets: int = 0
    ids: list[str] = field(default_factory=list)
    asked: dict[int, tuple[int, Request]] = field(default_factory=dict)
    """Requests that have no answer yet, and since when."""
    committed: dict[TopicIdPartition, tuple[int, int, str]] = field(default_factory=dict)
    last_join: Join | None = None

    @property
    def now(self) -> Now:
        return Now(self.now_ms, 1_000_000 + self.now_ms)

    def who(self, number: int) -> str:
        return (["", "nobody", *self.group.members, *reversed(self.ids)])[
            number % (2 + len(self.group.members) + len(self.ids))
        ]

    def generation(self, number: int) -> int:
        return (self.group.generation, self.group.generation - 1, -1, 7)[max(0, number - 2)]

    def event(self, drawn: tuple) -> Event | None:  # type: ignore[type-arg]
        """Return what was drawn, for the group as it is."""
        self.tickets += 1
        match drawn:
            case ("join", number, instance, offered, session, rebalance, needs, skips, kind):
                self.last_join = Join(
                    ticket=self.tickets,
                    member_id=self.who(number) if number > 2 else "",
                    new_member_id=f"m{self.tickets}",
                    instance_id=instance,
                    session_timeout_ms=session,
                    rebalance_timeout_ms=rebalance,
                    protocol_type=kind,
                    offers=offered,
                    needs_id=needs,
                    may_skip=skips,
                )
                return self.last_join
            case ("rejoin", number):
                if self.last_join is None:
                    return None
                new = f"m{self.tickets}"
                one = replace(self.last_join, ticket=self.tickets, new_member_id=new)
                return replace(one, member_id=self.who(number + 2), instance_id=None)
            case ("sync", number, instance, generation, assignment):
                return Sync(
                    ticket=self.tickets,
                    member_id=self.who(number + 2),
                    instance_id=instance,
                    generation=self.generation(generation),
                    assignments=tuple((one, assignment) for one in self.group.members),
                )
            case ("heartbeat", number, instance, generation):
                return Heartbeat(
                    ticket=self.tickets,
                    member_id=self.who(number),
                    instance_id=instance,
                    generation=self.generation(generation),
                )
            case ("leave", some):
                who = tuple(Identity(self.who(number), instance) for number, instance in some)
                return Leave(ticket=self.tickets, members=who)
            case ("commit", number, instance, generation, offsets):
                return Commit(
                    ticket=self.tickets,
                    member_id=self.who(number) if number else "",
                    instance_id=instance,
                    generation=self.generation(generation) if number else -1,
                    offsets=tuple(offsets),
                )
            case ("tick",):
                return Tick()
            case ("sweep",):
                return Sweep()
            case ("gone", topics):
                return TopicsGone(frozenset(topics))
            case ("delete",):
                return Delete(ticket=self.tickets)
        return None

    def restart(self) -> None:
        """Another coordinator goes on with what is stored; those who waited are gone."""
        durable = self.group.durable
        self.asked.clear()
        self.group = absent("g")
        if durable is not None:
            stored = decode_group(encode_group(durable))
            assert isinstance(stored, Durable)
            self.group = restore(stored, self.now)

    def happen(self, event: Event) -> tuple[Effect, ...]:
        before = self.group
        if isinstance(event, Request):
            self.asked[event.ticket] = self.now_ms, event
        self.group, effects = step(before, event, self.now, RULES)
        assert step(before, event, self.now, RULES) == (self.group, effects), "it is a function"
        self.judge(before, event, effects)
        return effects

    # ------------------------------------------------------------------------ laws

    def judge(self, before: Group, event: Event, effects: tuple[Effect, ...]) -> None:
        after = self.group
        stored = {effect.part for effect in effects if isinstance(effect, Persist)}
        assert after.generation >= before.generation or after.state is State.DEAD
        if after.roster != before.roster and before.state is not State.DEAD:
            assert stored, "a roster that is not stored could be forgotten"
        if after.offsets != before.offsets:
            assert StoredPart.OFFSETS in stored or after.state is State.DEAD
        for effect in effects:
            if isinstance(effect, Reply):
                self.judge_reply(effect, effects)
        waiting = [one for member in after.members.values() for one in (member.join, member.sync)]
        assert sorted(one for one in waiting if one is not None) == sorted(self.asked)
        for since_ms, _ in self.asked.values():
            assert self.now_ms - since_ms <= WAIT_MS_MAX
        self.judge_shape()
        self.judge_offsets(event, effects)

    def judge_reply(self, reply: Reply, effects: tuple[Effect, ...]) -> None:
        _, request = self.asked.pop(reply.ticket)  # Once, and only if it was asked.
        answer = reply.answer
        if isinstance(answer, JoinAnswer):
            assert isinstance(request, Join)
            if answer.code is Code.MEMBER_ID_REQUIRED or answer.code is Code.NONE:
                self.ids.append(answer.member_id)
            if answer.code is Code.NONE:
                assert reply.waits_for is StoredPart.ROSTER
                assert self.group.roster.generation == answer.generation
                assert answer.member_id in {one.id for one in self.group.roster.members}
        if isinstance(answer, SyncAnswer) and answer.code is Code.NONE:
            assert reply.waits_for is StoredPart.ROSTER
            assert self.group.roster.is_decided
        if isinstance(answer, CommitAnswer) and Code.NONE in answer.codes:
            assert reply.waits_for is StoredPart.OFFSETS
            assert effects.index(Persist(StoredPart.OFFSETS)) < effects.index(reply)

    def judge_shape(self) -> None:
        group = self.group
        statics = [one.instance_id for one in group.members.values() if one.instance_id is not None]
        assert len(statics) == len(set(statics))
        assert not group.members.keys() & group.pending.keys()
        assert group.awaited <= group.members.keys()
        if group.members:
            assert group.leader in group.members
            assert len(group.members) <= 2 * RULES.members_max
        else:
            assert group.state in (State.EMPTY, State.DEAD, State.PREPARING)
        assert (group.state is State.PREPARING) == (group.join_deadline_ms is not None)
        durable = group.durable
        if durable is not None:
            data = encode_group(durable)
            assert decode_group(data) == durable
            assert len(data) <= group.size_bytes

    def judge_offsets(self, event: Event, effects: tuple[Effect, ...]) -> None:
        """They are what was last accepted: they go back when a client asks, and never else."""
        if isinstance(event, Commit):
            codes = next(
                effect.answer.codes
                for effect in effects
                if isinstance(effect, Reply) and isinstance(effect.answer, CommitAnswer)
            )
            for one, code in zip(event.offsets, codes, strict=True):
                if code is Code.NONE:
                    self.committed[one.partition] = one.offset, one.leader_epoch, one.metadata
        rows = {place: row[:3] for place, row in self.group.offsets.rows.items()}
        if isinstance(event, Sweep | TopicsGone | Delete):
            assert rows.items() <= self.committed.items()
            self.committed = dict(rows)
        assert rows == self.committed


@given(stories)
def test_groups_keep_their_laws_whatever_comes(story: list) -> None:  # type: ignore[type-arg]
    world = World()
    for wait_ms, drawn in story:
        # Deadlines that pass are noticed in time, as a timer does it.
        while (due := world.group.next_deadline_ms) is not None:
            if due > world.now_ms + wait_ms:
                break
            world.now_ms = max(due, world.now_ms)
            wait_ms = max(0, wait_ms - 1)
            world.happen(Tick())
        world.now_ms += wait_ms
        if drawn == ("restart",):
            world.restart()
        elif (event := world.event(drawn)) is not None:
            world.happen(event)


@given(stories)
def test_everybody_is_answered_by_deadlines_alone(story: list) -> None:  # type: ignore[type-arg]
    """When nobody says anything any more, ticks bring every group to rest."""
    world = World()
    for _, drawn in story:
        if drawn == ("restart",):
            world.restart()
        elif (event := world.event(drawn)) is not None:
            world.happen(event)
    for _ in range(200):
        due = world.group.next_deadline_ms
        if due is None:
            break
        world.now_ms = max(due, world.now_ms)
        world.happen(Tick())
    assert world.group.next_deadline_ms is None
    assert world.asked == {}
    assert world.group.state in (State.EMPTY, State.DEAD)
