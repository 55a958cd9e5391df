"""Every topic of a namespace, by one listing. A cell that cannot be read stops no other.

news      what changed since the last time: what a broker can ask again and again
damaged   cells that are no topics, or of a later version, or that had no answer, and topics
          whose name was reserved after they were made. They are *not known*, which is not the
          same as *not there*: whoever leaves them out says so.
"""

from collections.abc import Callable
from typing import NamedTuple

from lakelog.catalog.topic_cells import Topic, decode_topic
from lakelog.errors import CorruptError, InvalidInputError, LakelogError
from lakelog.names import STAGING, TOPICS_PREFIX, is_topic_name, topic_key
from lakelog.store import Work, list_objects, read_cell, together, tried

__all__ = ["Marks", "News", "list_topics", "news_of_topics"]

Marks = dict[str, tuple[str, int, int]]
"""What a listing says of the cell of each topic: if that is the same, so is the topic."""


class News(NamedTuple):
    """What a listing has brought."""

    topics: dict[str, Topic]
    """Also deleted ones."""
    damaged: dict[str, LakelogError]
    """Topics that cannot be read, and why."""


def list_topics() -> Work[list[Topic]]:
    """Return every topic, also deleted ones. What has no name of a topic is not ours.

    Raises:
        LakelogError: one of them cannot be read. ``news_of_topics`` has the others.
    """
    news = yield from news_of_topics({})
    for error in news.damaged.values():
        raise error
    return [*news.topics.values()]


def news_of_topics(marks: Marks, wants: Callable[[str], bool] = lambda _: True) -> Work[News]:
    """Return the topics that are not as ``marks`` has them, and bring it up to date.

    One listing, and a read for each that changed and is wanted. One that is damaged is read again
    the next time: somebody may have mended it.

    Raises:
        LakelogError: the topics cannot be listed.
    """
    objects = yield from list_objects(TOPICS_PREFIX)
    found = {info.key.removeprefix(TOPICS_PREFIX): info for info in objects}
    seen = {
        name: (info.etag, info.size, info.modified_ms)
        for name, info in found.items()
        if (name == STAGING or is_topic_name(name)) and wants(name)
    }
    names = [name for name, mark in seen.items() if marks.get(name) != mark]
    news = News({}, {})
    topics = yield from together(tried(_read(name)) for name in names)
    for name, topic in zip(names, topics, strict=True):
        if isinstance(topic, LakelogError):
            news.damaged[name] = topic
        else:
            news.topics[name] = topic
    marks.update({name: seen[name] for name in news.topics})
    return news


def _read(name: str) -> Work[Topic]:
    cell = yield from read_cell(topic_key(name))
    if cell is None:
        # A cell survives the deletion of its topic: nothing of lakelog has taken it away.
        what = "it was listed and is gone: restore it from a backup"
        raise CorruptError(what, at=0, where=topic_key(name))
    topic = decode_topic(cell.body, name)
    if name == STAGING and not topic.deleted:
        raise InvalidInputError(
            f"topic {name!r} has a name that is reserved: its records cannot be sealed; read them, "
            f"and delete it with lakelog topic delete {name}"
        )
    return topic
