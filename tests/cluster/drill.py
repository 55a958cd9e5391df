"""A bucket is copied while it is written to, with nothing but lists, gets and puts.

    groups -> topics -> heads -> manifests -> all else     the order of the passes: see the how-to

What refers to something is copied before what it refers to, which is there for the grace period
at least: so whatever the copy speaks of is in it. Offsets come first: none is beyond the records.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from lakelog.store import Get, ListPage, PutIfAbsent, StoreSpec

__all__ = ["LEFT_OUT", "PASSES", "copy_bucket", "passes_of"]

LEFT_OUT = r"_lakelog/(brokers|time)/.*|_lakelog/pipeline|lakelog-probe/.*"
"""Who runs there is no business of the copy."""

PASSES = (
    r"_lakelog/(cluster\.json|groups/.*|mirror/.*)",
    r"_lakelog/topics/.*",
    r"_lakelog/lanes/\d+/head",
    r".*/manifest",
    r".*",
)

OBJECT_BYTES_MAX = 1 << 30


def passes_of(page: Path) -> tuple[str, ...]:
    """Return the passes that a page tells people to make."""
    return tuple(re.findall(r"^\| \d \| `([^`]+)` \|", page.read_text(), re.MULTILINE))


def copy_bucket(source: str, target: str, options: Mapping[str, str]) -> int:
    """Copy all objects, pass by pass; return how many."""
    old, new = StoreSpec(source, options).open(), StoreSpec(target, options).open()
    done: set[str] = set()
    for pattern in PASSES:
        wanted = re.compile(pattern)
        after = ""
        while True:
            page = old.perform(ListPage("", after))
            for info in page.objects:
                after = info.key
                if info.key in done or not wanted.fullmatch(info.key):
                    continue
                if re.fullmatch(LEFT_OUT, info.key):
                    continue
                new.perform(
                    PutIfAbsent(info.key, old.perform(Get(info.key, OBJECT_BYTES_MAX)).body)
                )
                done.add(info.key)
            if not page.more:
                break
    return len(done)
