"""Stories of groups: above a line of dashes what happens, below it what the machine does then.

    0 join a              a member that is called a here; it uses the id it was given last
    0 join a fresh        the same, having forgotten its id
    10 sync a 1 a=x b=y   generation 1; what the leader decides for whom
    20 heartbeat a 1
    30 commit a 1 t/0=17  topic t, partition 0; ``commit - -1`` is from outside of the group
    40 leave a  or  leave @instance
    50 tick | sweep | gone t | delete | restart | describe | offsets
    60 forget t/0 u/1     an operator deletes offsets
    70 topics t=3 u=2     these are there from now on; ``t=3:b`` is another one of the same name
    70 beat a 0 names=t   a member of the newer protocol joins with epoch 0
    80 beat a 1 owned=t/0,t/1
    ----
    persist roster
    reply join a: NONE generation=1 ... (after roster)
    Stable generation=1 members=a-1

Options of a join: ``instance=i session=10000 rebalance=60000 protocols=range:meta,sticky v=9
type=consumer subscribes=t,u``. Options of a beat: ``names=t,u regex=t.* owned= rebalance=60000
instance=i rack=r assignor=range v=1 full``. Rules of a story stand in a line ``rules
initial_rebalance_delay_ms=0``.
"""

import re
import struct
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from lakelog.groups import (
    Answer,
    AnyGroup,
    Code,
    Commit,
    CommitAnswer,
    ConsumerAnswer,
    ConsumerGroup,
    ConsumerHeartbeat,
    Delete,
    DeleteOffsets,
    DeleteOffsetsAnswer,
    Event,
    GroupRules,
    Heartbeat,
    Identity,
    Join,
    JoinAnswer,
    Leave,
    LeaveAnswer,
    NewOffset,
    Now,
    Offer,
    Persist,
    Reply,
    Sweep,
    Sync,
    SyncAnswer,
    Tick,
    TopicIdPartition,
    TopicsGone,
    TopicShape,
    absent,
    advance,
    describe,
    revive,
)

__all__ = ["FOLDER", "replay"]

FOLDER = Path(__file__).parent / "groups"
DASHES = "----"
WALL_MS = 1_000_000
"""What the wall clock shows when the other one shows 0."""


