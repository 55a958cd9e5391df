"""Eight processes append to one lane of SeaweedFS while a ninth keeps it; all of them are killed
and stopped at random, some for longer than the grace.

Each writes a diary. At the end somebody who knows nothing reads the whole log: what was
acknowledged is there, once, at its offset; offsets are contiguous; nothing is there that nobody
sent; and nothing is there twice.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random  # noqa: TID251 (seeded)

import pytest

from lakelog.catalog import Topic, create_topic, make_namespace
from lakelog.host import SystemClock, new_id
from lakelog.journal import Lane
from lakelog.log import Chunk, Known, read
from lakelog.model import Rules
from lakelog.records import decode_header
from lakelog.store import Store, open_store, retrying, run, working
from tests.e2e.writers.child import PARTITIONS
from tests.parts.process import mortal
from tests.parts.seaweedfs import SeaweedFS
from tests.patience import in_time

SECONDS = float(os.environ.get("LAKELOG_WRITERS_SECONDS", "15"))  # noqa: TID251
WRITERS = 8
RULES = Rules(lanes=1, grace_ms=6_000)

ACKED_MIN, LOST_MIN = 4_000, 300
"""What a run of five minutes must have seen; a shorter one in proportion, and a start to boot."""


@dataclass
class Child:
    what: str
    url: str
    options: str
    diary: Path
    process: subprocess.Popen[bytes] | None = None
    stopped_until: float = 0.0

    def start(self) -> None:
        argv = [sys.executable, "-m", "tests.e2e.writers.child"]
        argv += [self.what, self.url, self.options, str(self.diary)]
        with self.diary.with_suffix(".err").open("ab") as errors:
            self.process = subprocess.Popen(mortal(argv), stderr=errors)

    def wait_until_alive(self) -> None:
        end = time.monotonic() + 60
        while not self.diary.exists():
            in_time(time.monotonic() < end, self.diary.with_suffix(".err").read_text())
            time.sleep(0.1)  # noqa: TID251

    def signal(self, what: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(what)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


@dataclass
class Story:
    """What all diaries say."""

    sent: Counter[int] = field(default_factory=Counter)
    acked: dict[int, tuple[int, int]] = field(default_factory=dict)
    ways: Counter[str] = field(default_factory=Counter)
    kept: list[int] = field(default_factory=lambda: [0, 0, 0, 0])

    def read(self, diary: Path) -> None:
        ways: Counter[str] = Counter()
        for line in diary.read_text().splitlines():
            word, _, rest = line.partition(" ")
            match word:
                case "sent":
                    self.sent[int(rest.split()[1])] += 1
                case "acked":
                    partition, offset, crc = map(int, rest.split())
                    assert crc not in self.acked, "acknowledged twice"
                    self.acked[crc] = partition, offset
                case "ways":
                    now = Counter(json.loads(rest))
                    if now["W3 created"] < ways["W3 created"]:  # Another life.
                        self.ways.update(ways)
                    ways = now
                case "kept":
                    numbers = map(int, rest.split())
                    self.kept = [a + b for a, b in zip(self.kept, numbers, strict=True)]
        self.ways.update(ways)


def torment(
    children: list[Child], seconds: float, is_enough: Callable[[], bool], chance: Random
) -> Counter[str]:
    """Kill and stop the children at random, for longer when it is not enough."""
    done: Counter[str] = Counter()
    end = time.monotonic() + seconds
    while time.monotonic() < end or not (min(done["kill -9"], done["SIGSTOP"]) and is_enough()):
        in_time(time.monotonic() < end + 120, "it is still not enough")
        time.sleep(chance.uniform(0.1, 0.6))  # noqa: TID251
        now = time.monotonic()
        for child in children:
            assert child.process is not None
            if child.stopped_until and child.stopped_until < now:
                child.signal(signal.SIGCONT)
                child.stopped_until = 0.0
            if child.process.poll() is not None:
                errors = child.diary.with_suffix(".err").read_text()
                raise AssertionError(f"a {child.what} died by itself:\n{errors[-2000:]}")
        # A keeper has much to read before it seals: it is left in peace for longer.
        child = chance.choices(children, [1 if one.what == "keep" else 3 for one in children])[0]
        if child.stopped_until:
            continue
        if chance.random() < 0.15:
            child.kill()
            child.start()
            done["kill -9"] += 1
        else:
            child.signal(signal.SIGSTOP)
            longest = chance.choice((0.3, 3.0, 2.5 * RULES.grace_ms / 1000))
            child.stopped_until = now + chance.uniform(0.05, longest)
            done["SIGSTOP"] += 1
    for child in children:
        if child.stopped_until:
            child.signal(signal.SIGCONT)
    time.sleep(2)  # noqa: TID251
    return done


def read_log(store: Store, topic: Topic) -> dict[int, tuple[int, int]]:
    """Return where every batch is, by its CRC; offsets are contiguous."""
    lane = Lane(number=0, rules=RULES, clock=SystemClock(), ids=new_id, writer=new_id())
    perform = working(retrying(store.perform))
    found: dict[int, tuple[int, int]] = {}
    for partition in range(PARTITIONS):
        offset, known = 0, Known()
        while True:
            chunk = run(read(lane, topic.path_of(partition), offset, 4 << 20, known), perform)
            assert isinstance(chunk, Chunk), chunk
            if not chunk.body:
                break
            at = 0
            while at < len(chunk.body):
                header = decode_header(chunk.body, at)
                assert header.base_offset == offset, "offsets are not contiguous"
                assert header.crc not in found, f"{header.crc} is there twice"
                found[header.crc] = partition, offset
                offset, at = header.next_offset, at + header.size
    return found


@pytest.mark.seaweedfs
@pytest.mark.timeout(SECONDS + 240)
def test_what_was_acknowledged_is_there_once_at_its_offset(
    seaweedfs: SeaweedFS, tmp_path: Path
) -> None:
    url = f"s3://{seaweedfs.bucket('writers')}/{new_id().hex()}"
    store = open_store(url, seaweedfs.options)
    perform = working(retrying(store.perform))
    run(make_namespace(new_id(), RULES), perform)
    made = create_topic(
        "t",
        topic_id=new_id(),
        partitions=PARTITIONS,
        lanes=1,
        now_ms=SystemClock().now_ms(),
        configs={"retention.ms": "-1"},
    )
    topic = run(made, perform)
    options = json.dumps(seaweedfs.options)
    names = [*(f"writer-{number}" for number in range(WRITERS)), "keeper"]
    children = [
        Child("keep" if name == "keeper" else "write", url, options, tmp_path / name)
        for name in names
    ]

    def told() -> Story:
        story = Story()
        for child in children:
            story.read(child.diary)
        return story

    try:
        for child in children:
            child.start()
        for child in children:
            child.wait_until_alive()
        done = torment(children, SECONDS, lambda: told().kept[0] > 0, Random(int(SECONDS)))
    finally:
        for child in children:
            child.kill()
    story = told()
    log = read_log(store, topic)
    lost_races = story.ways["W3 another's"]
    print(  # noqa: T201 (what -s shows)
        f"\n{len(story.acked)} acknowledged, {len(log)} stored, {lost_races} lost races, "
        f"{dict(done)}, sealed/trimmed/reaped/swept {story.kept}, {dict(story.ways)}"
    )
    missing = {crc: place for crc, place in story.acked.items() if log.get(crc) != place}
    assert not missing
    assert not log.keys() - story.sent.keys(), "nobody sent these"
    share = min(1.0, SECONDS / 300)
    in_time(len(story.acked) >= ACKED_MIN * share, "acknowledged")
    in_time(lost_races >= LOST_MIN * share, "lost races")
