"""Three brokers under load whose groups are moved: to etcd, to more shards, and back.

moves      bucket -> etcd -> 32 shards -> bucket -> 8 shards, with librdkafka and Java clients. A
           broker that coordinates groups is frozen before each, and thawed when the move has ended.
           Bar: no commit is lost or goes back, no record is lost or stored twice
lost       etcd is lost for good and set up anew: `lakelog meta restore --lost` until every group
           commits again. Bar: 60 s. Here offsets may go back by a minute, and nothing else may be
           wrong

The value is the bar of the second over what was measured, and 0 if anything else is wrong. The
short form moves groups to etcd and to 32 shards, and loses etcd then.
"""

import json
import tempfile
from pathlib import Path

from benchmarks.measure import arguments, closing_line
from tests.cluster.checker import Findings
from tests.cluster.history import Diary
from tests.cluster.moves import moved
from tests.cluster.story import BOTH
from tests.parts.seaweedfs import running_seaweedfs

LOST_S = 60.0
TO_ETCD, TO_BUCKET = ("migrate", "--to", "etcd"), ("migrate", "--to", "bucket")
WAYS = (TO_ETCD, ("reshard", "32"), TO_BUCKET, ("reshard", "8"))
BACK = "commit-regress"
"""What is allowed after etcd was lost."""


def main() -> None:
    asked = arguments(__doc__)
    kinds = ("rdkafka",) if asked.quick else BOTH
    ways = WAYS[:2] if asked.quick else WAYS
    figures: dict[str, object] = {}
    wrong: dict[str, int] = {}
    with running_seaweedfs() as seaweedfs:
        if not asked.quick:
            with (
                tempfile.TemporaryDirectory() as folder,
                moved(seaweedfs, Path(folder), kinds=kinds) as story,
            ):
                for way in ways:
                    figures[" ".join(way)] = story.move(*way)
                    print(way, figures[" ".join(way)], flush=True)
                found = story.load.finish(Diary.now())
            wrong |= anomalies(found, "moves")
        with (
            tempfile.TemporaryDirectory() as folder,
            moved(seaweedfs, Path(folder), kinds=kinds) as story,
        ):
            for way in ways if asked.quick else (TO_ETCD,):
                figures[" ".join(way)] = story.move(*way)
                print(way, figures[" ".join(way)], flush=True)
            lost = story.lose_etcd()
            print("lost", lost, flush=True)
            found = story.load.finish(Diary.now())
        wrong |= anomalies(found, "lost", allowed=BACK)
    closing_line(
        name="cluster_meta",
        value=0.0 if wrong else LOST_S / lost["back_s"],
        bar=1.0,
        moves=figures,
        lost=lost,
        wrong=wrong,
    )


def anomalies(found: Findings, part: str, allowed: str = "") -> dict[str, int]:
    """Print what is wrong, and return how often each thing is that may not be."""
    print(json.dumps({"part": part, "found": found.shown()}))
    counts = {name: count for name, count in found.counts().items() if count and name != allowed}
    return {f"{part}: {name}": count for name, count in counts.items()}


if __name__ == "__main__":
    main()