class Story:
    """One group and everybody around it."""

    def __init__(self) -> None:
        self.group: AnyGroup = absent("g")
        self.topics: dict[str, TopicShape] = {}
        self.rules = GroupRules()
        self.ids: dict[str, str] = {}
        self.counts: dict[str, int] = {}
        self.labels: dict[int, str] = {}
        self.shown = ""

    def play(self, line: str) -> Iterator[str]:
        """Let one thing happen, and tell what the machine does."""
        time, *words = line.split()
        if time == "rules":
            self.rules = GroupRules(**{key: int(n) for key, n in map(_pair, words)})
            return
        now = Now(int(time), WALL_MS + int(time))
        command, *rest = words
        match command:
            case "restart":
                durable = self.group.durable
                self.group = absent("g") if durable is None else revive(durable, now, self.rules)
            case "describe":
                assert not isinstance(self.group, ConsumerGroup)
                yield str(describe(self.group))
            case "topics":
                self.topics = {name: _shape(name, said) for name, said in map(_pair, rest)}
            case "offsets":
                for place, row in sorted(self.group.offsets.rows.items()):
                    yield f"{_places([place])} {row}"
            case _:
                event = self.event(command, rest)
                self.group, effects = advance(self.group, event, now, self.rules)
                yield from map(self.tell, effects)
        state = _state(self.group)
        if state != self.shown:
            yield state
        self.shown = state

    # ------------------------------------------------------------------------ events

    def event(self, command: str, rest: list[str]) -> Event:
        match command:
            case "tick":
                return Tick()
            case "sweep":
                return Sweep()
            case "gone":
                return TopicsGone(frozenset(map(_topic, rest)))
        ticket = len(self.labels) + 1
        self.labels[ticket] = " ".join([command, *rest[:1]])
        match command:
            case "join":
                return self.join(ticket, *rest)
            case "sync":
                name, generation, *more = rest
                given = dict(map(_pair, more))
                return Sync(
                    ticket=ticket,
                    member_id=self.id_of(name),
                    instance_id=given.pop("instance", None),
                    generation=int(generation),
                    protocol=given.pop("protocol", None),
                    assignments=tuple((self.id_of(k), v.encode()) for k, v in given.items()),
                )
            case "heartbeat":
                name, generation, *more = rest
                instance = dict(map(_pair, more)).get("instance")
                return Heartbeat(
                    ticket=ticket,
                    member_id=self.id_of(name),
                    instance_id=instance,
                    generation=int(generation),
                )
            case "leave":
                return Leave(ticket=ticket, members=tuple(map(self.identity, rest)))
            case "commit":
                name, generation, *more = rest
                return Commit(
                    ticket=ticket,
                    member_id=self.id_of(name),
                    generation=int(generation),
                    offsets=tuple(_offset(*_pair(one)) for one in more),
                )
            case "delete":
                return Delete(ticket=ticket)
            case "forget":
                places = tuple(map(_place, rest))
                names = {place.topic_id: _name(place.topic_id) for place in places}
                return DeleteOffsets(ticket=ticket, partitions=places, names=names)
            case "beat":
                return self.beat(ticket, *rest)
        raise AssertionError(f"{command}: no such command")

    def join(self, ticket: int, name: str, *options: str) -> Join:
        given = dict(map(_pair, options))
        if "fresh" in given:
            self.ids.pop(name, None)
        self.counts[name] = self.counts.get(name, 0) + 1
        version = int(given.get("v", 9))
        offers = (_pair(one, ":") for one in given.get("protocols", "range").split(","))
        said = _list(given.get("subscribes"))
        return Join(
            ticket=ticket,
            member_id=self.id_of(given.get("id", name)),
            new_member_id=f"{name}-{self.counts[name]}",
            instance_id=given.get("instance"),
            client_id=name,
            client_host="/h",
            session_timeout_ms=int(given.get("session", 10_000)),
            rebalance_timeout_ms=int(given.get("rebalance", 60_000)),
            protocol_type=given.get("type", "consumer"),
            offers=tuple(
                Offer(key, value.encode() if said is None else _subscription(said))
                for key, value in offers
                if key
            ),
            needs_id=version >= 4,
            may_skip=version >= 9,
        )

    def beat(self, ticket: int, name: str, epoch: str, *options: str) -> ConsumerHeartbeat:
        given = dict(map(_pair, options))
        is_full = epoch == "0" or "full" in given
        rebalance = given.get("rebalance", "60000" if is_full else "-1")
        owned = given.get("owned", "" if is_full else None)
        regex = given.get("regex")
        names = _list(given.get("names"))
        patterns = {regex} if regex else set()
        if isinstance(self.group, ConsumerGroup):
            patterns |= self.group.patterns
        return ConsumerHeartbeat(
            ticket=ticket,
            member_id="" if name == "-" else name,
            new_member_id="new",
            needs_id=given.get("v", "1") != "0",
            epoch=int(epoch),
            instance_id=given.get("instance"),
            rack_id=given.get("rack"),
            client_id="c",
            client_host="/h",
            rebalance_timeout_ms=int(rebalance),
            names=None if names is None else tuple(names),
            regex=regex,
            assignor=given.get("assignor"),
            owned=None if owned is None else frozenset(map(_place, _list(owned) or ())),
            topics=self.topics,
            matches={one: _matches(one, self.topics) for one in patterns},
        )

    def id_of(self, name: str) -> str:
        if name == "-":
            return ""
        return name if "-" in name else self.ids.get(name, "")

    def identity(self, word: str) -> Identity:
        return Identity("", word[1:]) if word.startswith("@") else Identity(self.id_of(word))

    # ------------------------------------------------------------------------ effects

    def tell(self, effect: Persist | Reply) -> str:
        if isinstance(effect, Persist):
            return f"persist {effect.part.value}"
        label = self.labels[effect.ticket]
        after = "" if effect.waits_for is None else f" (after {effect.waits_for.value})"
        answer = effect.answer
        if isinstance(answer, JoinAnswer) and answer.code in (Code.NONE, Code.MEMBER_ID_REQUIRED):
            self.ids[label.split()[1]] = answer.member_id
        if isinstance(answer, ConsumerAnswer) and answer.code is Code.NONE:
            self.ids[label.split()[1]] = answer.member_id
        return f"reply {label}: {_said(answer)}{after}"


