"""What is in the bucket in the end, held against everything else that is there.

Every object is read (``lakelog pipeline verify``): one that contradicts another is ``damaged``. In
a namespace that is kept, maintenance goes on until it has nothing left to do: then whatever nobody
names is an ``orphan`` that no sweep would ever find.
"""

import contextlib
import time
from collections.abc import Iterator

from lakelog.catalog import open_namespace
from lakelog.errors import LakelogError
from lakelog.host import THIS_HOST, SystemClock, new_id
from lakelog.journal import Lane
from lakelog.maintenance import SealSettings, maintain
from lakelog.pipeline import run_here
from lakelog.pipeline.fsck import VerifyNamespace
from lakelog.store import StoreSpec, retrying, run, working

__all__ = ["audited"]

SWEPT_S = 60.0
_AGAIN_S = 3.0
_LEFT = ("orphan", "stranger")


def audited(place: StoreSpec, *, is_kept: bool) -> list[str]:
    """Return what is wrong, each with the rule that it breaks before a colon."""
    deadline = time.monotonic() + SWEPT_S
    while True:
        if is_kept:
            with contextlib.suppress(LakelogError):  # What keeps it from that is found below.
                _maintain(place)
        try:
            found = list(_found(place, is_kept=is_kept))
        except LakelogError as error:
            return [f"unreadable: {str(error)[:300]}"]
        is_left = any(one.startswith("orphan") for one in found)
        if not is_left or time.monotonic() > deadline:
            return found
        time.sleep(_AGAIN_S)  # noqa: TID251 (a grace has to pass)


def _maintain(place: StoreSpec) -> None:
    perform = working(retrying(place.open().perform))
    rules = run(open_namespace(), perform).rules
    lanes = {
        number: Lane(number=number, rules=rules, clock=SystemClock(), ids=new_id, writer=new_id())
        for number in range(rules.lanes)
    }
    run(maintain(lanes, SealSettings()), perform)


def _found(place: StoreSpec, *, is_kept: bool) -> Iterator[str]:
    report = run_here(VerifyNamespace(host=THIS_HOST, source=place))
    for row in report.table.to_pylist():
        outcome = row["outcome"]
        if outcome == "damaged" or (is_kept and outcome in _LEFT):
            rule = "damaged" if outcome == "damaged" else "orphan"
            for finding in row["findings"] or [row]:
                yield f"{rule}: {str(finding)[:300]}"
