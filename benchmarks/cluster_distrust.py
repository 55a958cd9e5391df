"""Two brokers are each sure that the other is dead, for ten minutes: do they fight?

Both live, write and are served by the store; only what each believes of the other is wrong
(``tests.cluster.distrusting``). So each takes all lanes and should own all shards of groups.
Producers and groups of librdkafka and Java go on all the while, with default settings.

    changes    of the owner of a shard, of the one that changed most often. Bar: at most 5
    commits    of those that groups tried meanwhile, how many succeeded. Bar: half of them
    findings   nothing may be lost, twice, moved, unseen, and no commit goes back

The value is the share of commits that succeeded; 0 if a shard changed hands more often, or after a
finding.
"""

import argparse
import json
import signal
import tempfile
from collections.abc import Mapping
from pathlib import Path

from benchmarks.measure import arguments, closing_line
from lakelog.coordination import BucketGroups
from lakelog.host import new_id
from lakelog.store import open_store, retrying, run, working
from tests.cluster.history import Diary
from tests.cluster.load import TOPIC, loaded
from tests.cluster.story import BOTH, new_namespace
from tests.parts.cluster import running_cluster
from tests.parts.seaweedfs import running_seaweedfs

CHANGES_MAX = 5


def claims(url: str, options: Mapping[str, str]) -> list[int]:
    """Return how often each shard was claimed so far."""
    perform = working(retrying(open_store(url, options).perform))
    groups = BucketGroups(new_id())
    first = run(groups.read(0), perform)
    assert first is not None
    found = [run(groups.read(shard), perform) for shard in range(first.shards)]
    return [0 if one is None else one.claim.epoch for one in found]


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=600.0, help="how long they distrust")
    parser.add_argument("--logs", type=Path, help="a folder for logs and diaries")


def main() -> None:
    asked = arguments(__doc__, options)
    seconds, kinds = (15.0, ("rdkafka",)) if asked.quick else (asked.seconds, BOTH)
    with running_seaweedfs() as seaweedfs, tempfile.TemporaryDirectory() as folder:
        home = asked.logs or Path(folder)
        home.mkdir(parents=True, exist_ok=True)
        url = new_namespace(seaweedfs)
        with (
            running_cluster(
                url,
                seaweedfs.options,
                brokers=2,
                home=home,
                module="tests.cluster.distrusting",
            ) as cluster,
            loaded(cluster, home, kinds=kinds) as load,
        ):
            before, since = claims(url, seaweedfs.options), Diary.now()
            for broker in cluster.brokers.values():
                broker.signal(signal.SIGUSR1)
            load.wait_until(lambda: False, seconds)
            after, until = claims(url, seaweedfs.options), Diary.now()
            for broker in cluster.brokers.values():
                broker.signal(signal.SIGUSR2)
            cluster.wait_until_whole(TOPIC)
            found = load.finish(Diary.now())
    history = load.history
    done = {(one.group, one.at) for one in history.commits if since <= one.at < until}
    failed = [what for at, _, what in history.errors if since <= at < until and "commit" in what]
    changes = [b - a for a, b in zip(before, after, strict=True)]
    share = len(done) / max(len(done) + len(failed), 1)
    print(json.dumps({"found": found.shown(), "errors": history.error_kinds()}))
    closing_line(
        name="cluster_distrust",
        value=0.0 if found or max(changes) > CHANGES_MAX else share,
        bar=0.5,
        unit="of all commits",
        seconds=seconds,
        changes=changes,
        commits=len(done),
        failed=len(failed),
    )


if __name__ == "__main__":
    main()
