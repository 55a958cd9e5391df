"""What members are to have: from subscriptions and topics to targets.

Topics come in with an event, as they are at that moment. A group keeps those that its members mean;
when they are others than before, or there are more partitions, its epoch rises and targets are made
anew. An expression means the same names for ever as far as topics stay, so it is enough to look at
the topics that all members mean together.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from lakelog.groups.consumer.assignors import ASSIGNORS, Subscriber
from lakelog.groups.consumer.group import ConsumerMember, ConsumerRoster
from lakelog.groups.events import ConsumerHeartbeat, TopicShape
from lakelog.groups.rules import GroupRules

__all__ = ["DEFAULT_ASSIGNOR", "find_topics", "preferred_assignor", "retarget"]

DEFAULT_ASSIGNOR = "uniform"

Matches = Mapping[str, frozenset[str] | None]


def find_topics(
    names: frozenset[str], patterns: frozenset[str], event: ConsumerHeartbeat, rules: GroupRules
) -> Mapping[str, TopicShape] | None:
    """Return the topics that members mean, in the order of names; None: they are too many."""
    wanted = set(names)
    for pattern in patterns:
        wanted |= event.matches.get(pattern) or frozenset()
    found = {name: event.topics[name] for name in sorted(wanted) if name in event.topics}
    is_small = sum(shape.partitions for shape in found.values()) <= rules.partitions_max
    return found if is_small else None


def retarget(roster: ConsumerRoster, matches: Matches) -> ConsumerRoster:
    """Return a roster whose targets are made for the epoch that it has."""
    subscribers = [
        Subscriber(one.id, one.instance_id, _topics(one, roster, matches), one.target)
        for one in roster.members.values()
    ]
    targets = ASSIGNORS[preferred_assignor(roster)](subscribers, roster.topics)
    members = {
        key: one if one.target == targets[key] else replace(one, target=targets[key])
        for key, one in roster.members.items()
    }
    return replace(roster, target_epoch=roster.epoch, members=members)


def _topics(member: ConsumerMember, roster: ConsumerRoster, matches: Matches) -> frozenset[str]:
    """Return the topics that a member means, of those that are there."""
    wanted = frozenset(member.names)
    if member.regex:
        wanted |= matches.get(member.regex) or frozenset()
    return wanted & roster.topics.keys()


def preferred_assignor(roster: ConsumerRoster) -> str:
    """Return the assignor that most members prefer; between equals, the first by name."""
    votes = Counter(one.assignor for one in roster.members.values() if one.assignor)
    return min(votes, key=lambda name: (-votes[name], name), default=DEFAULT_ASSIGNOR)
