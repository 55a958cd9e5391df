"""A Python worker of Spark, made to last.

PySpark collects garbage after every task, which looks at every object of the process. Numba and
Arrow bring half a million of them, all of which live as long as the worker: 70 milliseconds a task,
for nothing. So they are set aside, once, when a worker does its first task for us.
"""

import gc

__all__ = ["settle"]


def settle() -> None:
    """Leave what is loaded by now out of every later collection."""
    if not gc.get_freeze_count():
        gc.collect()
        gc.freeze()
