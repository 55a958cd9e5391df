"""A scripted world for stories of the journal: one store, two clocks, and what happens when.

    script = Script()
    lane = script.lane()
    script.on(PutIfAbsent, bundle_key(0, 3), script.lose_answer)        the first such operation
    script.on(Get, head_key(0), script.before(raise_the_floor), nth=2)  the second

Everything is performed on a ``MemoryStore``, in the order in which it is asked for. Between any two
operations a story may let something happen: an answer is lost, another lane appends, the floor
rises and what lies below it is deleted, hours pass. Waiting lets both clocks go on. A flow that
asks for too much is taken to run in circles, and fails the test.
"""

from collections.abc import Callable, Iterable
from typing import Any

from lakelog.errors import UnavailableError
from lakelog.journal import (
    Append,
    Head,
    Lane,
    Outcome,
    Request,
    append,
    decode_head,
    encode_head,
    learn,
    new_append,
    write_checkpoint,
)
from lakelog.model import Rules
from lakelog.names import bundle_key, checkpoint_key, head_key, tail_key
from lakelog.store import (
    Delete,
    Exists,
    Get,
    Many,
    MemoryStore,
    Meter,
    Op,
    Perform,
    PutIfAbsent,
    PutIfMatch,
    Wait,
    Work,
    metered,
    run,
    working,
)
from lakelog.testing import make_batch

__all__ = ["EPOCH_MS", "RULES", "TOPIC", "Clock", "Script", "kinds", "make_append", "plain", "sent"]

EPOCH_MS = 1_700_000_000_000
TOPIC = b"the-topic-of-all"
RULES = Rules(grace_ms=4_000, checkpoint_every=4)
OPS_MAX = 3_000


class Clock:
    """Both clocks of a machine; a test turns them."""

    def __init__(self) -> None:
        self.wall = EPOCH_MS
        self.boot = 1_000

    def now_ms(self) -> int:
        return self.wall

    def boot_ms(self) -> int:
        return self.boot

    def pass_ms(self, ms: int) -> None:
        self.wall += ms
        self.boot += ms


