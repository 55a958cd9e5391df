"""The driver of groups: nothing is promised before it is stored, and everybody is answered."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from lakelog.broker.coordinator import Coordinator
from lakelog.broker.limits import Limits
from lakelog.broker.settings import CoordinatorSettings
from lakelog.coordination import (
    RELEASED,
    SHARD_BYTES_MAX,
    ClaimedShard,
    decode_shard,
    shard_of,
)
from lakelog.errors import (
    CorruptError,
    FencedError,
    InvalidInputError,
    LakelogError,
    TooLargeError,
    UnavailableError,
)
from lakelog.groups import (
    Code,
    Commit,
    ConsumerGroup,
    ConsumerHeartbeat,
    GroupRules,
    Heartbeat,
    Identity,
    Join,
    JoinAnswer,
    Leave,
    NewOffset,
    Offer,
    Offsets,
    State,
    Sync,
    TopicIdPartition,
    TopicShape,
)
from lakelog.names import GROUPS_PREFIX, group_shard_key
from lakelog.store import Delete, Get, MemoryStore, Op, PutIfAbsent, PutIfMatch
from tests.patience import until
from tests.unit.broker.greedy_claims import greedy_coordinator
from tests.virtual_time import pass_time, run_virtually

TOPIC = b"0123456789abcdef"
RULES = GroupRules(session_timeout_ms_min=50, initial_rebalance_delay_ms=0)
QUICK = CoordinatorSettings(rules=RULES, commit_interval_ms=0)
LIMITS = Limits()
ROW_BYTES = 120 + 4096 + 2
SLOW = replace(QUICK, commit_interval_ms=60_000, patience_ms=90_000)

Fault = Callable[[Op], Awaitable[Any]]


class Site:
    """A bucket, and brokers on it."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.puts: list[PutIfMatch] = []
        self.faults: list[Fault] = []
        self.always: Fault | None = None
        self.complaints: list[LakelogError] = []
        self.refused: list[tuple[Code, str, str]] = []

    async def perform(self, op: Op) -> Any:
        if isinstance(op, PutIfMatch):
            self.puts.append(op)
            fault = self.faults.pop(0) if self.faults else self.always
            if fault is not None:
                return await fault(op)
        return self.store.perform(op)

    def broker(
        self, settings: CoordinatorSettings = QUICK, limits: Limits | None = None
    ) -> Coordinator:
        return greedy_coordinator(
            self.perform,
            shards=2,
            settings=settings,
            limits=limits,
            on_error=self.complaints.append,
            refused=lambda code, why: self.refused.append((code, *why)),
        )

    async def lose_request(self, _: Op) -> Any:
        raise UnavailableError("the request was lost")

    async def lose_answer(self, op: Op) -> Any:
        self.store.perform(op)
        raise UnavailableError("the answer was lost")

    async def hang(self, _: Op) -> Any:
        await asyncio.Event().wait()

    def shards(self) -> list[ClaimedShard]:
        bodies = (self.store.perform(Get(group_shard_key(shard))).body for shard in range(2))
        return [decode_shard(body, at) for at, body in enumerate(bodies)]

    def groups(self) -> set[str]:
        return {name for shard in self.shards() for name in shard.groups}

    def holders(self) -> list[bytes]:
        return [shard.claim.broker for shard in self.shards()]


def join(member_id: str = "", **changes: Any) -> Join:
    event = Join(
        member_id=member_id,
        client_id="c",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        offers=(Offer("range", b"m"),),
        needs_id=False,
    )
    return replace(event, **changes)


def commit(offset: int, partition: int = 0, **changes: Any) -> Commit:
    new = NewOffset(TopicIdPartition(TOPIC, partition), offset)
    return replace(Commit(offsets=(new,)), **changes)


def offset_of(broker: Coordinator, group: str, partition: int = 0) -> int | None:
    found = broker.offsets(group)
    assert isinstance(found, Offsets)
    row = found.get(TopicIdPartition(TOPIC, partition))
    return None if row is None else row.offset


async def start(broker: Coordinator, group: str = "g") -> JoinAnswer:
    """Let one member have the group to itself."""
    answer = await broker.join(group, join())
    assert answer.code is Code.NONE
    event = Sync(
        member_id=answer.member_id,
        generation=answer.generation,
        assignments=((answer.member_id, b"all"),),
    )
    assert (await broker.sync(group, event)).assignment == b"all"
    return answer


def play(story: Coroutine[Any, Any, None]) -> None:
    run_virtually(story)


# ---------------------------------------------------------------------------- groups


