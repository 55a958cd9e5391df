"""The topics that a verb is to work on. One that cannot be read is a result, and stops no other."""

from collections.abc import Callable
from typing import Any

from lakelog.catalog import Topic, news_of_topics, open_namespace
from lakelog.errors import LakelogError, NotFoundError
from lakelog.manifests import PartitionPath
from lakelog.pipeline.frame import Result, failed
from lakelog.segments import Selection
from lakelog.store import run

__all__ = ["failed_partition", "list_wanted"]


def list_wanted(
    selection: Selection, perform: Callable[[Any], Any]
) -> tuple[list[Topic], list[Result]]:
    """Return the topics that are wanted, also deleted ones, and results of those that are damaged.

    Raises:
        NotFoundError: there is no namespace, or a topic that is named is not there.
        LakelogError: the topics cannot be listed.
    """
    run(open_namespace(), perform)
    news = run(news_of_topics({}, selection.wants_some), perform)
    missing = sorted((selection.topics or frozenset()) - {*news.topics, *news.damaged})
    if missing:
        raise NotFoundError(f"there is no topic {', '.join(missing)}: check the name")
    bad = [failed(f"topic {name}", error, topic=name) for name, error in news.damaged.items()]
    return [*news.topics.values()], bad


def failed_partition(topic: Topic, where: PartitionPath, error: LakelogError) -> Result:
    """Return the result of a partition that stopped only itself."""
    what = f"{where.prefix}manifest"
    return failed(what, error, topic=topic.name, partition=where.partition)
