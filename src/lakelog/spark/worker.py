"""A Python process of Spark, spared the search for garbage that is not there.

PySpark collects garbage after every task, which looks at every object of the process. Numba and
Arrow bring half a million of them, all of which live as long as the worker: 70 milliseconds a task,
for nothing. So they are set aside, once, when a worker does its first task for us. (To ask Python
whether that was done would count them all.)

A plan of a million segments makes millions of values, and all of them stay. Python would look
through them again and again while they become more, for as long as it takes to make them.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

__all__ = ["disable_collector", "uncollected"]


@cache
def disable_collector() -> None:
    """Leave what is loaded by now out of every later collection: the first time it is called."""
    gc.collect()
    gc.freeze()


@contextmanager
def uncollected() -> Iterator[None]:
    """Make many values that stay, without looking for garbage among them."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
