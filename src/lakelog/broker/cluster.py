"""A broker among others: who they are, which of them leads a lane, and what this one does about it.

    join     take a node id, before anything else is taken
    prepare  take the lanes that this broker should lead; begin: announce that it serves
    beats    say that it lives; when another process has its node id this one stops (``lost``)
    lists    look at the others; every new view is acted on (``coordination.leading``)
    leave    go on until others lead its lanes, then say that it has left
    hear     another one says that it has changed (``peers``): look at the members now

Leadership is a hint and never safety: two brokers that both believe to lead a lane stay correct,
because the store lets one of them win each key. So all that depends on it is which broker clients
are sent to. That this one does not lead is a negative answer: it is given by a list that was begun
after the request, one for all that ask at the same time.
"""

import asyncio
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from lakelog import __version__
from lakelog.broker.all_lanes import AllLanes
from lakelog.broker.led_lanes import LedLanes
from lakelog.broker.looks import SharedLook
from lakelog.broker.metrics.counters import Metrics
from lakelog.broker.peers import Peers
from lakelog.broker.supervision import Supervisor
from lakelog.coordination import (
    BucketMembership,
    Leading,
    Member,
    Node,
    State,
    View,
    owners_of,
)
from lakelog.errors import ConflictError, FencedError, LakelogError, UnavailableError
from lakelog.ports import Clock, Ids
from lakelog.store import Op, PerformAsync, Work, retrying_async, run_async, working_async
from lakelog.wire import CurrentLeader, MetadataBroker, MetadataPartition

__all__ = ["Cluster"]

JOINS_MAX, JOIN_S = 5, 0.5
"""How often a broker tries to become a member, and how long it waits in between."""

LEAVE_S_MAX = 2.0
"""For each word of farewell: a store that does not take it at once may never."""

STALE_INTERVALS = 5
"""Without a beat or a view for so many intervals clients had better go elsewhere."""


