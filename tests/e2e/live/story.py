"""Three topics that are written while they are kept, and what must be true of them in the end.

    plain    everything that its producers were told, record by record
    keyed    compacted: of each key the newest, at its offset
    brief    retention.bytes: everything that was told from where the log begins

A story knows what was told. It has no Spark of its own: an engine runs verbs and reads for it.
"""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from random import Random  # noqa: TID251 (seeded)

from lakelog.model import Rules
from lakelog.pipeline import plan_job
from tests.e2e.live.endless import Endless, Told
from tests.e2e.live.engines import VERBS, Engine, job_of
from tests.e2e.live.twins import Namespace, create_topic
from tests.e2e.live.views import Bucket, Range, View

__all__ = ["BRIEF", "KEYED", "PARTITIONS", "PLAIN", "RATE", "RULES", "Story"]

PLAIN, KEYED, BRIEF = "plain", "keyed", "brief"
PARTITIONS, KEYS = 3, 50
RATE = 50
PASSES_MAX = 20
"""To the end of a story, when nobody writes any more."""
RULES = Rules(lanes=2, grace_ms=4_000, checkpoint_every=16)
COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
SHORT = {"retention.bytes": "10000"}


class Story:
    """A broker on a namespace, and who writes its topics."""

    def __init__(self, namespace: Namespace) -> None:
        self.broker, self.place = namespace.broker, namespace.place
        self.bootstrap = bootstrap = namespace.broker.bootstrap
        self.bucket = Bucket(namespace.place)
        for topic, configs in ((PLAIN, {"retention.ms": "-1"}), (KEYED, COMPACTED), (BRIEF, SHORT)):
            create_topic(bootstrap, topic, PARTITIONS, **configs)
        self.plain = [
            Endless(number, bootstrap, PLAIN, partitions=PARTITIONS, rate=RATE)
            for number in range(2)
        ]
        self.keyed = Endless(2, bootstrap, KEYED, partitions=PARTITIONS, rate=RATE, keys=KEYS)
        self.brief = Endless(3, bootstrap, BRIEF, partitions=PARTITIONS, rate=RATE)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Everybody writes, and has been answered when it is over."""
        with ExitStack() as stack:
            for one in (*self.plain, self.keyed, self.brief):
                stack.enter_context(one)
            yield

    def acked(self) -> Told:
        """What the producers of the plain topic were told."""
        told: Told = {}
        for one in self.plain:
            assert not told.keys() & one.acked.keys(), "two were told the same"
            told |= one.acked
        return told

    def bounds(self, topic: str) -> dict[int, tuple[int, int]]:
        with View(self.bootstrap, topic) as view:
            return view.bounds(PARTITIONS)

    def some_range(self, chance: Random, topic: str = PLAIN) -> dict[int, tuple[int, int]]:
        """A random stretch of each partition; the last of them may be a moment old."""
        found = {}
        for number, (first, end) in self.bounds(topic).items():
            one, two = sorted(chance.randint(first, end) for _ in range(2))
            found[number] = one, two
        return found

    def compare(self, engine: Engine, topic: str, wanted: Range) -> Told:
        """See that a consumer and Spark are given the same; return it."""
        with View(self.bootstrap, topic) as view:
            read = view.read(wanted)
        assert engine.read(topic, wanted) == read
        return read

    def keep(self, engine: Engine, done: Counter[str], *, idle: bool = False) -> None:
        """Every verb once."""
        for verb in VERBS:
            began = time.monotonic()
            for outcome, count in engine.run(verb, idle=idle).items():
                done[f"{verb}: {outcome}"] += count
            done[f"{verb}: ms"] += round(1000 * (time.monotonic() - began))
        done["passes"] += 1

    def sweep(self, engine: Engine) -> None:
        """Nothing may be left that nobody names, when the grace of everything is over.

        A sweep must have seen what was replaced: from then on its grace counts.
        """
        engine.run("retain")
        time.sleep(RULES.grace_ms / 1000 + 0.5)  # noqa: TID251 (by the clock of the store)
        engine.run("retain")
        assert self.bucket.left_over() == set()

    def check(self, engine: Engine) -> Told:
        """All topics are what was acknowledged; return what Spark is given of the keyed one.

        A broker may still have in memory what was compacted or expired since, and give it to
        consumers. A new one sees what Spark sees.
        """
        assert self.compare(engine, PLAIN, self.bounds(PLAIN)) == self.acked()
        with View(self.bootstrap, KEYED) as view:
            before = view.read(view.bounds(PARTITIONS))
        self.broker.restart()
        left = self.compare(engine, KEYED, self.bounds(KEYED))
        assert self.compare(engine, PLAIN, self.bounds(PLAIN)) == self.acked()
        told = self.keyed.acked
        for found in (before, left):
            assert found.items() <= told.items(), "something stands where nobody was told"
            newest = {key: value for _, (key, value) in sorted(found.items()) if key is not None}
            assert newest == self.keyed.newest()
        self._check_brief(engine)
        return left

    def _check_brief(self, engine: Engine) -> None:
        bounds = self.bounds(BRIEF)
        told = self.brief.acked.items()
        kept = {at: record for at, record in told if at[1] >= bounds[at[0]][0]}
        assert self.compare(engine, BRIEF, bounds) == kept
        assert kept

    def _has_work(self, verb: str) -> bool:
        return bool(plan_job(job_of(verb, self.place))[0].units)

    def finish(self, engine: Engine, done: Counter[str]) -> Told:
        """Nobody writes: do what is left to do, sweep, and see that all is as it was told."""
        self.keep(engine, done, idle=True)
        # A run seals a few thousand bundles of a lane; how many there are says who was killed when.
        for _ in range(PASSES_MAX):
            if not self._has_work("seal"):
                break
            self.keep(engine, done, idle=True)
        self.keep(engine, done, idle=True)
        for verb in ("seal", "merge", "compact"):
            assert not self._has_work(verb), f"{verb} is not through"
        self.sweep(engine)
        left = self.check(engine)
        ends = [end for _, (_, end) in sorted(self.bounds(PLAIN).items())]
        assert self.bucket.sealed_ends(PLAIN) == ends
        # All of it was sealed and cleaned: of each key there is one record, and nothing else.
        assert len(left) == len(self.keyed.newest())
        done += Counter(plain=len(self.acked()), keyed=self.keyed.sent, brief=self.brief.sent)
        done += Counter(left=len(left))
        print(f"\n{dict(done)}")  # noqa: T201 (the figures)
        return left
