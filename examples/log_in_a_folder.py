"""A log in a folder, without a broker: append, read, seal, and read again.

    python examples/log_in_a_folder.py FOLDER

The folder may as well be a bucket: s3://bucket/path. What is here is what a broker does for its
clients, and what a keeper does for the log.
"""

import sys

from lakelog.catalog import create_topic, make_namespace
from lakelog.host import SystemClock, new_id
from lakelog.journal import Lane, append, new_append
from lakelog.log import Chunk, offset_at, read
from lakelog.maintenance import SealSettings, maintain
from lakelog.model import Record, Rules
from lakelog.records import NewBatch, decode_batches, encode_batch
from lakelog.store import open_store, retrying, run, working


def main() -> None:
    store = open_store(sys.argv[1])
    perform = working(retrying(store.perform))
    clock = SystemClock()

    # A namespace is made once, a topic is a cell in it.
    namespace = run(make_namespace(new_id(), Rules(lanes=1)), perform)
    topic = run(
        create_topic("greetings", topic_id=new_id(), partitions=2, lanes=1, now_ms=clock.now_ms()),
        perform,
    )

    # A lane, as this process sees it. Any number of processes may append to the same one.
    lane = Lane(number=0, rules=namespace.rules, clock=clock, ids=new_id, writer=new_id())
    words, now_ms = [b"hello", b"world"], clock.now_ms()
    batches = [
        encode_batch(
            NewBatch(records=[Record(offset=0, timestamp=now_ms + at, key=None, value=word)])
        )
        for at, word in enumerate(words)
    ]
    # Two partitions, one bundle, one request to the store.
    requests = [new_append(topic.id, at, batch) for at, batch in enumerate(batches)]
    for outcome in run(append(lane, requests), perform):
        print(outcome)

    def show() -> list[list[bytes | None]]:
        return [values(run(read(lane, topic.path_of(at), 0, 1 << 20), perform)) for at in (0, 1)]

    print("from the journal:", show())
    kept = run(maintain({0: lane}, SealSettings()), perform)
    print(f"sealed {kept.sealed.segments} segments")
    print("from history:    ", show())
    print("a moment later:  ", run(offset_at(lane, topic.path_of(1), now_ms + 1), perform))


def values(chunk: object) -> list[bytes | None]:
    assert isinstance(chunk, Chunk)
    return [record.value for batch in decode_batches(chunk.body) for record in batch.records]


if __name__ == "__main__":
    main()