def test_a_group_of_two_shares_the_work() -> None:
    async def story() -> None:
        async with Site().broker() as broker:
            await broker.loaded()
            one = await start(broker)
            second = asyncio.create_task(broker.join("g", join()))
            await asyncio.sleep(0)
            beat = Heartbeat(member_id=one.member_id, generation=1)
            assert await broker.heartbeat("g", beat) is Code.REBALANCE_IN_PROGRESS
            again = await broker.join("g", join(one.member_id))
            two = await second
            assert again.leader == two.leader == one.member_id
            assert [member.member_id for member in again.members] == [one.member_id, two.member_id]
            waiting = asyncio.create_task(
                broker.sync("g", Sync(member_id=two.member_id, generation=2))
            )
            await pass_time(0.01)
            assert not waiting.done()
            decided = tuple((who, who[-3:].encode()) for who in (one.member_id, two.member_id))
            mine = await broker.sync(
                "g", Sync(member_id=one.member_id, generation=2, assignments=decided)
            )
            assert (mine.assignment, (await waiting).assignment) == (decided[0][1], decided[1][1])
            found = broker.describe("g")
            assert not isinstance(found, Code)
            assert (found.state, len(found.members)) == (State.STABLE, 2)
            leave = Leave(members=(Identity(one.member_id), Identity(two.member_id)))
            assert (await broker.leave("g", leave)).code is Code.NONE
            assert [one.state for one in broker.list_groups()[1]] == [State.EMPTY]
            assert await broker.delete("g") is Code.NONE
            assert broker.list_groups() == (Code.NONE, [])

    play(story())


def test_a_member_that_falls_silent_is_removed_by_the_timer() -> None:
    async def story() -> None:
        async with Site().broker() as broker:
            await broker.loaded()
            member = await broker.join(
                "g", join(session_timeout_ms=60, rebalance_timeout_ms=10_000)
            )
            beat = Heartbeat(member_id=member.member_id, generation=1)
            for _ in range(4):
                await pass_time(0.03)
                assert await broker.heartbeat("g", beat) is Code.NONE
            await pass_time(0.15)
            assert await broker.heartbeat("g", beat) is Code.UNKNOWN_MEMBER_ID

    play(story())


def test_ids_of_members_say_who_they_are_and_are_never_the_same() -> None:
    async def story() -> None:
        async with Site().broker() as broker:
            await broker.loaded()
            asked = [broker.join("g", join(needs_id=True)) for _ in range(3)]
            answers = await asyncio.gather(*asked)
            assert {answer.code for answer in answers} == {Code.MEMBER_ID_REQUIRED}
            assert len({answer.member_id for answer in answers}) == 3
            assert all(answer.member_id.startswith("c-") for answer in answers)
            static = await broker.join("h", join(instance_id="web-1", client_id="x" * 10_000))
            assert static.member_id.startswith("web-1-")

    play(story())


def test_a_group_id_must_be_one() -> None:
    async def story() -> None:
        async with Site().broker() as broker:
            await broker.loaded()
            for name in ("", "x" * 1025):
                assert (await broker.join(name, join())).code is Code.INVALID_GROUP_ID
                assert broker.offsets(name) is Code.INVALID_GROUP_ID
            assert (await broker.commit("x" * 1024, commit(1))).codes == (Code.NONE,)

    play(story())


# ---------------------------------------------------------------------------- storing


def test_nothing_is_promised_before_it_is_stored() -> None:
    """Every put is held back: a generation, an assignment and a commit wait for theirs."""

    async def story() -> None:
        site = Site()
        async with site.broker() as broker:
            await broker.loaded()
            gate = asyncio.Event()

            async def held(op: Op) -> Any:
                await gate.wait()
                gate.clear()
                return site.store.perform(op)

            site.always = held

            async def only_after_the_put(asked: Awaitable[Any]) -> Any:
                task = asyncio.ensure_future(asked)
                await pass_time(0.02)
                assert not task.done()
                gate.set()
                return await task

            answer = await only_after_the_put(broker.join("g", join()))
            who, decided = answer.member_id, ((answer.member_id, b"x"),)
            sync = Sync(member_id=who, generation=1, assignments=decided)
            await only_after_the_put(broker.sync("g", sync))
            task = asyncio.create_task(broker.commit("g", commit(5, member_id=who, generation=1)))
            await pass_time(0.02)
            assert offset_of(broker, "g") is None  # Not even read, before it is stored.
            beat = Heartbeat(member_id=who, generation=1)
            assert await broker.heartbeat("g", beat) is Code.NONE  # Which waits for nothing.
            gate.set()
            assert (await task).codes == (Code.NONE,)
            assert offset_of(broker, "g") == 5
            site.always = None

    play(story())


def test_what_comes_while_a_put_is_on_its_way_waits_for_the_next() -> None:
    async def story() -> None:
        site = Site()
        async with site.broker() as broker:
            await broker.loaded()
            gates = [asyncio.Event(), asyncio.Event()]

            def held(gate: asyncio.Event) -> Fault:
                async def put(op: Op) -> Any:
                    await gate.wait()
                    return site.store.perform(op)

                return put

            site.faults = [held(gate) for gate in gates]
            first = asyncio.create_task(broker.commit("g", commit(1)))
            await pass_time(0.01)
            second = asyncio.create_task(broker.commit("g", commit(2)))
            await asyncio.sleep(0)
            gates[0].set()
            await first
            await pass_time(0.01)
            assert not second.done()
            assert offset_of(broker, "g") == 1
            gates[1].set()
            await second
            assert offset_of(broker, "g") == 2

    play(story())