def _said(answer: Answer) -> str:
    match answer:
        case Code():
            return answer.name
        case JoinAnswer(code=Code.NONE):
            members = ",".join(f"{one.member_id}:{_text(one.metadata)}" for one in answer.members)
            parts = [
                f"NONE {answer.member_id} generation={answer.generation}",
                f"protocol={answer.protocol} leader={answer.leader}",
                f"members={members}" if members else "",
                "skip" if answer.skip_assignment else "",
            ]
            return " ".join(filter(None, parts))
        case JoinAnswer():
            return f"{answer.code.name} {answer.member_id}".rstrip()
        case SyncAnswer(code=Code.NONE):
            return f"NONE {answer.assignment.decode()}".rstrip()
        case SyncAnswer():
            return answer.code.name
        case CommitAnswer():
            return " ".join(code.name for code in answer.codes)
        case LeaveAnswer():
            gone = [f"{who.member_id or '@' + str(who.instance_id)}:{code.name}"
                    for who, code in answer.members]  # fmt: skip
            return " ".join([answer.code.name, *gone])
        case DeleteOffsetsAnswer():
            return " ".join(code.name for code in (answer.code, *answer.codes))
        case ConsumerAnswer(code=Code.NONE):
            has = "" if answer.assignment is None else f" has={_places(answer.assignment)}"
            return f"NONE {answer.member_id} epoch={answer.epoch}{has}"
        case ConsumerAnswer():
            return f"{answer.code.name} ({answer.message})"


def _text(data: bytes) -> str:
    text = data.decode(errors="replace")
    return text if text.isprintable() else f"{len(data)} bytes"


def _state(group: AnyGroup) -> str:
    if not isinstance(group, ConsumerGroup):
        state = f"{group.state.value} generation={group.generation}"
        return state + f" members={','.join(group.members)}"
    roster = group.roster
    epochs = f"epoch={roster.epoch}"
    if roster.target_epoch != roster.epoch:
        epochs += f" target={roster.target_epoch}"
    parts = [f"{group.state.value} {epochs}"]
    for one in roster.members.values():
        revoking = f"-{_places(one.revoking)}" if one.revoking else ""
        parts.append(f"{one.id}:{one.epoch}[{_places(one.assigned)}]{revoking}")
    return " ".join(parts)


def _pair(word: str, mark: str = "=") -> tuple[str, str]:
    key, _, value = word.partition(mark)
    return key, value


def _topic(name: str) -> bytes:
    return name.encode().ljust(16, b"\0")


def _name(topic_id: bytes) -> str:
    return topic_id.rstrip(b"\0").decode()


def _shape(name: str, said: str) -> TopicShape:
    partitions, _, other = said.partition(":")
    return TopicShape(_topic(name + other), int(partitions))


def _place(where: str) -> TopicIdPartition:
    topic, _, partition = where.partition("/")
    return TopicIdPartition(_topic(topic), int(partition))


def _places(places: Iterable[TopicIdPartition]) -> str:
    return ",".join(f"{_name(topic_id)}/{partition}" for topic_id, partition in sorted(places))


def _list(said: str | None) -> list[str] | None:
    return None if said is None else [one for one in said.split(",") if one]


def _matches(pattern: str, names: Iterable[str]) -> frozenset[str] | None:
    try:
        return frozenset(name for name in names if re.fullmatch(pattern, name))
    except re.error:
        return None


def _subscription(names: list[str]) -> bytes:
    """Return what a classic consumer says of itself."""
    texts = [struct.pack(f">h{len(name)}s", len(name), name.encode()) for name in names]
    return struct.pack(">hi", 1, len(names)) + b"".join(texts) + struct.pack(">i", -1)


def _offset(where: str, value: str) -> NewOffset:
    offset, _, metadata = value.partition(":")
    return NewOffset(_place(where), int(offset), 3, metadata)


# ---------------------------------------------------------------------------- files


def replay(text: str) -> str:
    """Return a transcript with what really happens in it."""
    story = Story()
    out: list[str] = []
    told: list[str] | None = None
    for line in text.splitlines():
        if told is None and line == DASHES:
            out += [line, *(told := list(_all(story, out)))]
        elif told is not None:
            if not line.strip():
                out.append("")
                told = None
        else:
            out.append(line)
    return "\n".join(out).rstrip("\n") + "\n"


def _all(story: Story, out: list[str]) -> Iterator[str]:
    """Play the lines above the dashes."""
    at = len(out)
    while at and out[at - 1].strip() and not out[at - 1].startswith("#"):
        at -= 1
    told = [line for each in out[at:] for line in story.play(each)]
    return iter(told or ["nothing"])


def main(*names: Any) -> None:
    """Write what happens into every transcript, or some; the diff is the review."""
    for path in sorted(FOLDER.glob("*.txt")):
        if not names or path.stem in names:
            path.write_text(replay(path.read_text()))


if __name__ == "__main__":
    main(*sys.argv[1:])
