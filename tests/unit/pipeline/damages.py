"""Damage at random, and the judge of what a verify must have noticed of it.

    flip      one bit of one object
    delete    one object
    swap      two objects of one kind

``kinds`` sorts the keys that mean something: what lies below a floor, was dropped, or is named by
nobody may be anything. ``excuse`` says why damage may pass in silence, and is the whole list:

    no object speaks of it      what a cell says of itself alone: times, configs, writers, a later
                                start; which checkpoint a tail names; the claim of a shard
    the end of a lane           bundles behind which nothing stands, and that nobody has sealed
    what can be made again      a checkpoint that is not due, or the newest; a tail
    what a deletion leaves      the cell and the manifests of a topic that is deleted

A head may also name another floor, or stand on another checkpoint, and be as right: then every log
reads as before (``logs``).
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from random import Random  # noqa: TID251 (seeded)

from lakelog.catalog import Topic, list_topics, open_namespace
from lakelog.catalog.topic_cells import decode_topic
from lakelog.coordination import decode_shard
from lakelog.errors import CorruptError, UnsupportedError
from lakelog.formats import decode_fields
from lakelog.formats.lanes import decode_bundle
from lakelog.host import SystemClock, new_id
from lakelog.journal import Head, Lane, decode_head
from lakelog.log import Chunk, bounds, read
from lakelog.manifests import SegmentRow, decode_manifest, decode_page
from lakelog.names import seq_of
from lakelog.store import Work

Objects = dict[str, bytes]

_KINDS = (
    "cluster.json", "lakelog/pipeline", "topics/", "groups/", "head", "tail",
    ".bundle", ".checkpoint", "manifest", ".json", ".kfs", ".timeindex", ".index",
)  # fmt: skip


@dataclass(frozen=True)
class Damage:
    """What was done, and the objects after it."""

    how: str
    keys: tuple[str, ...]
    at: int
    objects: Objects

    def __str__(self) -> str:
        return f"{self.how} {' and '.join(self.keys)} at {self.at}"


def kind_of(key: str) -> str:
    return next(kind for kind in _KINDS if kind in key)


def kinds(objects: Objects) -> dict[str, list[str]]:
    """Return the keys that mean something, by kind."""
    found: dict[str, list[str]] = {}
    for key in sorted(objects):
        if _means_something(key, objects):
            found.setdefault(kind_of(key), []).append(key)
    return found


def _means_something(key: str, objects: Objects) -> bool:
    if key.startswith(("_lakelog/time/", "_lakelog/staged/", "_lakelog/brokers/")):
        return False
    seq, folder = seq_of(key), key.rpartition("/")[0]
    if seq is not None:
        return seq >= head_of(folder, objects).floor
    stem = re.fullmatch(r"((?:segment|page)-[0-9a-f-]+)\..*", key.rpartition("/")[2])
    return stem is None or stem[1] in _named(folder, objects)


def head_of(folder: str, objects: Objects) -> Head:
    return decode_head(objects[f"{folder}/head"], int(folder.rpartition("/")[2]))


def _named(folder: str, objects: Objects) -> set[str]:
    """The names that a manifest and its pages have for real."""
    body = objects.get(f"{folder}/manifest")
    if body is None:
        return set()
    manifest = decode_manifest(body)
    names = {page.name for page in manifest.pages} | {row.name for row in manifest.segments}
    for page in manifest.pages:
        names |= {row.name for row in decode_page(objects[f"{folder}/{page.name}.json"])}
    return names


def draw(random: Random, objects: Objects) -> Damage:
    """Damage something: each way is as likely as the others, and so is each kind of object."""
    found = kinds(objects)
    how = random.choice(("flip", "delete", "swap"))
    if how == "swap":
        pairs = {kind: keys for kind, keys in found.items() if len(keys) > 1}
        while True:
            one, two = random.sample(pairs[random.choice(sorted(pairs))], 2)
            if objects[one] != objects[two]:
                swapped = {one: objects[two], two: objects[one]}
                return Damage(how, (one, two), 0, objects | swapped)
    key = random.choice(found[random.choice(sorted(found))])
    if how == "delete" or not objects[key]:
        return Damage("delete", (key,), 0, {k: v for k, v in objects.items() if k != key})
    body = bytearray(objects[key])
    at = random.randrange(len(body))
    body[at] ^= 1 << random.randrange(8)
    return Damage(how, (key,), at, objects | {key: bytes(body)})


def logs() -> Work[dict[tuple[str, int], str]]:
    """Return a digest of every log, from its start to its end."""
    rules = (yield from open_namespace()).rules
    found: dict[tuple[str, int], str] = {}
    for topic in (yield from list_topics()):
        for partition in range(topic.partitions if topic.is_open else 0):
            lane = Lane(
                number=topic.lane(partition), rules=rules, clock=SystemClock(), ids=new_id,
                writer=bytes(16),
            )  # fmt: skip
            where, digest = topic.path_of(partition), sha256()
            at = (yield from bounds(lane, where)).log_start
            while True:
                chunk = yield from read(lane, where, at, 1 << 22)
                if not isinstance(chunk, Chunk) or not chunk.body:
                    break
                digest.update(chunk.body)
                at = chunk.next_offset
            found[topic.name, partition] = f"{digest.hexdigest()} to {at}"
    return found


# ---------------------------------------------------------------------------- what may pass


def excuse(damage: Damage, before: Objects, key: str) -> str:
    """Say why damage of ``key`` may pass in silence; nothing if it may not."""
    kind = kind_of(key)
    if kind == "tail" or (kind == "lakelog/pipeline" and damage.how == "delete"):
        return "it is advisory"
    if damage.how == "delete":
        return _excuse_loss(kind, key, before)
    if damage.how == "flip":
        try:
            if _vouched(key, before[key]) == _vouched(key, damage.objects[key]):
                return "no object speaks of it"
        except (CorruptError, UnsupportedError):
            return ""
    if damage.how == "swap" and kind == "manifest" and _is_forgotten(key, before):
        husks = before[key], damage.objects[key]
        if all(decode_manifest(body).deleted for body in husks):
            return "its topic is deleted"  # And whose it was, nobody remembers.
    return ""


def _is_forgotten(key: str, objects: Objects) -> bool:
    """Whether no cell remembers the topic of a manifest."""
    path = key.split("/")[0]
    name = path.partition("~")[0]
    body = objects.get(f"_lakelog/topics/{name}")
    if body is None:
        return True
    return path not in {one.path for one in decode_topic(body, name).incarnations()}


def _excuse_loss(kind: str, key: str, before: Objects) -> str:
    folder = key.rpartition("/")[0]
    if kind == ".checkpoint":
        every, seq = _every(before), seq_of(key) or 0
        last = max(_seqs(folder, ".bundle", before))
        if seq != head_of(folder, before).checkpoint and ((seq + 1) % every or seq > last - every):
            return "it is made again"
    if kind == ".bundle":
        seq = seq_of(key) or 0
        last = max(_seqs(folder, ".bundle", before))
        checkpoints = _seqs(folder, ".checkpoint", before)
        if seq == last and all(one < seq for one in checkpoints) and not _sealed(key, before):
            return "nothing stands behind it"
    if kind == "manifest" and decode_manifest(before[key]).deleted:
        return "its topic is deleted"
    if kind == "topics/":
        topic = decode_topic(before[key], key.rpartition("/")[2])
        manifests = _manifests(topic, before)
        if all(decode_manifest(body).deleted for body in manifests):
            return "nothing is left of it"
    return ""


def _seqs(folder: str, suffix: str, objects: Objects) -> list[int]:
    return [
        seq_of(key) or 0 for key in objects if key.startswith(folder + "/") and key.endswith(suffix)
    ]


def _every(objects: Objects) -> int:
    every: int = decode_fields(objects["_lakelog/cluster.json"], format_=1, where="", known=None)[
        "checkpoint_every"
    ]
    return every


def _manifests(topic: Topic, objects: Objects) -> Iterator[bytes]:
    for one in topic.incarnations():
        for partition in range(one.partitions):
            body = objects.get(f"{one.path}/{partition}/manifest")
            if body is not None:
                yield body


def _sealed(key: str, objects: Objects) -> bool:
    """Whether a manifest reaches into a bundle."""
    bundle, _ = decode_bundle(objects[key])
    manifests = [
        decode_manifest(body) for name, body in objects.items() if name.endswith("/manifest")
    ]
    ends = {(one.topic, one.partition): max(one.sealed_end, one.log_start) for one in manifests}
    return any(ends.get(one.topic_partition, 0) > one.base_offset for one in bundle.slices)


def _vouched(key: str, body: bytes) -> object:
    """What of an object other objects can contradict; of most it is every byte."""
    judge = _VOUCHED.get(kind_of(key))
    return body if judge is None else judge(key, body)


def _of_manifest(_: str, body: bytes) -> object:
    now = decode_manifest(body)
    ends = now.sealed_end if now.sealed_end > now.log_start else None
    return now.topic, now.partition, now.deleted, now.pages, _rows(now.segments), ends


def _rows(rows: tuple[SegmentRow, ...]) -> list[SegmentRow]:
    return [row._replace(generation=0) for row in rows]


def _of_topic(key: str, body: bytes) -> object:
    topic = decode_topic(body, key.rpartition("/")[2])
    ids = [row.id for row in topic.retired]
    return topic.name, topic.id, topic.incarnation, topic.lanes, topic.deleted, ids


def _of_head(key: str, body: bytes) -> object:
    now = decode_head(body, int(key.split("/")[-2]))
    return now.floor, now.checkpoint


def _of_shard(key: str, body: bytes) -> object:
    now = decode_shard(body, int(key.rpartition("/")[2]))
    return now.shard, now.shards


def _of_cluster(_: str, body: bytes) -> object:
    return _field(body, "lanes")


def _of_claim(_: str, body: bytes) -> object:
    return type(_field(body, "until_ms"))


def _field(body: bytes, name: str) -> object:
    try:
        return decode_fields(body, format_=1, where="", known=None)[name]
    except (ValueError, TypeError, KeyError) as error:
        raise CorruptError(repr(error), at=0) from error


_VOUCHED: Mapping[str, Callable[[str, bytes], object]] = {
    "manifest": _of_manifest,
    ".json": lambda _, body: _rows(decode_page(body)),
    "topics/": _of_topic,
    "head": _of_head,
    "groups/": _of_shard,
    "cluster.json": _of_cluster,
    "lakelog/pipeline": _of_claim,
}