def test_another_broker_goes_on_where_this_one_stopped() -> None:
    async def story() -> None:
        site = Site()
        async with site.broker() as broker:
            await broker.loaded()
            member = await start(broker)
            outside = [broker.commit(f"h{n}", commit(n)) for n in range(20)]
            await asyncio.gather(*outside)
            event = commit(7, member_id=member.member_id, generation=1)
            await broker.commit("g", event)
        async with site.broker() as broker:
            await broker.loaded()
            beat = Heartbeat(member_id=member.member_id, generation=1)
            assert await broker.heartbeat("g", beat) is Code.NONE
            assert offset_of(broker, "g") == 7
            assert [offset_of(broker, f"h{n}") for n in range(20)] == list(range(20))
            assert offset_of(broker, "nobody") is None
            assert len(broker.list_groups()[1]) == 21

    play(story())


def test_commits_are_coalesced_and_the_first_goes_at_once() -> None:
    async def story() -> None:
        site = Site()
        async with site.broker(replace(QUICK, commit_interval_ms=200)) as broker:
            await broker.loaded()
            before = len(site.puts)
            loop = asyncio.get_running_loop()
            began = loop.time()
            await broker.commit("g", commit(1))
            assert loop.time() - began < 0.15
            assert len(site.puts) == before + 1
            more = [broker.commit("g", commit(n, partition=n)) for n in range(50)]
            await asyncio.gather(*more)
            assert loop.time() - began > 0.15
            assert loop.time() - began < 2
            assert len(site.puts) == before + 2

    play(story())


def test_a_rebalance_does_not_wait_for_the_interval_of_commits() -> None:
    async def story() -> None:
        site = Site()
        async with site.broker(SLOW) as broker:
            await broker.loaded()
            await broker.commit("g", commit(1))
            waiting = asyncio.create_task(broker.commit("g", commit(2)))
            await asyncio.sleep(0)
            await asyncio.wait_for(start(broker), 5)
            assert (await waiting).codes == (Code.NONE,)  # It went along.

    play(story())


def test_a_topic_that_is_deleted_takes_its_offsets_along() -> None:
    async def story() -> None:
        site = Site()
        async with site.broker() as broker:
            await broker.loaded()
            await broker.commit("g", commit(1))
            await broker.forget_topics([TOPIC])
            await until(lambda: offset_of(broker, "g") is None)
        assert site.groups() == set()

    play(story())


def test_offsets_expire_by_themselves() -> None:
    async def story() -> None:
        rules = replace(RULES, offsets_retention_ms=50)
        async with Site().broker(replace(QUICK, rules=rules, sweep_interval_ms=10)) as broker:
            await broker.loaded()
            await broker.commit("g", commit(1))
            await until(lambda: offset_of(broker, "g") is None)
            assert broker.list_groups() == (Code.NONE, [])

    play(story())


# ---------------------------------------------------------------------------- trouble


def test_the_second_broker_fences_the_first() -> None:
    async def story() -> None:
        site = Site()
        first, second = site.broker(), site.broker()
        async with first:
            await first.loaded()
            member = await start(first)
            waiting = asyncio.create_task(first.join("g", join()))
            await second.__aenter__()
            await second.loaded()
            # It learns of it with its next write, which does not happen.
            answer = await first.commit("g", commit(9, member_id=member.member_id, generation=1))
            assert answer.codes == (Code.NOT_COORDINATOR,)
            assert (await waiting).code is Code.NOT_COORDINATOR
            beat = Heartbeat(member_id=member.member_id, generation=1)
            assert await first.heartbeat("g", beat) is Code.NOT_COORDINATOR
            assert first.offsets("g") is Code.NOT_COORDINATOR
            assert first.describe("g") is Code.NOT_COORDINATOR
            # What is elsewhere is listed there.
            assert first.list_groups() == (Code.NONE, [])
            assert first.held() == [1 - shard_of("g", 2)]
            assert first.trouble() == ""
            assert await second.heartbeat("g", beat) is Code.NONE
            assert offset_of(second, "g") is None
            assert any(isinstance(error, FencedError) for error in site.complaints)
            await second.close()

    play(story())


@pytest.mark.parametrize("way", ["by itself", "when asked"])
def test_a_broker_that_writes_nothing_still_learns_that_it_was_replaced(way: str) -> None:
    async def story() -> None:
        site = Site()
        look_ms = 20 if way == "by itself" else 60_000
        async with site.broker(replace(QUICK, look_interval_ms=look_ms)) as first:
            await first.loaded()
            parked = asyncio.create_task(first.join("g", join(rebalance_timeout_ms=60_000)))
            member = await parked
            await pass_time(0.05)
            assert await first.confirm(["g"]) == {"g": Code.NONE}
            async with site.broker() as second:
                await second.loaded()
                if way == "when asked":
                    assert await first.confirm(["g"]) == {"g": Code.NOT_COORDINATOR}
                beat = Heartbeat(member_id=member.member_id, generation=1)

                async def is_told() -> bool:
                    return await first.heartbeat("g", beat) is Code.NOT_COORDINATOR

                await until(is_told)
                assert await first.confirm(["g"]) == {"g": Code.NOT_COORDINATOR}
                assert await second.heartbeat("g", beat) is Code.NONE

    play(story())


