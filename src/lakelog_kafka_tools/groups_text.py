"""The tables of kafka-consumer-groups: columns padded with blanks, as ``printf`` makes them."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from lakelog_kafka_tools.group_admin import (
    Committed,
    Group,
    GroupListing,
    Member,
    TopicPartition,
)
from lakelog_kafka_tools.running import Console
from lakelog_kafka_tools.thrown import Thrown

__all__ = [
    "Plan",
    "Row",
    "deletions",
    "listing",
    "members",
    "offsets",
    "plan_text",
    "shows_members",
    "state",
]

_REBALANCING = {"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"}
_MISSING = "-"
Plan = dict[TopicPartition, int]
"""The offsets to which partitions of a group are reset."""


class Row(NamedTuple):
    """What is known of a partition that a group reads."""

    group: str
    topic: str
    partition: int
    committed: Committed | None
    end: int | None
    consumer: str
    host: str
    client: str

    @property
    def lag(self) -> int | None:
        if self.committed is None or self.end is None:
            return None
        return self.end - self.committed.offset


def _columns(widths: Sequence[int], values: Sequence[object]) -> str:
    """Return values in columns; one of width 0 is as wide as its value."""
    cells = (f"{value}".ljust(width) for width, value in zip(widths, values, strict=True))
    return " ".join(cells)


def _widest(least: int, values: Sequence[object]) -> int:
    """Return how wide a column must be for all its values."""
    return max([least, *(len(str(value)) for value in values)])


def _table(widths: Sequence[int], lines: Sequence[Sequence[object]]) -> str:
    """Return lines in columns, each behind a newline, as most tables are printed."""
    return "".join(f"\n{_columns(widths, line)}" for line in lines) + "\n"


def _shown(value: object) -> object:
    return _MISSING if value is None else value


def shows_members(group: Group, count: int, console: Console) -> bool:
    """Say whether there is a table to show, and print what is unusual about the group."""
    name = group.group_id
    if group.state == "Dead":
        console.say(f"\nError: Consumer group '{name}' does not exist.")
    elif group.state == "Empty":
        console.say_error(f"\nConsumer group '{name}' has no active members.")
    elif group.state in _REBALANCING:
        console.say_error(f"\nWarning: Consumer group '{name}' is rebalancing.")
    elif group.state != "Stable":
        raise Thrown(
            "org.apache.kafka.common.KafkaException",
            f"Expected a valid consumer group state, but found '{group.state}'.",
        )
    return group.state != "Dead" and count > 0


def listing(groups: Sequence[GroupListing], types: bool, states: bool) -> str:
    """Return the table of groups."""
    width = _widest(15, [group.group_id for group in groups]) + 10
    widths = [width] + [20] * (types + states)
    names = ["GROUP"] + ["TYPE"] * types + ["STATE"] * states
    rows = [
        [group.group_id, *([group.type] if types else []), *([group.state] if states else [])]
        for group in groups
    ]
    return "".join(f"{_columns(widths, row)}\n" for row in [names, *rows])


def offsets(rows: Sequence[Row], verbose: bool) -> str:
    """Return the table of a group's offsets."""
    names = ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"]
    widths = [
        _widest(15, [row.group for row in rows]),
        _widest(15, [row.topic for row in rows]),
        10,
        15,
        15,
        15,
        _widest(15, [row.consumer for row in rows]),
        _widest(15, [row.host for row in rows]),
        0,
    ]
    lines = [[*names, "CONSUMER-ID", "HOST", "CLIENT-ID"]]
    for row in rows:
        at = row.committed
        cells = [row.group, row.topic, row.partition, at.offset if at else None, row.end, row.lag]
        lines.append([str(_shown(one)) for one in (*cells, row.consumer, row.host, row.client)])
    if verbose:
        widths.insert(3, 15)
        epochs = [row.committed.leader_epoch if row.committed else None for row in rows]
        for line, epoch in zip(lines, ["LEADER-EPOCH", *epochs], strict=True):
            line.insert(3, str(_shown(epoch)))
    return _table(widths, lines)


