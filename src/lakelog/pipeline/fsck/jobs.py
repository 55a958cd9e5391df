"""verify and reindex on a namespace: every object, held against every other that speaks of it.

    cluster.json, topics     decode, and are whose they say                        cells      plan
    heads, tails, holes      what a listing of a lane should show                  lanes      plan
    bundles, checkpoints     one chain; checkpoints are its fold                   chains     steps
    journal and history      meet, without a gap                                   borders    steps
    manifests, pages         in order, of this partition, what their rows add up   histories  plan
    segments, indexes        every byte, as the manifest has it                    segments   steps
    groups                   decode, and are in their shard                        cells      steps

Outcomes. ``damaged`` is what no correct writer leaves behind; findings name the objects, both of
them where two contradict each other and either may be wrong. Everything else is told and is no
damage: ``gone``, by the time it was looked at; ``unindexed`` and ``uncheckpointed``, a derived
object is missing; ``stale``, a tail; ``undeleted``, a keeper is due; ``orphan``, a sweep will come;
``stranger``, nobody knows the name; ``unclaimed``, a shard of groups that no broker made yet;
``unjudged``, because of damage that is told elsewhere, or of credentials that may not read it.

A namespace is verified while it is used. So nothing that looks missing or changed is told before
the cell that vouches for it, a head or a manifest, was read again.

What no other object speaks of cannot be contradicted. Cells have no checksum: a wrong config, time
or committed offset, a later start of a log, a generation or an intent that reads well passes.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakelog.catalog import BUCKET, Namespace, Topic
from lakelog.errors import NotFoundError
from lakelog.manifests import PartitionPath
from lakelog.names import topic_key
from lakelog.pipeline.frame import (
    MISSING,
    SOURCE,
    Connect,
    Plan,
    Result,
    SourceJob,
    Step,
    Subject,
    at_store,
)
from lakelog.pipeline.fsck.borders import Border, borders_of, check_border
from lakelog.pipeline.fsck.cells import (
    CLUSTER,
    Shards,
    Topics,
    check_shards,
    look_at_acls,
    look_at_claim,
    look_at_namespace,
    look_at_quotas,
    look_at_users,
    read_topics,
)
from lakelog.pipeline.fsck.census import (
    SYSTEM_PREFIX,
    Folder,
    System,
    folders_of,
    strangers_in,
    system_of,
)
from lakelog.pipeline.fsck.chains import BundleRange, check_stretch
from lakelog.pipeline.fsck.histories import NamedSegment, look_at_folder
from lakelog.pipeline.fsck.lanes import look_at_lane
from lakelog.pipeline.fsck.segments import check_segment, mend_segment
from lakelog.pipeline.listing import missing_results
from lakelog.ports import Host
from lakelog.segments import NAMESPACE, Selection
from lakelog.store import (
    LIST_LIMIT_MAX,
    ObjectInfo,
    Usage,
    Work,
    each_object,
    run,
    run_by_threads,
)

__all__ = ["ReindexNamespace", "VerifyNamespace"]

PIECE_BYTES = 8 << 20
"""What one request reads of a segment."""
FLOWS = 16
"""Topics are read in so many flows."""
FOLDERS_MAX = 1024
OBJECTS_MAX = 1 << 16
"""Folders are looked at when there are so many of them, or so many names in them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyNamespace(SourceJob):
    """Verify a namespace: history, journal and cells.

    With topics chosen, their history alone is looked at: a lane is everybody's.
    """

    host: Host
    records: bool = False
    """Decode every record, too."""

    verb = "verify"

    def plan(self, connect: Connect) -> Plan:
        """List everything, read the cells, and cut the rest into units.

        Raises:
            NotFoundError: there is no namespace here.
        """
        survey = _Survey(connect(SOURCE), self.source.url, self.selection)
        survey.look(journal=self.selection == Selection())
        return survey.plan(passes=2 if self.records else 1)

    def step(self, unit: BundleRange | Border | NamedSegment | Shards) -> Step[Result]:
        """Verify one unit."""
        return (yield from at_store(SOURCE, self._flow(unit)))

    def _flow(self, unit: BundleRange | Border | NamedSegment | Shards) -> Work[Result]:
        match unit:
            case NamedSegment():
                return check_segment(unit, records=self.records)
            case BundleRange():
                return check_stretch(unit, records=self.records)
            case Border():
                return check_border(unit, self.host)
            case Shards():
                return check_shards(unit)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReindexNamespace(SourceJob):
    """Make the indexes of a namespace's segments again, where they are missing or wrong."""

    verb = "reindex"

    def plan(self, connect: Connect) -> Plan:
        """Find the segments that manifests name.

        Raises:
            NotFoundError: there is no namespace here.
        """
        survey = _Survey(connect(SOURCE), self.source.url, self.selection)
        survey.look(journal=False)
        return survey.plan(told=("damaged", MISSING))

    def step(self, unit: NamedSegment) -> Step[Result]:
        """Look at one segment, and make what it lacks."""
        return (yield from at_store(SOURCE, mend_segment(unit)))


# ---------------------------------------------------------------------------- planning


