"""The frame of every verb: plan, steps, report.

    plan     listings in, units of work and their price out      the driver, before anything runs
    step     a unit -> a Result; a flow                          an executor, or this process
    report   all Results, summed up                              the driver

A unit is the smallest work that can be done, and done again, by itself: mostly one segment. Units
are packed into tasks by bytes. A step may be killed anywhere and run twice at once: what it writes
it creates under a name and with bytes that follow from its input alone.

Most verbs are done when their steps are. One whose units depend on each other has a driver's part
as well (``Committing``): its steps only make objects, and after each wave of them a ``Committer``
lets the manifests name what was made. So what was done before a failure stays done.

A step asks for what it needs by yielding a ``StoreRequest``: an operation, and the name of the
store it is for. So the same step runs in a Spark task and in a single process. Clocks and ids are
those of the ``Host`` that a job was made with. What is wrong with the data is a Finding in the
Result. A store that does not answer is an error: the task fails, and Spark tries it again.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, runtime_checkable

from lakelog.errors import CorruptError, InvalidInputError, LakelogError, UnsupportedError
from lakelog.flows import through
from lakelog.ports import Host
from lakelog.segments import Selection
from lakelog.store import WORK, StoreSpec, Usage

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "BAD",
    "FINDINGS_MAX",
    "MISSING",
    "SOURCE",
    "TARGET",
    "UNSEALED",
    "UNVERIFIABLE",
    "Committer",
    "Committing",
    "Connect",
    "Finding",
    "FindingCollector",
    "Job",
    "Plan",
    "Result",
    "SourceJob",
    "Step",
    "StoreRequest",
    "Subject",
    "TargetJob",
    "Task",
    "Unit",
    "at_store",
    "failed",
    "pack",
]

T = TypeVar("T")

SOURCE, TARGET = "source", "target"
"""The names of the store that is read, and of the one that is written."""

FINDINGS_MAX = 100
"""How many findings of one unit are kept. All are counted."""

BAD = frozenset({"damaged", "different", "refused"})
"""Outcomes after which a run has not done what was asked for."""
MISSING = "missing"
"""What was asked for is not there."""
UNSEALED = "unsealed"
"""Records of a namespace whose segments alone were looked at: they are only in its journal."""
UNVERIFIABLE = "unverifiable"
"""Nothing wrong was found, and most of what could be wrong would not have been: there is no
checksum."""


class StoreRequest(NamedTuple):
    """Something a step asks for: an operation, and the store it is for."""

    store: str
    op: Any


Step = Generator[StoreRequest, Any, T]

Connect = Callable[[str], Callable[[Any], Any]]
"""Opens a store by its name, and returns what performs operations there."""


def at_store(store: str, flow: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
    """Run a flow of store operations as a part of a step; what else it yields is handed on."""

    def each(item: Any) -> Generator[Any, Any, Any]:
        return (yield StoreRequest(store, item) if isinstance(item, WORK) else item)

    return through(flow, each)


class Finding(NamedTuple):
    """Something that is not as it should be."""

    object: str
    position: int
    """-1: it is about all of it, and ``what`` is a whole sentence."""
    size: int
    """Bytes that are lost by it; 0 when none are."""
    what: str


class FindingCollector:
    """Findings on their way into a Result: counted all, kept some."""

    def __init__(self, *findings: Finding) -> None:
        self.kept, self.count = list(findings[:FINDINGS_MAX]), len(findings)

    @property
    def is_full(self) -> bool:
        """Whether no more are kept."""
        return self.count >= FINDINGS_MAX

    def add(self, key: str, what: str, *, at: int = 0, size: int = 0) -> None:
        """Take note of what is wrong with an object, where, and how many bytes are lost by it."""
        if not self.is_full:
            self.kept.append(Finding(key, at, size, what))
        self.count += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What became of one unit."""

    topic: str
    partition: int
    base_offset: int
    object: str
    outcome: str
    """One word; those in BAD mean that the run did not do what was asked for."""

    records: int = 0
    batches: int = 0
    findings: tuple[Finding, ...] = ()
    findings_count: int = 0
    made: str = ""
    """What the driver is to commit, as JSON; the verb knows."""
    usage: Usage = field(default_factory=Usage)
    """Filled in by whoever runs the step."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What a result is about."""

    topic: str
    partition: int
    base_offset: int
    object: str

    def result(
        self,
        outcome: str,
        findings: FindingCollector | None = None,
        *,
        records: int = 0,
        batches: int = 0,
        made: str = "",
    ) -> Result:
        """Return what became of it."""
        return Result(
            topic=self.topic,
            partition=self.partition,
            base_offset=self.base_offset,
            object=self.object,
            outcome=outcome,
            records=records,
            batches=batches,
            findings=() if findings is None else tuple(findings.kept),
            findings_count=0 if findings is None else findings.count,
            made=made,
        )

    def found(
        self, outcome: str, what: str, *, key: str = "", at: int = 0, size: int = 0
    ) -> Result:
        """Return a result with one finding: about it, or about the object ``key``."""
        finding = Finding(key or self.object, at, size, what)
        return self.result(outcome, FindingCollector(finding))

    def failed(self, error: LakelogError) -> Result:
        """Return the result of something that an error has ended: it is damaged, or refused."""
        if isinstance(error, CorruptError | UnsupportedError):
            return self.found("damaged", error.what, key=error.where, at=error.at)
        return self.found("refused", str(error))