class Script:
    """A namespace of one lane, and a list of things that will happen."""

    def __init__(self, rules: Rules = RULES) -> None:
        self.rules = rules
        self.clock = Clock()
        self.store_clock = Clock()
        self.store = MemoryStore(now_ms=self.store_clock.now_ms)
        self.meter = Meter()
        self.asked: list[Op] = []
        self._counted = metered(self.store.perform, self.meter)
        self._plans: list[tuple[type[Op], str, int, Perform]] = []
        self._ids = 0
        self.put(head_key(0), encode_head(Head(lane=0)))

    # ------------------------------------------------------------------------ running

    def perform(self, op: Op) -> Any:
        """Perform an operation, or what was planned for it."""
        self.asked.append(op)
        assert len(self.asked) < OPS_MAX, f"it runs in circles: {self.asked[-6:]}"
        for at, (kind, key, left, do) in enumerate(self._plans):
            if isinstance(op, kind) and getattr(op, "key", "") == key:
                if left > 1:
                    self._plans[at] = kind, key, left - 1, do
                    continue
                del self._plans[at]
                return do(op)
        return self._counted(op)

    def run(self, work: Work[Any]) -> Any:
        return run(work, working(self.perform, sleep=self._sleep))

    def _sleep(self, seconds: float) -> None:
        self.pass_ms(round(seconds * 1000))

    def pass_ms(self, ms: int) -> None:
        """Let time pass everywhere."""
        self.clock.pass_ms(ms)
        self.store_clock.pass_ms(ms)

    # ------------------------------------------------------------------------ what happens

    def on(self, kind: type[Op], key: str, do: Perform, nth: int = 1) -> None:
        """Let ``do`` take the place of the n-th operation of a kind on a key, from now on."""
        self._plans.append((kind, key, nth, do))

    @property
    def is_told(self) -> bool:
        """Whether all that was planned has happened."""
        return not self._plans

    def lose_request(self, _: Op) -> Any:
        """Nothing is stored, and there is no answer."""
        raise UnavailableError("the request was lost: retry")

    def lose_answer(self, op: Op) -> Any:
        """It is stored, and there is no answer."""
        self._counted(op)
        raise UnavailableError("the answer was lost: retry")

    def say_exists(self, _: Op) -> Any:
        """The store says that the key is occupied, whether or not it is."""
        return Exists()

    def before(self, happen: Callable[[], object]) -> Perform:
        """Return what lets something happen, and then performs the operation."""

        def do(op: Op) -> Any:
            happen()
            return self._counted(op)

        return do

    def then_lost(self, happen: Callable[[], object]) -> Perform:
        """Return what lets something happen, and the request get lost."""

        def do(op: Op) -> Any:
            happen()
            return self.lose_request(op)

        return do

    # ------------------------------------------------------------------------ objects

    def put(self, key: str, body: bytes) -> None:
        """Store an object, whatever stands there."""
        self.store.perform(Delete(key))
        self.store.perform(PutIfAbsent(key, body))

    def get(self, key: str) -> bytes:
        body: bytes = self.store.perform(Get(key)).body
        return body

    def has(self, key: str) -> bool:
        return key in self.store._objects

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            self.store.perform(Delete(key))

    def raise_floor(self, floor: int, checkpoint: int) -> None:
        """Swap the head, as a trimmer does."""
        found = self.store.perform(Get(head_key(0)))
        head = decode_head(found.body, 0).raised(floor, checkpoint, found.info.modified_ms)
        self.store.perform(PutIfMatch(head_key(0), encode_head(head), found.info.etag))

    def trim(self, floor: int, checkpoint: int) -> None:
        """Raise the floor, wait for the whole grace, and delete what lies below."""
        self.raise_floor(floor, checkpoint)
        self.pass_ms(self.rules.grace_ms)
        self.delete(bundle_key(0, seq) for seq in range(floor))
        self.delete(checkpoint_key(0, seq) for seq in range(floor))

    # ------------------------------------------------------------------------ lanes

    def ids(self) -> bytes:
        self._ids += 1
        return self._ids.to_bytes(16, "big")

    def lane(self, rules: Rules | None = None) -> Lane:
        """Return the lane as a new process sees it, which knows nothing yet."""
        return Lane(
            number=0,
            rules=rules or self.rules,
            clock=self.clock,
            ids=self.ids,
            writer=self.ids(),
        )

    def append(self, lane: Lane, *requests: Request) -> tuple[Outcome, ...]:
        outcomes: tuple[Outcome, ...] = self.run(append(lane, requests))
        return outcomes

    def grow(self, lane: Lane, bundles: int) -> None:
        """Append bundles, and write every checkpoint that becomes due."""
        for number in range(bundles):
            self.append(lane, plain(1_000 + number))
            self.run(write_checkpoint(lane))

    def learned(self) -> Lane:
        """Return a lane that has just been learned."""
        lane = self.lane()
        self.run(learn(lane))
        return lane

    def forget_tail(self) -> None:
        self.delete([tail_key(0)])


def make_append(
    number: int,
    count: int = 1,
    producer: tuple[int, int, int] = (-1, -1, -1),
    *,
    partition: int = 0,
    topic: bytes = TOPIC,
) -> Append:
    """Return a request whose bytes nobody else has; ``producer`` is id, epoch, sequence."""
    return new_append(topic, partition, make_batch(number, count, producer, EPOCH_MS))


def plain(number: int, count: int = 1, *, partition: int = 0, topic: bytes = TOPIC) -> Append:
    """Return a batch without identity."""
    return make_append(number, count, partition=partition, topic=topic)


def sent(
    sequence: int, count: int = 1, *, producer: int = 7, epoch: int = 0, topic: bytes = TOPIC
) -> Append:
    """Return a batch of an idempotent producer."""
    return make_append(100 + sequence, count, (producer, epoch, sequence), topic=topic)


def kinds(ops: Iterable[Op | Many | Wait]) -> list[str]:
    """Return what was asked for, by kind."""
    return [type(op).__name__ for op in ops]