def test_whether_it_was_replaced_is_not_guessed_when_the_store_is_away() -> None:
    async def story() -> None:
        site = Site()
        down = False

        async def perform(op: Op) -> Any:
            if down:
                raise UnavailableError("no answer")
            return site.store.perform(op)

        broker = greedy_coordinator(perform, settings=replace(QUICK, look_interval_ms=10))
        async with broker:
            await broker.loaded()
            down = True
            await pass_time(0.05)
            assert await broker.confirm(["g"]) == {"g": Code.COORDINATOR_NOT_AVAILABLE}
            down = False
            assert await broker.confirm(["g"]) == {"g": Code.NONE}
            assert (await broker.commit("g", commit(1))).codes == (Code.NONE,)
            assert await broker.confirm([""]) == {"": Code.INVALID_GROUP_ID}

    play(story())


@pytest.mark.parametrize("fault", ["lose_request", "lose_answer"])
def test_a_put_without_an_answer_is_made_again_with_the_same_bytes(fault: str) -> None:
    async def story() -> None:
        site = Site()
        async with site.broker() as broker:
            await broker.loaded()
            before = len(site.puts)
            site.faults = [getattr(site, fault)] * 3
            assert (await broker.commit("g", commit(5))).codes == (Code.NONE,)
            assert len(site.puts) == before + 4
            assert len({put.body for put in site.puts[before:]}) == 1
            assert len(site.complaints) == 3
            assert (await broker.commit("g", commit(6))).codes == (Code.NONE,)
        async with site.broker() as broker:
            await broker.loaded()
            assert offset_of(broker, "g") == 6

    play(story())


@pytest.mark.parametrize("fault", ["lose_request", "hang"])
def test_who_waits_too_long_is_told_to_try_again(fault: str) -> None:
    async def story() -> None:
        site = Site()
        async with site.broker(replace(QUICK, patience_ms=40, drain_ms=10)) as broker:
            await broker.loaded()
            site.always = getattr(site, fault)
            assert (await broker.commit("g", commit(5))).codes == (Code.COORDINATOR_NOT_AVAILABLE,)
            assert (await broker.join("h", join())).code is Code.COORDINATOR_NOT_AVAILABLE
            assert offset_of(broker, "g") is None
            if fault == "lose_request":
                site.always = None  # The store is back: what was told to be unknown is stored.
                await until(lambda: offset_of(broker, "g") is not None)
                assert offset_of(broker, "g") == 5
                # And its retry is as good as the first.
                assert (await broker.commit("g", commit(5))).codes == (Code.NONE,)

    play(story())


