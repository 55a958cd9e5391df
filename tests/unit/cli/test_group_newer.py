"""`lakelog group` shows groups of the newer protocol beside the others."""

import json
from pathlib import Path

from click.testing import CliRunner

from lakelog.catalog import create_topic, make_namespace
from lakelog.cli import main
from lakelog.coordination import BucketGroups, encode_group, shard_of
from lakelog.groups import (
    Committed,
    ConsumerDurable,
    ConsumerMember,
    ConsumerRoster,
    Offsets,
    TopicIdPartition,
    TopicShape,
)
from lakelog.host import SystemClock, new_id
from lakelog.model import Rules
from lakelog.store import open_store, run, working


def test_a_member_that_is_to_let_go_still_reads(tmp_path: Path) -> None:
    perform = working(open_store(str(tmp_path)).perform)
    run(make_namespace(new_id(), Rules(lanes=1)), perform)
    now_ms = SystemClock().now_ms()
    topic = run(create_topic("t", topic_id=new_id(), partitions=3, lanes=1, now_ms=now_ms), perform)
    first, second, third = (TopicIdPartition(topic.id, number) for number in range(3))
    members = [
        ConsumerMember(
            id="a", client_id="app", client_host="/h", epoch=7, target=frozenset({first}),
            assigned=frozenset({first}), revoking=frozenset({second}),
        ),
        ConsumerMember(
            id="b", client_id="app", client_host="/h", epoch=8, target=frozenset({second, third}),
            assigned=frozenset({third}),
        ),
        ConsumerMember(id="c", client_id="app", client_host="/h", epoch=8),
    ]  # fmt: skip
    group = ConsumerDurable(
        id="g",
        roster=ConsumerRoster(
            epoch=8,
            target_epoch=8,
            topics={"t": TopicShape(topic.id, 3)},
            members={one.id: one for one in members},
        ),
        offsets=Offsets.of({first: Committed(0, 0, "", 0)}),
    )
    empty = ConsumerDurable(id="h", roster=ConsumerRoster(epoch=3), offsets=Offsets())
    store = BucketGroups(new_id())
    shards = run(store.claim(0), perform).shards
    for one in (group, empty):
        held = run(store.claim(shard_of(one.id, shards), shards), perform)
        run(store.save(held, {one.id: encode_group(one)}), perform)

    def lakelog(*words: str) -> str:
        done = CliRunner().invoke(main, ["group", *words, "--storage", str(tmp_path)])
        assert done.exit_code == 0, done.output
        return done.stdout

    assert lakelog("list").splitlines()[1:] == [
        "g\tReconciling\tuniform\t3\t1",
        "h\tEmpty\t-\t0\t0",
    ]
    assert lakelog("describe", "g").splitlines()[1:] == [
        "g\tt\t0\t0\t0\t0\ta\t/h\tapp",
        "g\tt\t1\t-\t0\t-\ta\t/h\tapp",
        "g\tt\t2\t-\t0\t-\tb\t/h\tapp",
        "g\t-\t-\t-\t-\t-\tc\t/h\tapp",
    ]
    told = json.loads(lakelog("describe", "g", "--json"))
    assert (told["type"], told["epoch"], told["assignment_epoch"]) == ("consumer", 8, 8)
    assert (told["state"], told["members"]) == ("Reconciling", 3)
