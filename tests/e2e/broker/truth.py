"""What is true at the end: read by a client, and read straight from the store.

Every record that was sent is there once, where its producer was told it is; the records of a
producer stand in the order in which they were sent; offsets have no gaps.
"""

from collections.abc import Mapping, Sequence

from lakelog.catalog import open_namespace, read_topic
from lakelog.host import SystemClock, new_id
from lakelog.journal import Lane
from lakelog.log import Chunk, Known, read
from lakelog.records import decode_batches
from lakelog.store import open_store, retrying, run, working
from tests.e2e.broker.traffic import (
    UNTOLD,
    Acked,
    Sender,
    Watcher,
    decode_value,
    read_assigned,
)

__all__ = ["check_acked", "check_everything", "read_stored"]

Log = dict[int, list[tuple[int, int]]]
"""By partition, in the order of offsets from 0: producer and number of each record."""


def read_stored(url: str, options: Mapping[str, str], name: str) -> Log:
    """Return every record of a topic, without a broker."""
    perform = working(retrying(open_store(url, options).perform))
    rules = run(open_namespace(), perform).rules
    topic = run(read_topic(name), perform)
    lanes = {
        number: Lane(number=number, rules=rules, clock=SystemClock(), ids=new_id, writer=new_id())
        for number in topic.lanes_used()
    }
    log: Log = {}
    for partition in range(topic.partitions):
        found = log[partition] = []
        known = Known()
        where, lane = topic.path_of(partition), lanes[topic.lane(partition)]
        while True:
            chunk = run(read(lane, where, len(found), 4 << 20, known), perform)
            assert isinstance(chunk, Chunk), chunk
            if not chunk.body:
                break
            for batch in decode_batches(chunk.body):
                for record in batch.records:
                    assert record.offset == len(found), "a gap, or a batch that was read twice"
                    assert record.value is not None
                    found.append(decode_value(record.value))
    return log


def check_acked(log: Log, senders: Sequence[Sender | Acked]) -> int:
    """Everything that was acknowledged is where its producer was told; return how much it is."""
    acked = 0
    for sender in senders:
        untold: set[tuple[int, int]] = set()
        for number, offset in enumerate(list(sender.offsets)):
            if offset == -1:
                continue
            acked += 1
            if offset == UNTOLD:
                untold.add((sender.number, number))
                continue
            rows = log[number % sender.partitions]
            assert offset < len(rows), f"{sender.number}/{number} is lost"
            assert rows[offset] == (sender.number, number), f"another one stands at {offset}"
        lost = untold and untold.difference(*log.values())
        assert not lost, f"{sorted(lost)[:5]} are lost"
    return acked


def check_order(log: Log, senders: Sequence[Sender]) -> None:
    """Every record is there, once, in the order in which its producer sent it."""
    for partition, rows in log.items():
        numbers: dict[int, list[int]] = {sender.number: [] for sender in senders}
        for producer, number in rows:
            numbers[producer].append(number)
        for sender in senders:
            sent = list(range(partition, sender.records, sender.partitions))
            assert numbers[sender.number] == sent, (
                f"producer {sender.number} in {partition}: {len(numbers[sender.number])} records "
                f"of {len(sent)}, or twice, or in another order"
            )


def check_everything(
    bootstrap: str,
    url: str,
    options: Mapping[str, str],
    topic: str,
    senders: Sequence[Sender],
    watcher: Watcher,
) -> None:
    """Nothing is lost, nothing is there twice, nothing is missing between, nothing out of order."""
    for sender in senders:
        assert not sender.errors, sender.errors
        assert sender.acked == sender.records
    total = sum(sender.records for sender in senders)
    partitions = senders[0].partitions
    log = read_stored(url, options, topic)
    check_order(log, senders)
    assert check_acked(log, senders) == total
    assert read_assigned(bootstrap, topic, partitions) == log
    watcher.wait_for(total, within_s=60)
    watcher.stop()
    assert not watcher.errors, watcher.errors
    seen = {number: list(rows.values()) for number, rows in sorted(watcher.seen.items())}
    assert seen == log, f"the group has seen {watcher.count} of {total}"