def fill(size: int, **changes: Any) -> Commit:
    """Return a commit that takes so many bytes, or a few thousand less."""
    rows = tuple(
        NewOffset(TopicIdPartition(TOPIC, n), n, -1, "x" * 4096) for n in range(size // ROW_BYTES)
    )
    return replace(Commit(offsets=rows), **changes)


def names_in(shard: int, prefix: str) -> Iterator[str]:
    """Return names of groups that are in a shard of two."""
    return (name for n in count() if shard_of(name := f"{prefix}{n}", 2) == shard)


async def flood(broker: Coordinator, host: str, size: int = 1 << 20) -> list[str]:
    """Make groups in shard 0 by commits of no member, until one is refused."""
    made: list[str] = []
    for name in names_in(0, host):
        (code,) = set((await broker.commit(name, fill(size, client_host=host))).codes)
        if code is not Code.NONE:
            assert code is Code.INVALID_COMMIT_OFFSET_SIZE
            break
        made.append(name)
    return made


def test_a_group_that_commits_too_much_is_told_so_and_keeps_what_it_has() -> None:
    async def story() -> None:
        async with Site().broker() as broker:
            await broker.loaded()
            await broker.commit("g", commit(1))
            large = fill(LIMITS.group_offsets_bytes + 2 * ROW_BYTES)
            answer = await broker.commit("g", large)
            assert set(answer.codes) == {Code.INVALID_COMMIT_OFFSET_SIZE}
            assert offset_of(broker, "g") == 1
            some = replace(large, offsets=large.offsets[:100])
            assert set((await broker.commit("g", some)).codes) == {Code.NONE}
            assert (await broker.commit("g", commit(2))).codes == (Code.NONE,)
            assert offset_of(broker, "g") == 2

    play(story())


def test_one_address_cannot_fill_a_shard_with_groups_that_have_no_members() -> None:
    async def story() -> None:
        site = Site()
        async with site.broker() as broker:
            await broker.loaded()
            made = await flood(broker, "10.0.0.9")
            assert len(made) << 20 <= LIMITS.shard_new_bytes * LIMITS.address_percent // 100
            hostile = join(client_host="/10.0.0.9", offers=(Offer("range", bytes(1 << 20)),))
            refused = await broker.join(next(names_in(0, "refused")), hostile)
            assert refused.code is Code.GROUP_MAX_SIZE_REACHED
            assert {limit for _, limit, _ in site.refused} == {"address_percent"}
            assert f"clients of 10.0.0.9 made {len(made)} groups of" in site.refused[0][2]
            # What it has made it may still use, and all others find room.
            again = commit(7, client_host="10.0.0.9")
            assert (await broker.commit(made[0], again)).codes == (Code.NONE,)
            new = commit(1, client_host="10.0.0.1")
            assert (await broker.commit(next(names_in(0, "new")), new)).codes == (Code.NONE,)
            await start(broker, next(names_in(0, "members")))

    play(story())


def test_an_address_has_no_second_part_of_a_shard_after_a_restart() -> None:
    async def story() -> None:
        site = Site()
        async with site.broker() as broker:
            await broker.loaded()
            made = await flood(broker, "10.0.0.9")
        async with site.broker() as broker:
            await broker.loaded()
            one = fill(1 << 20, client_host="10.0.0.9")
            more = next(names_in(0, "more"))
            refused = await broker.commit(more, one)
            assert set(refused.codes) == {Code.INVALID_COMMIT_OFFSET_SIZE}
            assert await broker.delete(made[0]) is Code.NONE
            assert set((await broker.commit(more, one)).codes) == {Code.NONE}

    play(story())


def test_when_a_shard_takes_no_new_groups_those_that_are_there_go_on() -> None:
    async def story() -> None:
        site = Site()
        async with site.broker() as broker:
            await broker.loaded()
            mine = next(names_in(0, "mine"))
            member = await start(broker, mine)
            for host in ("10.0.0.7", "10.0.0.8", "10.0.0.9"):
                await flood(broker, host)
            new = fill(1 << 20, client_host="10.0.0.1")
            refused = await broker.commit(next(names_in(0, "new")), new)
            assert set(refused.codes) == {Code.INVALID_COMMIT_OFFSET_SIZE}
            assert "shard_new_bytes" in {limit for _, limit, _ in site.refused}
            other = next(names_in(1, "other"))
            assert set((await broker.commit(other, new)).codes) == {Code.NONE}, "another shard"
            inside: dict[str, Any] = {
                "member_id": member.member_id,
                "generation": member.generation,
            }
            assert (await broker.commit(mine, commit(5, **inside))).codes == (Code.NONE,)
            more = fill(1 << 20, **inside)
            assert set((await broker.commit(mine, more)).codes) == {Code.NONE}

    play(story())


def test_a_full_shard_refuses_what_makes_it_larger_and_loses_nothing() -> None:
    async def story() -> None:
        limits = Limits(address_percent=100, shard_new_bytes=SHARD_BYTES_MAX)
        async with Site().broker(limits=limits) as broker:
            await broker.loaded()
            made = await flood(broker, "10.0.0.9")
            assert (SHARD_BYTES_MAX >> 20) - 1 <= len(made) <= SHARD_BYTES_MAX >> 20
            large = await broker.commit(made[0], fill(2 << 20))
            assert set(large.codes) == {Code.INVALID_COMMIT_OFFSET_SIZE}
            assert offset_of(broker, made[0], 3) == 3
            again = fill(1 << 20)
            assert set((await broker.commit(made[0], again)).codes) == {Code.NONE}

    play(story())


def test_the_larger_a_shard_is_the_less_often_commits_write_it_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lakelog.broker.ledger.REWRITTEN_BYTES_PER_S", 200_000)

    async def story() -> None:
        async with Site().broker() as broker:
            await broker.loaded()
            began = asyncio.get_running_loop().time()
            times = []
            for size in (20_000, 20_000, 100_000, 20_000):
                assert set((await broker.commit("g", fill(size))).codes) == {Code.NONE}
                times.append(asyncio.get_running_loop().time() - began)
        one, two, three, four = times
        assert two - one > 0.07, "16 KB at 200 KB in a second"
        assert three - two > 0.07
        assert four - three > 0.4

    play(story())


def test_there_is_a_limit_to_groups_and_to_those_of_one_address() -> None:
    async def story() -> None:
        site = Site()
        async with site.broker(limits=Limits(shard_groups=4)) as broker:
            await broker.loaded()
            hosts = ("10.0.0.9", "10.0.0.8", "10.0.0.7")
            assert [len(await flood(broker, host, size=5_000)) for host in hosts] == [2, 2, 0]
            unknown = Heartbeat(member_id="m", generation=1)
            # What makes no group is not refused for the number of them.
            name = next(names_in(0, "g"))
            assert await broker.heartbeat(name, unknown) is Code.UNKNOWN_MEMBER_ID

    play(story())


# ---------------------------------------------------------------------------- beginning and ending


def test_while_groups_are_loaded_nobody_is_sent_away() -> None:
    async def story() -> None:
        site = Site()
        gate = asyncio.Event()

        async def perform(op: Op) -> Any:
            await gate.wait()
            return site.store.perform(op)

        broker = greedy_coordinator(perform, settings=QUICK)
        async with broker:
            await asyncio.sleep(0)
            loading = Code.COORDINATOR_LOAD_IN_PROGRESS
            assert await broker.heartbeat("g", Heartbeat(member_id="m", generation=1)) is Code.NONE
            synced = await broker.sync("g", Sync(member_id="m", generation=1))
            assert synced.code is Code.REBALANCE_IN_PROGRESS
            assert (await broker.join("g", join())).code is loading
            assert (await broker.commit("g", commit(1))).codes == (loading,)
            assert broker.offsets("g") is loading
            assert broker.list_groups() == (loading, [])
            gate.set()
            await broker.loaded()
            assert (await broker.commit("g", commit(1))).codes == (Code.NONE,)

    play(story())


def test_a_store_that_is_away_at_the_start_is_waited_for() -> None:
    async def story() -> None:
        site = Site()
        down = True

        async def perform(op: Op) -> Any:
            if down:
                raise UnavailableError("no answer")
            return site.store.perform(op)

        broker = greedy_coordinator(perform, settings=QUICK)
        async with broker:
            await pass_time(0.03)
            assert (await broker.join("g", join())).code is Code.COORDINATOR_LOAD_IN_PROGRESS
            down = False
            await broker.loaded()
            await start(broker)

    play(story())


async def damage(site: Site, shard: int) -> str:
    """Make noise of a shard, and return its key."""
    async with site.broker() as broker:
        await broker.loaded()
    key = group_shard_key(shard)
    found = site.store.perform(Get(key))
    site.store.perform(PutIfMatch(key, b"noise", found.info.etag))
    return key


async def codes_of(broker: Coordinator) -> dict[Code, int]:
    """Return what commits to groups are answered, and a shard in which that is so."""
    names = [str(n) for n in range(9)]
    return {(await broker.commit(n, commit(1))).codes[0]: shard_of(n, 2) for n in names}


def test_a_damaged_shard_is_said_to_be_and_left_alone_and_stops_no_other() -> None:
    async def story() -> None:
        site = Site()
        key = await damage(site, 1)
        async with site.broker() as broker:
            await broker.loaded()
            assert await codes_of(broker) == {Code.NONE: 0, Code.COORDINATOR_NOT_AVAILABLE: 1}
            assert broker.trouble() == "shard 1 of the consumer groups is not loaded: see the log"
            assert broker.list_groups()[0] is Code.COORDINATOR_NOT_AVAILABLE
            await pass_time(5)
            assert [type(one) for one in site.complaints] == [CorruptError], "it is said once"
            assert site.store.perform(Get(key)).body == b"noise"
            site.store.perform(Delete(key))
            await until(lambda: broker.held() == [0, 1])
            assert set(await codes_of(broker)) == {Code.NONE}
            assert broker.trouble() == ""

    play(story())


def test_a_damaged_first_shard_stops_no_other_because_each_says_how_many_there_are() -> None:
    async def story() -> None:
        site = Site()
        await damage(site, 0)
        async with site.broker() as broker:
            await broker.loaded()
            assert await codes_of(broker) == {Code.NONE: 1, Code.COORDINATOR_NOT_AVAILABLE: 0}
            assert broker.trouble() == "shard 0 of the consumer groups is not loaded: see the log"

    play(story())


def test_if_all_shards_are_damaged_it_is_not_known_how_many_there_are() -> None:
    async def story() -> None:
        site = Site()
        keys = [await damage(site, shard) for shard in (1, 0)]
        async with site.broker() as broker:
            with pytest.raises(CorruptError):
                await broker.loaded()
            assert set(await codes_of(broker)) == {Code.COORDINATOR_NOT_AVAILABLE}
        assert [site.store.perform(Get(key)).body for key in keys] == [b"noise", b"noise"]

    play(story())


def test_closing_stores_what_was_accepted_and_answers_everybody() -> None:
    async def story() -> None:
        site = Site()
        async with site.broker(SLOW) as broker:
            await broker.loaded()
            member = await start(broker)
            who: dict[str, Any] = {"member_id": member.member_id, "generation": 1}
            parked = asyncio.create_task(broker.join("g", join()))
            waiting = asyncio.create_task(broker.commit("g", commit(3, **who)))
            await pass_time(0.01)
            assert not waiting.done()
        assert (await waiting).codes == (Code.NONE,)
        assert (await parked).code is Code.NOT_COORDINATOR  # It asks who is, and joins there.
        late = await broker.commit("g", commit(4))
        assert late.codes == (Code.COORDINATOR_NOT_AVAILABLE,)
        async with site.broker() as broker:
            await broker.loaded()
            assert offset_of(broker, "g") == 3

    play(story())


def test_a_shard_outlives_what_the_store_refuses_for_a_while() -> None:
    """A proxy that takes no requests of this size, until somebody changes that."""

    async def story() -> None:
        site = Site()

        async def refuse(_: Op) -> Any:
            raise TooLargeError("413: split it")

        async with site.broker() as broker:
            await broker.loaded()
            site.faults = [refuse, refuse]
            assert (await broker.commit("g", commit(3))).codes == (Code.NONE,)
            assert [type(one) for one in site.complaints] == [TooLargeError] * 2
            assert offset_of(broker, "g") == 3

    play(story())


def test_closing_does_not_wait_for_a_store_for_ever() -> None:
    async def story() -> None:
        site = Site()
        async with site.broker(replace(QUICK, drain_ms=20)) as broker:
            await broker.loaded()
            site.always = site.hang
            waiting = asyncio.create_task(broker.commit("g", commit(3)))
            await pass_time(0.01)
        assert (await waiting).codes == (Code.NOT_COORDINATOR,)
        assert site.holders()[shard_of("g", 2)] != RELEASED, "it may be stored yet"

    play(story())


def test_whoever_closes_gives_its_claims_up() -> None:
    async def story() -> None:
        site = Site()
        async with site.broker() as broker:
            await broker.loaded()
            await broker.commit("g", commit(3))
            assert RELEASED not in site.holders()
        assert site.holders() == [RELEASED] * 2
        assert site.groups() == {"g"}

    play(story())


def test_closing_while_loading_ends() -> None:
    async def story() -> None:
        async def never(_: Op) -> Any:
            await asyncio.Event().wait()

        broker = greedy_coordinator(never)
        async with broker:
            await asyncio.sleep(0)
        assert (await broker.join("g", join())).code is Code.COORDINATOR_NOT_AVAILABLE

    play(story())


def test_whoever_stops_waiting_does_not_disturb_the_others() -> None:
    async def story() -> None:
        async with Site().broker(replace(QUICK, commit_interval_ms=50)) as broker:
            await broker.loaded()
            await broker.commit("g", commit(1))
            tasks = [asyncio.create_task(broker.commit("g", commit(n, n))) for n in range(4)]
            await asyncio.sleep(0)
            tasks[1].cancel()
            done = await asyncio.gather(*tasks, return_exceptions=True)
            assert isinstance(done[1], asyncio.CancelledError)
            codes = [one.codes for one in done if not isinstance(one, BaseException)]
            assert codes == [(Code.NONE,)] * 3

    play(story())


@pytest.mark.parametrize("interval_ms", [-1, 5_000])
def test_commits_are_stored_before_those_who_wait_lose_their_patience(interval_ms: int) -> None:
    with pytest.raises(InvalidInputError, match="less than they wait"):
        CoordinatorSettings(commit_interval_ms=interval_ms)


def test_the_cells_stand_where_the_names_say() -> None:
    async def story() -> None:
        site = Site()
        created: list[str] = []

        async def perform(op: Op) -> Any:
            if isinstance(op, PutIfAbsent):
                created.append(op.key)
            return site.store.perform(op)

        broker = greedy_coordinator(perform, settings=QUICK)
        async with broker:
            await broker.loaded()
        assert sorted(created) == [f"{GROUPS_PREFIX}{n:02}" for n in range(8)]

    play(story())


# ---------------------------------------------------------------------------- the newer protocol


def beat(member_id: str, epoch: int, *, owned: int | None = None) -> ConsumerHeartbeat:
    """A heartbeat; who joins wants a topic of two partitions."""
    joins = epoch == 0
    return ConsumerHeartbeat(
        member_id=member_id,
        epoch=epoch,
        rebalance_timeout_ms=10_000 if joins else -1,
        names=("t",) if joins else None,
        owned=frozenset(TopicIdPartition(TOPIC, n) for n in range(owned or 0))
        if joins or owned
        else None,
        topics={"t": TopicShape(TOPIC, 2)},
    )


def roster_of(broker: Coordinator) -> ConsumerGroup:
    found = broker.consumer_group("g")
    assert isinstance(found, ConsumerGroup)
    return found


def test_what_a_member_was_told_another_broker_knows() -> None:
    async def story() -> None:
        site = Site()
        async with site.broker() as first:
            await first.loaded()
            assert (await first.consumer_heartbeat("g", beat("a", 0))).epoch == 1
            assert (await first.consumer_heartbeat("g", beat("b", 0))).assignment == frozenset()
            told = await first.consumer_heartbeat("g", beat("a", 1))
            assert told.assignment == frozenset({TopicIdPartition(TOPIC, 0)})
            before = roster_of(first).roster
            async with site.broker() as second:
                await second.loaded()
                assert roster_of(second).roster == before
                assert (await first.consumer_heartbeat("g", beat("b", 2))).code in (
                    Code.NONE, Code.NOT_COORDINATOR,  # It is found out with the next write.
                )  # fmt: skip
                # What the first is to let go stays its own until it has.
                answer = await second.consumer_heartbeat("g", beat("b", 2))
                assert (answer.code, answer.assignment) == (Code.NONE, None)
                answer = await second.consumer_heartbeat("g", beat("a", 1, owned=1))
                assert (answer.code, answer.epoch) == (Code.NONE, 2)
                answer = await second.consumer_heartbeat("g", beat("b", 2))
                assert answer.assignment == frozenset({TopicIdPartition(TOPIC, 1)})

    play(story())


def test_heartbeats_that_change_nothing_store_nothing() -> None:
    async def story() -> None:
        site = Site()
        async with site.broker() as broker:
            await broker.loaded()
            await broker.consumer_heartbeat("g", beat("a", 0))
            puts = len(site.puts)
            for _ in range(20):
                answer = await broker.consumer_heartbeat("g", beat("a", 1))
                assert (answer.code, answer.assignment) == (Code.NONE, None)
            assert len(site.puts) == puts

    play(story())


def test_a_member_is_told_nothing_that_is_not_stored() -> None:
    async def story() -> None:
        site = Site()
        async with site.broker() as broker:
            await broker.loaded()
            stored = asyncio.Event()

            async def wait(op: Op) -> Any:
                await stored.wait()
                return site.store.perform(op)

            site.faults = [wait]
            joining = asyncio.create_task(broker.consumer_heartbeat("g", beat("a", 0)))
            await pass_time(0.02)
            # A heartbeat that changes nothing speaks of the same roster, and waits with it.
            again = asyncio.create_task(broker.consumer_heartbeat("g", beat("a", 1)))
            await pass_time(0.02)
            assert not joining.done()
            assert not again.done()
            assert broker.check_member("g", "a", 1) is Code.NONE  # Nobody knows of it yet.
            stored.set()
            assert (await joining).epoch == (await again).epoch == 1
            assert broker.check_member("g", "a", 0) is Code.STALE_MEMBER_EPOCH
            assert broker.check_member("g", "b", 1) is Code.UNKNOWN_MEMBER_ID
            assert broker.check_member("g", None, -1) is Code.NONE
            assert broker.check_member("", "a", 1) is Code.INVALID_GROUP_ID

    play(story())


def test_silent_members_of_the_newer_protocol_are_fenced_by_the_timer() -> None:
    rules = replace(RULES, consumer_session_timeout_ms=80, consumer_heartbeat_interval_ms=10)

    async def story() -> None:
        async with Site().broker(replace(QUICK, rules=rules)) as broker:
            await broker.loaded()
            await broker.consumer_heartbeat("g", beat("a", 0))
            for _ in range(4):
                await pass_time(0.03)
                answer = await broker.consumer_heartbeat("g", beat("a", 1))
                assert answer.code is Code.NONE
            await pass_time(0.2)
            answer = await broker.consumer_heartbeat("g", beat("a", 1))
            assert answer.code is Code.UNKNOWN_MEMBER_ID
            assert [(one.state, one.kind.value) for one in broker.list_groups()[1]] == [
                (State.EMPTY, "consumer")
            ]

    play(story())


def test_a_full_shard_takes_no_more_members_of_the_newer_protocol(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story() -> None:
        async with Site().broker() as broker:
            await broker.loaded()
            await broker.consumer_heartbeat("g", beat("a", 0))
            size = roster_of(broker).size_bytes
            monkeypatch.setattr("lakelog.broker.group_memory._MOST", size + 100)
            full = await broker.consumer_heartbeat("g", beat("b", 0))
            assert full.code is Code.COORDINATOR_NOT_AVAILABLE
            assert list(roster_of(broker).roster.members) == ["a"]
            assert (await broker.consumer_heartbeat("g", beat("a", 1))).code is Code.NONE
            assert (await broker.consumer_heartbeat("g", beat("a", -1))).code is Code.NONE

    play(story())


def test_offsets_and_groups_are_deleted_when_nobody_reads() -> None:
    async def story() -> None:
        async with Site().broker() as broker:
            await broker.loaded()
            places, names = [TopicIdPartition(TOPIC, 0), TopicIdPartition(TOPIC, 1)], {TOPIC: "t"}
            missing = await broker.delete_offsets("g", places, names)
            assert missing == (Code.GROUP_ID_NOT_FOUND, ())
            await broker.consumer_heartbeat("g", beat("a", 0))
            mine = commit(7, member_id="a", generation=1)
            assert (await broker.commit("g", mine)).codes == (Code.NONE,)
            kept = (Code.GROUP_SUBSCRIBED_TO_TOPIC,) * 2
            assert await broker.delete_offsets("g", places, names) == (Code.NONE, kept)
            assert await broker.delete("g") is Code.NON_EMPTY_GROUP
            await broker.consumer_heartbeat("g", beat("a", -1))
            gone = (Code.NONE, Code.NONE)
            assert await broker.delete_offsets("g", places, names) == (Code.NONE, gone)
            assert offset_of(broker, "g") is None
            assert await broker.delete("g") is Code.NONE
            assert await broker.delete("g") is Code.GROUP_ID_NOT_FOUND
            assert broker.list_groups() == (Code.NONE, [])
            assert broker.subscriptions("g") == (frozenset(), frozenset())

    play(story())


def test_while_groups_are_loaded_members_of_the_newer_protocol_try_again() -> None:
    async def story() -> None:
        broker = Site().broker()
        answer = await broker.consumer_heartbeat("g", beat("a", 0))
        assert answer.code is Code.COORDINATOR_LOAD_IN_PROGRESS

    play(story())