class Cluster:
    """What one broker knows of all of them, and does."""

    def __init__(
        self,
        *,
        namespace: bytes,
        run: bytes,
        lanes: AllLanes,
        perform: PerformAsync,
        heartbeat_ms: int,
        rack: str | None,
        knows_etcd: bool,
        clock: Clock,
        ids: Ids,
        tasks: Supervisor,
        metrics: Metrics,
        on_error: Callable[[LakelogError], None],
        peers: Peers | None = None,
        peer_listener: str = "",
    ) -> None:
        self.cluster_id = urlsafe_b64encode(namespace).rstrip(b"=").decode()
        self.heartbeat_ms = heartbeat_ms
        self._run, self._rack, self._knows_etcd = run, rack, knows_etcd
        self._clock, self._ids, self._tasks, self._metrics = clock, ids, tasks, metrics
        self._on_error = on_error
        self._perform_once = partial(_within, perform, heartbeat_ms / 1000)
        self._perform = working_async(self._perform_once)
        self.node = Node(
            BucketMembership(run, heartbeat_ms),
            clock=clock,
            interval_ms=heartbeat_ms,
            lanes=len(lanes),
            on_view=self._on_view,
            on_stored=self._tell_others,
            on_error=on_error,
        )
        self.leading = Leading(self.node, LedLanes(lanes, clock, tasks), clock, self._spawn)
        self._lanes = lanes
        self._mind_lanes()
        self._look = SharedLook(self._look_now)
        self._peers = peers or Peers(tasks, metrics)
        self._peer_listener = peer_listener
        """By which the others are called; nothing: the first one."""
        self._leaders: tuple[View, tuple[MetadataPartition, ...]] = (View(), ())
        """Who leads each lane, by a view."""
        lanes.on_growth, lanes.minds = self._lanes_grew, self.minds
        self._hints: dict[int, str] = {}
        self._lost: asyncio.Future[FencedError] | None = None
        self.on_hint: Callable[[], object] = lambda: None
        """Called when another broker has made or changed a topic."""

    # ------------------------------------------------------------------------ coming and going

    async def join(self, node_id: int | None, advertised: Mapping[str, tuple[str, int]]) -> None:
        """Become a member that starts; from now on it beats.

        Raises:
            LakelogError: the store does not answer, or the node id cannot be had.
        """
        listeners = {name: f"{host}:{port}" for name, (host, port) in advertised.items()}
        me = Member(
            node=-1,
            run=self._run,
            listeners=listeners,
            rack=self._rack,
            version=__version__,
            knows_etcd=self._knows_etcd,
        )
        await self._join(node_id, me)
        self._lost = asyncio.get_running_loop().create_future()
        self._tasks.keep("beats", partial(self._living, self.node.beats))
        self._tasks.keep("members", partial(self._living, self.node.lists))

    async def _join(self, node_id: int | None, me: Member) -> None:
        patient = working_async(retrying_async(self._perform_once))
        for _ in range(JOINS_MAX - 1):
            try:
                return await run_async(self.node.join(node_id, me), patient)
            except (UnavailableError, ConflictError) as error:
                self._on_error(error)
                await asyncio.sleep(JOIN_S)
        return await run_async(self.node.join(node_id, me), patient)

    async def prepare(self) -> None:
        """Take the lanes that this broker should lead, before anybody is told.

        Raises:
            LakelogError: the store does not answer.
        """
        await run_async(self.leading.prepare(), self._perform)

    async def begin(self) -> None:
        """Let others know that this broker serves.

        Raises:
            LakelogError: the store does not answer.
        """
        await run_async(self.leading.begin(), self._perform)
        self._tasks.keep("lane probes", partial(self._living, self.leading.probes))

    async def drain(self, within_ms: int) -> None:
        """Serve until others lead what this broker leads, for a while."""
        if await self._tell(State.DRAINING):
            await run_async(self.leading.hand_over(within_ms), self._perform)

    async def leave(self) -> None:
        """Say that this broker has gone."""
        await self._tell(State.LEFT)
        await self._peers.close()

    async def _tell(self, state: State) -> bool:
        """Let the others know, if the store takes it soon; otherwise they find out."""
        if not self.is_member:
            return False
        try:
            async with asyncio.timeout(LEAVE_S_MAX):
                await run_async(self.node.change(state), self._perform)
        except (LakelogError, TimeoutError) as error:
            what = str(error)[:256] or "no answer"
            self._on_error(
                UnavailableError(f"the others were not told that this broker is {state}: {what}")
            )
            return False
        return True

    @property
    def is_member(self) -> bool:
        """Whether it has joined, and nobody has taken its node id."""
        return self._lost is not None and not self._lost.done()

    async def lost(self) -> FencedError:
        """Wait until another process has taken the node id, and return what is told then."""
        assert self._lost is not None
        return await asyncio.shield(self._lost)

    def _spawn(self, flow: Work[None]) -> None:
        self._tasks.once("membership", self._living(lambda: flow))

    async def _living(self, flow: Callable[[], Work[None]]) -> None:
        """Run a flow of this member; it is none any more when another has its node id."""
        try:
            await run_async(flow(), self._perform)
        except FencedError as error:
            if self._lost is not None and not self._lost.done():
                self._on_error(error)
                self.node.leadership.dropped_all()
                self._lost.set_result(error)

    # ------------------------------------------------------------------------ views

    def _mind_lanes(self) -> None:
        for number, writer in self._lanes.items():
            writer.after_flush = partial(self.leading.flushed, number)

    def _lanes_grew(self) -> None:
        """Lead a share of the lanes that were added."""
        self._mind_lanes()
        self._leaders = (View(), ())
        self.node.have_lanes(len(self._lanes))

    def _on_view(self) -> None:
        """Act on what was seen."""
        self.leading.saw_view()
        seen = {node: one.hint for node, one in self.node.view.living.items()}
        seen.pop(self.node_id, None)
        is_new = any(self._hints.get(node, hint) != hint for node, hint in seen.items())
        self._hints = seen
        if is_new:
            self._tasks.call("hint", self.on_hint)

    def hint(self) -> None:
        """Let the others know that this broker has made or changed a topic."""
        if self.is_member:
            self._spawn(self.node.hint(self._ids().hex()))

    def _tell_others(self) -> None:
        """Let the others see what this broker has stored of itself."""
        me = self.node.stored
        if me.state is not State.STARTING:
            others = [node for node in self.node.view.living if node != me.node]
            listener = self._peer_listener or next(iter(me.listeners), "")
            self._peers.tell(me.node, self.addresses(others, listener))

    def hear(self) -> None:
        """Look at the members: one of them says that it has changed."""
        if self.is_member and not self._look.is_coming:
            self._tasks.once("members", self._look.take())

    async def look(self) -> bool:
        """See the members, by a list that begins now or later; False: there was no answer."""
        asked_ms = self._clock.boot_ms()
        await self._look.take()
        return self.node.view.begun_ms >= asked_ms

    async def _look_now(self) -> None:
        await run_async(self.node.look(self._clock.boot_ms()), self._perform)

    def trouble(self) -> str:
        """Say what keeps this broker from taking part; nothing if all is well."""
        if not self.is_member:
            return "another process has taken the node id of this broker"
        waited_ms = self._clock.boot_ms() - self.node.view.begun_ms
        if waited_ms > STALE_INTERVALS * self.heartbeat_ms:
            return (
                f"the list of brokers could not be read for {waited_ms // 1000} s: check the store "
                "and the network"
            )
        return ""

    # ------------------------------------------------------------------------ asking

    @property
    def node_id(self) -> int:
        return self.node.member.node

    def leads(self, lane: int) -> bool:
        """Whether requests for a lane are answered here; below 0: it is no lane, and they are."""
        return lane < 0 or self.node.leads(lane)

    def led(self) -> list[int]:
        """Return the lanes that are led here."""
        return list(self.node.leadership.epochs)

    def minds(self, lane: int) -> bool:
        """Whether this broker leads a lane, or should: one that it cannot take is its trouble."""
        return self.node.leads(lane) or self.node.lane_owner(lane) == self.node_id

    def brokers(self, listener: str) -> Sequence[MetadataBroker]:
        """Return the brokers that serve, as clients of a listener reach them."""
        return self.addresses(sorted(self.node.view.living), listener)

    def address(self, node: int, listener: str) -> MetadataBroker | None:
        """Return where clients of a listener find a broker; None: it does not serve them."""
        member = self.node.view.living.get(node)
        if member is None or member.state not in (State.SERVING, State.DRAINING):
            return None
        host, _, port = member.listeners.get(listener, "").rpartition(":")
        if not port.isdecimal():
            return None
        return MetadataBroker(node, host, int(port), member.rack)

    def addresses(self, nodes: Iterable[int], listener: str) -> Sequence[MetadataBroker]:
        """Return where clients of a listener find some brokers."""
        found = (self.address(node, listener) for node in nodes)
        return [one for one in found if one is not None]

    def lane_leaders(self) -> tuple[MetadataPartition, ...]:
        """Return who leads each lane, as partitions of it stand in a Metadata response.

        It follows from the view, and is made once for each.
        """
        view, leaders = self._leaders
        if view is not self.node.view:
            racks = self._racks()
            lanes = range(self.node.leadership.lanes)
            leaders = tuple(self._leader(lane, racks) for lane in lanes)
            self._leaders = self.node.view, leaders
        return leaders

    def _racks(self) -> dict[str, list[int]]:
        """Return the brokers that serve in each rack."""
        racks: dict[str, list[int]] = {}
        for node in self.node.view.serving:
            rack = self.node.view.living[node].rack
            if rack is not None:
                racks.setdefault(rack, []).append(node)
        return racks

    def _leader(self, lane: int, racks: Mapping[str, list[int]]) -> MetadataPartition:
        """Return who leads a lane, and a broker of each other rack, which reads it for consumers
        there: so they share what one broker has read.
        """
        told = self.node.told(lane)
        if told is None:
            return MetadataPartition()
        rack = self.node.view.living[told.node].rack
        others = [racks[one] for one in sorted(racks) if rack is not None and one != rack]
        count = self.node.leadership.lanes
        readers = (owners_of(nodes, count, "reader")[lane] for nodes in others)
        return MetadataPartition(told.node, told.epoch, (told.node, *readers))

    def reader_in(self, lane: int, rack: str) -> int:
        """Return the broker that consumers in a rack should read a lane from instead of this one,
        which leads it; -1: this one will do.
        """
        if not rack or rack == self._rack or lane < 0:
            return -1
        leader, _, replicas = self.lane_leaders()[lane]
        if leader != self.node_id:
            return -1
        living = self.node.view.living
        return next((node for node in replicas[1:] if living[node].rack == rack), -1)

    def reads(self, lane: int, rack: str) -> bool:
        """Whether this broker serves reads of a lane that another one leads, to its own rack."""
        if not rack or rack != self._rack:
            return False
        return self.node_id in self.lane_leaders()[lane].replicas[1:]

    async def known_lane_leaders(self) -> tuple[MetadataPartition, ...]:
        """The same. That nobody leads a lane is said after looking at the members."""
        leaders = self.lane_leaders()
        if any(one.leader < 0 for one in leaders):
            await self.look()
            leaders = self.lane_leaders()
        return leaders

    async def current_leader(self, lane: int) -> CurrentLeader | None:
        """Return who leads a lane that is not led here; None: that is not known now."""
        if not await self.look():
            return None
        told = self.node.told(lane)
        if told is None:
            return None
        self._metrics.redirects += 1
        return CurrentLeader(*told)

    def owner(self, kind: str, number: int, count: int) -> int:
        """Return the broker that serves one of so many things which no store tells of."""
        return owners_of(self.node.view.serving or (self.node_id,), count, kind)[number]


async def _within(perform: PerformAsync, seconds: float, op: Op) -> object:
    """Perform an operation, and wait no longer than a beat: the next one comes soon."""
    try:
        async with asyncio.timeout(max(seconds, 1.0)):
            return await perform(op)
    except TimeoutError:
        raise UnavailableError(f"{type(op).__name__} was not answered in time: retry") from None