class _Survey:
    """What a driver learns before anything is read in full."""

    def __init__(self, perform: Callable[[Any], Any], url: str, selection: Selection) -> None:
        self._perform, self._url, self._selection = perform, url, selection
        self._system = System()
        self._topics = Topics({}, {})
        self._units: list[Any] = []
        self._results: list[Result] = []
        self._listed = 0

    def look(self, *, journal: bool) -> None:
        """Look at the cells and the history, and at the journal if that is wanted.

        Raises:
            NotFoundError: there is no namespace here.
        """
        namespace = self._open()
        if namespace is None:
            return
        self._look_at_topics(namespace.rules.lanes)
        if journal:
            self._look_at_lanes(namespace)
        self._look_at_history()

    def _open(self) -> Namespace | None:
        """Return the namespace; None if its cell is bad.

        Raises:
            NotFoundError: there is none.
        """
        self._system = system_of(self._list(SYSTEM_PREFIX))
        try:
            found = run(look_at_namespace(), self._perform)
        except NotFoundError:
            if not self._system.count:
                raise
            what = "it is missing, and lanes or topics are there: restore it"
            found = CLUSTER.found("damaged", what)
        if isinstance(found, Result):
            self._results.append(found)
            return None
        return found

    def _look_at_topics(self, lanes: int) -> None:
        """Read the cells of the topics that are wanted."""
        names = [name for name in self._system.topics if self._may_want(name)]
        flows = [read_topics(names[at::FLOWS], lanes) for at in range(min(FLOWS, len(names)))]
        for some in run_by_threads(flows, self._perform):
            self._topics.good.update(some.good)
            self._topics.bad.update(some.bad)
        self._results += self._topics.bad.values()
        for name in sorted(self._topics.good.keys() - self._topics.bad.keys()):
            self._results.append(Subject(name, -1, 0, topic_key(name)).result("good"))
        chosen = self._selection
        if chosen != Selection():
            others = self._system.topics
            self._results += missing_results(self._url, NAMESPACE, chosen, names, others=others)

    def _look_at_lanes(self, namespace: Namespace) -> None:
        """Look at the lanes, and at all else that is everybody's."""
        rules, system = namespace.rules, self._system
        wheres: dict[int, list[PartitionPath]] = {}
        for topic in self._topics.incarnations().values():
            for partition in range(topic.partitions):
                where = topic.path_of(partition)
                wheres.setdefault(topic.lane(partition), []).append(where)
        numbers = sorted({*range(rules.lanes), *system.lanes})
        flows = [look_at_lane(number, system.lanes.get(number), rules) for number in numbers]
        for number, looked in zip(numbers, run_by_threads(flows, self._perform), strict=True):
            self._results += looked.results
            self._units += looked.stretches
            if looked.head is not None:
                self._units += borders_of(number, rules, wheres.get(number, []))
        # Those of earlier moves are empty, and a fence; and etcd is not asked here.
        shards = tuple(shard for move, shard in system.shards if move == namespace.moves)
        if shards and namespace.metadata == BUCKET:
            self._units.append(Shards(shards, namespace.moves))
        for look in (look_at_claim, look_at_acls, look_at_users, look_at_quotas):
            damage = run(look(), self._perform)
            if damage is not None:
                self._results.append(damage)
        self._tell_strangers(SYSTEM_PREFIX.rstrip("/"), system.strangers)

    def _look_at_history(self) -> None:
        """Read the manifest of every folder that is wanted."""
        owners = self._topics.incarnations()
        unreadable = self._topics.bad.keys() - self._topics.good.keys()
        strangers: list[str] = []
        some: list[Folder] = []
        objects = 0
        for found in self._folders():
            if isinstance(found, str):
                strangers.append(found)
                continue
            name = found.path.partition("~")[0]
            if name not in unreadable and self._selection.wants(name, found.partition):
                some.append(found)
                objects += len(found.objects)
            if len(some) >= FOLDERS_MAX or objects >= OBJECTS_MAX:
                self._look_at_folders(some, owners)
                some, objects = [], 0
        self._look_at_folders(some, owners)
        self._tell_strangers("", strangers)

    def _look_at_folders(self, folders: Sequence[Folder], owners: Mapping[str, Topic]) -> None:
        flows = [look_at_folder(folder, owners.get(folder.path)) for folder in folders]
        for folder, looked in zip(folders, run_by_threads(flows, self._perform), strict=True):
            self._results += looked.results
            self._units += looked.segments
            self._tell_strangers(folder.prefix.rstrip("/"), folder.strangers)

    def _folders(self) -> Iterator[Folder | str]:
        if self._selection == Selection():
            yield from folders_of(self._list(""))
            return
        for path in sorted(self._topics.incarnations()):
            yield from folders_of(self._list(f"{path}/"))

    def _list(self, prefix: str) -> Iterator[ObjectInfo]:
        for info in each_object(self._perform, prefix):
            self._listed += 1
            yield info

    def _may_want(self, name: str) -> bool:
        chosen = self._selection
        if chosen.partitions is not None:
            return any(topic == name for topic, _ in chosen.partitions)
        return chosen.wants(name, 0)

    def _tell_strangers(self, folder: str, keys: list[str]) -> None:
        told = strangers_in(folder, keys)
        if told is not None:
            self._results.append(told)

    def plan(self, *, passes: int = 1, told: tuple[str, ...] = ()) -> Plan:
        """Return all work, and of what is known already the outcomes in ``told``, or all."""
        total = passes * sum(unit.size for unit in self._units)
        gets = sum(3 + unit.size // PIECE_BYTES for unit in self._units) + len(self._results)
        lists = self._listed // LIST_LIMIT_MAX + 2
        return Plan(
            units=self._units,
            objects_read=self._listed,
            expected=Usage(requests={"get": gets, "list": lists}, bytes_read=total),
            results=tuple(one for one in self._results if not told or one.outcome in told),
        )