def failed(what: str, error: LakelogError, *, topic: str = "", partition: int = 0) -> Result:
    """Return the result of something that stopped only itself; ``what`` names it."""
    return Subject(topic, partition, 0, what).failed(error)


class Unit(Protocol):
    """The smallest piece of work; can be pickled."""

    @property
    def size(self) -> int:
        """Bytes it reads, about: what tasks are balanced by."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What one executor does in one go."""

    units: tuple[Any, ...]
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All work of a run, and what it will take."""

    units: Sequence[Any]
    objects_read: int
    objects_written: int = 0
    expected: Usage
    """Requests and bytes, about; listing what is there is among them."""

    results: tuple[Result, ...] = ()
    """What is known without any work."""

    known: Any = None
    """What a Committer wants to know; it stays on the driver."""


class Job(Protocol):
    """A verb and what it is to work on: a value, so that it reaches executors as it is."""

    @property
    def verb(self) -> str: ...

    @property
    def stores(self) -> Mapping[str, StoreSpec]:
        """The stores its requests are for, by name."""
        ...

    def plan(self, connect: Connect) -> Plan:
        """Look at what is there and decide."""
        ...

    def step(self, unit: Any) -> Step[Result]:
        """Do one unit."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceJob:
    """What jobs have in common that read one store."""

    source: StoreSpec
    selection: Selection = field(default_factory=Selection)

    @property
    def stores(self) -> Mapping[str, StoreSpec]:
        return {SOURCE: self.source}


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetJob:
    """What jobs have in common that change one namespace."""

    target: StoreSpec
    host: Host

    @property
    def stores(self) -> Mapping[str, StoreSpec]:
        return {TARGET: self.target}


class Committer(Protocol):
    """The driver's part of one run: lets count what steps have made."""

    @property
    def job(self) -> Job:
        """The job whose steps are run."""
        ...

    def commit(self, table: "pa.Table") -> Sequence[Result]:
        """Take in the results of a wave, in the order of topic, partition and base offset.

        Returns what the driver has to add to them.
        """
        ...

    def end(self) -> Sequence[Result]:
        """Close, after the last wave, if all was good or it ends anyway; return what is not."""
        ...


@runtime_checkable
class Committing(Protocol):
    """A verb whose steps only make objects."""

    @property
    def one_wave(self) -> bool:
        """Whether everything is committed at once."""
        ...

    @property
    def ends_anyway(self) -> bool:
        """Whether it is closed also after a unit that was bad: what it closes with stands alone."""
        ...

    def begin(self, plan: Plan, connect: Connect) -> Committer:
        """Announce what will be made."""
        ...


def pack(units: Iterable[Unit], task_bytes: int) -> Iterator[Task]:
    """Yield tasks of about ``task_bytes`` each; a larger unit is a task by itself."""
    if task_bytes < 1:
        raise InvalidInputError(f"tasks of {task_bytes} bytes: use 1 or more")
    held: list[Unit] = []
    size = 0
    for unit in units:
        if held and size + unit.size > task_bytes:
            yield Task(units=tuple(held), size=size)
            held, size = [], 0
        held.append(unit)
        size += unit.size
    if held:
        yield Task(units=tuple(held), size=size)