def members(group: Group, verbose: bool, shown: bool) -> str:
    """Return the table of a group's members; of one that has none, its first line."""
    found = group.members
    # The width of columns is that of the members only where there is something to show.
    sized = found if shown else []
    has_instances = any(one.instance_id for one in sized)
    mixed = {one.is_upgraded for one in sized} >= {True, False}
    names = ["GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS"]
    widths = [
        _widest(15, [group.group_id] if sized else []),
        _widest(15, [one.member_id for one in sized]),
        _widest(17, [one.instance_id for one in sized]),
        _widest(15, [one.host for one in sized]),
        _widest(15, [one.client_id for one in sized]),
        15,
    ]
    more = ["CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT"]
    more_widths = [
        15,
        _widest(20, [_assignment(one.assigned) for one in sized]),
        15,
        _widest(20, [_assignment(one.target) for one in sized]),
    ]
    if mixed:
        more.append("UPGRADED")
        more_widths.append(0)
    lines: list[tuple[list[object], list[object]]] = [(list(names), list(more))]
    for one in found:
        first: list[object] = [group.group_id, one.member_id, one.instance_id, one.host]
        second = [*first, one.client_id, len(set(one.assigned))]
        lines.append((second, _more(one, group, mixed)))
    text = ""
    for left, right in lines:
        chosen = left if has_instances else left[:2] + left[3:]
        chosen_widths = widths if has_instances else widths[:2] + widths[3:]
        text += f"{_columns(chosen_widths, chosen)} "
        text += f"{_columns(more_widths, right)}\n" if verbose else "\n"
    return f"\n{text}"


def _more(member: Member, group: Group, mixed: bool) -> list[object]:
    upgraded = None if member.is_upgraded is None else str(member.is_upgraded).lower()
    cells: list[object] = [
        _shown(member.epoch),
        _assignment(member.assigned),
        _shown(group.target_epoch),
        _assignment(member.target),
    ]
    return [*cells, _shown(upgraded)] if mixed else cells


def _assignment(partitions: Sequence[tuple[str, int]]) -> str:
    found: dict[str, set[int]] = {}
    for topic, number in partitions:
        found.setdefault(topic, set()).add(number)
    parts = sorted(f"{topic}:{','.join(map(str, sorted(found[topic])))}" for topic in found)
    return ";".join(parts) or _MISSING


def state(group: Group, verbose: bool) -> str:
    """Return the table of a group's state."""
    node = group.coordinator
    coordinator = f"{node.host}:{node.port}  ({node.id})"
    names = ["GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE"]
    cells: list[object] = [group.group_id, coordinator, group.assignor or _MISSING, group.state]
    widths = [_widest(15, [group.group_id]), _widest(25, [coordinator]), 20, 20]
    if verbose:
        names += ["GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"]
        cells += [_shown(group.epoch), _shown(group.target_epoch)]
        widths += [15, 25]
    lines: list[list[object]] = [[*names, "#MEMBERS"], [*cells, len(group.members)]]
    return _table([*widths, 0], lines)


def deletions(results: Mapping[tuple[str, int], Thrown | None]) -> str:
    """Return the table of offsets that were to be deleted."""
    widths = [_widest(15, [topic for topic, _ in results]), 10, 15]
    lines: list[list[object]] = [["TOPIC", "PARTITION", "STATUS"]]
    for (topic, number), thrown in sorted(
        results.items(), key=lambda one: f"{one[0][0]}{one[0][1]}"
    ):
        status = "Successful" if thrown is None else f"Error: {thrown}"
        lines.append([topic, number if number >= 0 else _MISSING, status])
    return _table(widths, lines)


def plan_text(plans: Mapping[str, Plan]) -> str:
    """Return the table of the offsets to which groups are reset."""
    topics = [topic for plan in plans.values() for topic, _ in plan]
    widths = [_widest(15, list(plans)), _widest(15, topics), 10, 0]
    lines: list[list[object]] = [["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"]] if plans else []
    for name, plan in plans.items():
        lines += ([name, topic, number, offset] for (topic, number), offset in plan.items())
    return _table(widths, lines)
