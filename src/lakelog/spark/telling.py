"""What Spark shows of an error that a query ends with: its sentence, and not how it came about.

Plans are made in a Python process that Spark starts for each. What is raised there, Spark shows
with every frame that it came through, the reason last. Our errors are sentences for whoever wrote
the query, to whom frames of ours say nothing; a fault of this program keeps them. Spark leaves them
out where a variable of that process says so, and the process ends with the error it has told.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from lakelog.errors import LakelogError

__all__ = ["told_plainly"]


@contextmanager
def told_plainly() -> Iterator[None]:
    """Let Spark show errors of the block, or of the function it decorates, without frames."""
    try:
        yield
    except LakelogError:
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"  # noqa: TID251 (by which Spark is told)
        raise
