"""The consumer groups of a simulated broker: the real flows of shards and claims, and thin glue."""

from typing import TYPE_CHECKING

from lakelog.coordination import (
    BucketGroups,
    ClaimedShard,
    ShardClaims,
    decode_group,
    encode_group,
)
from lakelog.errors import FencedError, LakelogError, UnavailableError
from lakelog.groups import Committed, Durable, Offsets, Roster, TopicIdPartition
from lakelog.store import Wait, Work
from lakelog.testing.cluster.city import INTERVAL_MS, SHARDS, Reply

if TYPE_CHECKING:
    from lakelog.testing.cluster.brokers import ClusterBroker

__all__ = ["ClusterGroups"]

CLAIMS_MS = 500
RETRY_MS = 100


class ClusterGroups:
    """The shards of one run of a broker."""

    def __init__(self, broker: "ClusterBroker") -> None:
        self._broker, self._city = broker, broker.city
        self._store = BucketGroups(broker.run, SHARDS)
        self._rules = ShardClaims(self._store, broker.node, broker.process, INTERVAL_MS)
        self._claims: set[int] = set()
        self.held: dict[int, ClaimedShard] = {}
        self._commits: dict[int, list[tuple[str, int, Reply]]] = {n: [] for n in range(SHARDS)}
        self._saving: set[int] = set()
        self.releasing: set[int] = set()

    def claim_all(self) -> Work[None]:
        """Claim the shards that this broker should own, as soon as it may."""
        while not self._broker.is_draining:
            for shard in range(SHARDS):
                is_due = self._rules.is_due(shard, SHARDS)
                if is_due and shard not in self.held and shard not in self._claims:
                    self._claims.add(shard)
                    self._broker.spawn(self._claim(shard))
            yield Wait(CLAIMS_MS)

    def _claim(self, shard: int) -> Work[None]:
        try:
            held = yield from self._rules.claim(shard, SHARDS)
        except FencedError:
            self._city.count("claim lost")
        except LakelogError:
            self._city.count("claim failed")
        else:
            if held is not None:
                self.held[shard] = held
                self._city.count("shard claimed")
        finally:
            self._claims.discard(shard)

    def _fenced(self, held: ClaimedShard) -> Work[None]:
        """Another broker has a shard: remember who."""
        shard = held.shard
        if (now := self.held.get(shard)) is not None and now.claim != held.claim:
            return  # That was an earlier claim: it was taken back meanwhile.
        self.held.pop(shard, None)
        for *_, reply in self._commits[shard]:
            reply("not coordinator", None)
        self._commits[shard] = []
        yield from self._rules.fenced(shard)

    def release(self, shard: int) -> Work[None]:
        if shard in self.releasing:
            return
        self.releasing.add(shard)
        try:
            while shard in self._saving:
                yield Wait(20)
            held = self.held.pop(shard, None)
            for *_, reply in self._commits[shard]:
                reply("not coordinator", None)
            self._commits[shard] = []
            while held is not None:
                try:
                    yield from self._store.release(held)
                    break
                except UnavailableError:
                    yield Wait(RETRY_MS)
                except FencedError:
                    break
        finally:
            self.releasing.discard(shard)

    def commit(self, shard: int, group: str, offset: int, reply: Reply) -> Work[None]:
        """Store an offset."""
        yield from ()
        if shard not in self.held or shard in self.releasing:
            reply("not coordinator", None)
            return
        self._commits[shard].append((group, offset, reply))
        if shard not in self._saving:
            self._saving.add(shard)
            self._broker.spawn(self._save(shard))

    def _save(self, shard: int) -> Work[None]:
        taken: list[tuple[str, int, Reply]] = []
        held = self.held.get(shard)
        try:
            while self._commits[shard] and (held := self.held.get(shard)) is not None:
                taken, self._commits[shard] = self._commits[shard], []
                changed = {group: _group(group, offset) for group, offset, _ in taken}
                while True:
                    try:
                        self.held[shard] = yield from self._store.save(held, changed)
                        break
                    except UnavailableError:
                        yield Wait(RETRY_MS)
                for *_, reply in taken:
                    reply("ok", None)
        except FencedError:
            for *_, reply in taken:
                reply("not coordinator", None)
            if held is not None:
                yield from self._fenced(held)
        finally:
            self._saving.discard(shard)

    def fetch_offset(self, shard: int, group: str, reply: Reply) -> Work[None]:
        """Say what was committed, under a look that was begun after the request."""
        held = self.held.get(shard)
        if held is None:
            reply("not coordinator", None)
            return
        try:
            yield from self._store.look(held)
        except FencedError:
            reply("not coordinator", None)
            yield from self._fenced(held)
            return
        except LakelogError:
            reply("retry", None)
            return
        now = self.held.get(shard, held)
        body = now.groups.get(group)
        reply("ok", -1 if body is None else _offset(body, group))

    def find_coordinator(self, shard: int, reply: Reply) -> Work[None]:
        """Say who coordinates a shard: its holder if that lives, else who should."""
        if shard in self.held:
            reply("ok", self._broker.id)
            return
        try:
            found = yield from self._rules.coordinator(shard, SHARDS)
        except LakelogError:
            reply("retry", None)
        else:
            reply("retry" if found is None else "ok", found)


def _group(name: str, offset: int) -> bytes:
    rows = {TopicIdPartition(bytes(16), 0): Committed(offset, -1, "", 0)}
    return encode_group(Durable(id=name, roster=Roster(), offsets=Offsets.of(rows)))


def _offset(body: bytes, name: str) -> int:
    rows = decode_group(body, name).offsets.rows
    return max(row.offset for row in rows.values())
