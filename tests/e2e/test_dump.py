"""lakelog dump prints what kafka-dump-log 4.3.1 prints, line for line.

One session of a real Kafka makes every kind of file; its directory is copied while the node runs
(indexes and logs set aside in advance, the last segment open) and once more when it has stopped
(all closed). Both tools read the copies: they are started a few times only, on all files at once.

Where the two are meant to differ, a test says so:
- a log with space set aside makes kafka-dump-log throw; lakelog goes on with the next file;
- a batch of which nothing can be read makes it throw; lakelog goes on behind it.
"""

import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Producer

from lakelog.model import Record
from lakelog.records import NewBatch, encode_batch, rebase
from tests.parts.kafka import Kafka, copy_directory
from tests.parts.process import Finished
from tests.patience import in_time

TIME = 1_700_000_000_000
SUFFIXES = (".log", ".index", ".timeindex", ".snapshot", ".txnindex")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

# Where Java and Python might disagree on what is not UTF-8; then all pairs of the bytes at the
# borders of UTF-8's classes, behind each other and cut short.
_BORDERS = (0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1,
            0xED, 0xEF, 0xF0, 0xF1, 0xF4, 0xF5, 0xF7, 0xF8, 0xFF)  # fmt: skip
NOT_UTF8 = [
    *(bytes(pair) + tail for pair in zip(_BORDERS, _BORDERS, strict=True) for tail in (b"", b"|")),
    *(bytes((a, b)) for a in _BORDERS for b in _BORDERS),
    *(bytes((a, b, c)) for a in _BORDERS[12:] for b in _BORDERS[2:8] for c in _BORDERS[1:9]),
    *(bytes((a, b, 0x80, d)) for a in _BORDERS[16:] for b in _BORDERS[2:8] for d in _BORDERS[:4]),
]


def _lakelog(*args: object) -> Finished:
    command = [sys.executable, "-c", "from lakelog.cli import main; main()", *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return Finished(done.returncode, done.stdout, done.stderr)


def _producer(kafka: Kafka, **settings: object) -> Producer:
    dotted = {name.replace("_", "."): value for name, value in settings.items()}
    return Producer({"bootstrap.servers": kafka.bootstrap, "linger.ms": 50, **dotted})


def _flush(producer: Producer) -> None:
    in_time(producer.flush(60) == 0, "some are not acknowledged")


def _make_codecs(kafka: Kafka) -> None:
    for codec in CODECS:
        kafka.create_topic(f"dump-{codec}")
        producer = _producer(kafka, compression_type=codec, enable_idempotence=True)
        for number in range(40):
            producer.produce(
                f"dump-{codec}",
                key=b"key %d" % number,
                value=b"value %d " % number * 20,
                timestamp=TIME + number,
                headers=[("a", b"1"), ("a", None), ("é", b"\xff")] if number % 3 == 0 else [],
            )
        _flush(producer)


def _make_bytes(kafka: Kafka) -> None:
    kafka.create_topic("dump-bytes")
    producer = _producer(kafka)
    for key, value in ((None, None), (b"", b""), (b"\xff\xfe", "line\nbreak\t\x1b\0 😀".encode())):
        producer.produce("dump-bytes", key=key, value=value, timestamp=TIME)
    for value in NOT_UTF8:
        producer.produce("dump-bytes", value=value, timestamp=TIME)
    _flush(producer)


def _make_append_time(kafka: Kafka) -> None:
    kafka.create_topic("dump-append", message_timestamp_type="LogAppendTime")
    producer = _producer(kafka)
    for _ in range(5):
        producer.produce("dump-append", value=b"v", timestamp=TIME)
    _flush(producer)


def _make_transactions(kafka: Kafka) -> None:
    kafka.create_topic("dump-txn")
    producer = _producer(kafka, transactional_id="dump")
    producer.init_transactions(60)
    for is_commit in (True, False, True):
        producer.begin_transaction()
        for _ in range(3):
            producer.produce("dump-txn", value=b"v", timestamp=TIME)
        _flush(producer)
        if is_commit:
            producer.commit_transaction(60)
        else:
            producer.abort_transaction(60)


def _make_segments(kafka: Kafka) -> None:
    kafka.create_topic("dump-segments", segment_bytes=1 << 20, index_interval_bytes=512)
    kafka.create_topic("dump-roomy", segment_bytes=1 << 20, preallocate=True)
    producer = _producer(kafka, batch_size=2000, enable_idempotence=True)
    for number in range(2000):
        producer.produce("dump-segments", value=b"x" * 900, timestamp=TIME + number)
        producer.poll(0)
    producer.produce("dump-roomy", value=b"v" * 100, timestamp=TIME)
    _flush(producer)


def _make_gaps(kafka: Kafka) -> None:
    """Make a topic and wait until the cleaner has taken records out of it."""
    kafka.create_topic(
        "dump-compact",
        cleanup_policy="compact",
        segment_ms=100,
        min_cleanable_dirty_ratio=0.001,
        file_delete_delay_ms=100,
    )
    directory = kafka.partition_dir("dump-compact", 0)
    producer = _producer(kafka)
    for number in range(3):
        for key in range(20):
            value = None if key % 7 == 0 else b"%d" % number
            producer.produce("dump-compact", key=b"%d" % (key % (3 + number)), value=value)
        _flush(producer)
        time.sleep(0.3)  # noqa: TID251 (a segment closes by its age)
    deadline = time.monotonic() + 60
    while (directory / f"{20:020}.log").exists():
        in_time(time.monotonic() < deadline, "the log cleaner did not come")
        time.sleep(0.2)  # noqa: TID251 (nothing to wait on but the cleaner)


class Copies:
    """The directories of a node: while it ran, and when it had stopped."""

    def __init__(self, root: Path) -> None:
        self.live, self.closed = root / "live", root / "closed"

    def take(self, kafka: Kafka, into: Path) -> None:
        for name in ("dump-*", "__cluster_metadata-0"):
            for directory in sorted(kafka.data_dir.glob(name)):
                copy_directory(directory, into / directory.name)

    def files(self, root: Path, *suffixes: str) -> list[Path]:
        # kafka-dump-log cannot read a log with space set aside; it has a test of its own.
        return sorted(
            path
            for path in root.glob("*/*")
            if path.suffix in suffixes
            and not (root == self.live and path.parent.name.startswith("dump-roomy"))
        )


@pytest.fixture(scope="module")
def copies(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Copies:
    found = Copies(tmp_path_factory.mktemp("dump"))
    _make_codecs(kafka)
    _make_bytes(kafka)
    _make_append_time(kafka)
    _make_transactions(kafka)
    _make_segments(kafka)
    _make_gaps(kafka)
    found.take(kafka, found.live)
    kafka.stop()
    found.take(kafka, found.closed)
    kafka.start()
    return found


@pytest.fixture(autouse=True)
def _speak_utf8(monkeypatch: pytest.MonkeyPatch) -> None:
    # Java writes to stdout in the encoding of the locale.
    monkeypatch.setenv("LC_ALL", "C.UTF-8")


def _judge(kafka: Kafka, files: Sequence[Path], *options: str) -> Finished:
    names = ",".join(str(path) for path in files)
    return kafka.tool("kafka-dump-log", *options, "--files", names)


def _same_lines(ours: str, theirs: str) -> None:
    # Line by line first: a diff of megabytes helps nobody.
    for mine, expected in zip(ours.split("\n"), theirs.split("\n"), strict=False):
        assert mine == expected
    assert ours == theirs


@pytest.mark.kafka
@pytest.mark.parametrize("state", ["live", "closed"])
def test_every_file_of_a_node_is_printed_as_kafka_prints_it(
    kafka: Kafka, copies: Copies, state: str
) -> None:
    files = copies.files(getattr(copies, state), *SUFFIXES)
    assert {path.suffix for path in files} == set(SUFFIXES)

    judge = _judge(kafka, files, "--print-data-log")
    ours = _lakelog("dump", *files)

    assert judge.rc == 0, judge.stderr
    assert (ours.rc, ours.stderr) == (0, "")
    _same_lines(ours.stdout, judge.stdout)


@pytest.mark.kafka
def test_the_files_hold_all_that_they_were_made_to_hold(copies: Copies) -> None:
    text = _lakelog("dump", *copies.files(copies.closed, *SUFFIXES)).stdout

    for codec in CODECS:
        assert f" compresscodec: {codec} " in text
    for told in (
        "headerKeys: [a,a,é]",
        "endTxnMarker: COMMIT",
        "endTxnMarker: ABORT",
        "LogAppendTime: ",
        "LeaderChange: ",
        "isTransactional: true isControl: true",
        "lastStableOffset: ",
        "currentTxnFirstOffset: ",
        "payload: line\nbreak",
    ):
        assert told in text
    compacted = [*re.finditer(r"baseOffset: (\d+) lastOffset: (\d+) count: (\d+) ", text)]
    assert any(
        int(end) - int(base) + 1 > int(n) for base, end, n in (m.groups() for m in compacted)
    )


@pytest.mark.kafka
def test_without_data_it_is_kafkas_default(kafka: Kafka, copies: Copies) -> None:
    files = copies.files(copies.closed, ".log")

    judge = _judge(kafka, files)
    ours = _lakelog("dump", "--no-data", *files)

    assert (judge.rc, ours.rc) == (0, 0)
    _same_lines(ours.stdout, judge.stdout)


@pytest.mark.kafka
def test_a_directory_is_its_logs_in_order(kafka: Kafka, copies: Copies) -> None:
    directory = copies.closed / "dump-segments-0"
    logs = sorted(directory.glob("*.log"))
    assert len(logs) > 1

    judge = _judge(kafka, logs, "--print-data-log")

    _same_lines(_lakelog("dump", directory).stdout, judge.stdout)


@pytest.mark.kafka
def test_space_set_aside_ends_kafkas_dump_and_not_ours(kafka: Kafka, copies: Copies) -> None:
    (log,) = (copies.live / "dump-roomy-0").glob("*.log")
    assert log.stat().st_size == 1 << 20
    other = copies.live / "dump-append-0" / log.name

    judge = _judge(kafka, [log, other], "--print-data-log")
    ours = _lakelog("dump", log, other)

    assert judge.rc == 1
    assert "Found record size 0" in judge.stderr
    assert (ours.rc, ours.stderr) == (0, "")
    assert ours.stdout.startswith(judge.stdout)
    assert f"Dumping {other}\n" in ours.stdout


@pytest.mark.kafka
def test_damage_is_printed_as_kafka_prints_it(kafka: Kafka, copies: Copies, tmp_path: Path) -> None:
    source = copies.closed / "dump-segments-0" / f"{0:020}.log"
    whole = source.read_bytes()
    first = 12 + int.from_bytes(whole[8:12], "big")
    flipped, cut = tmp_path / "a" / source.name, tmp_path / "b" / source.name
    for path in (flipped, cut):
        path.parent.mkdir()
    # A bit of a value in the second batch, and an end in the middle of a batch.
    at = first + 500
    flipped.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    cut.write_bytes(whole[: 3 * first + 700])

    judge = _judge(kafka, [flipped, cut], "--print-data-log")
    ours = _lakelog("dump", flipped, cut)

    assert judge.rc == 0, judge.stderr
    assert " isvalid: false\n" in judge.stdout
    assert f"invalid bytes at the end of {cut.name}\n" in judge.stdout
    _same_lines(ours.stdout, judge.stdout)
    assert ours.rc == 1
    assert f"lakelog: {flipped} at byte {first}: CRC-32C is " in ours.stderr
    assert f"lakelog: {cut} at byte " in ours.stderr
    assert ours.stderr.splitlines()[-1].endswith(f"; next: lakelog inspect {flipped} {cut}")


GIBIBYTE = 1 << 30
RSS_MB_MAX = 300


@pytest.fixture(scope="module")
def gibibyte(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A .log of 1 GiB: one batch of 1000 records of 1 kB, over and over, each in its place."""
    records = [
        Record(offset=number, timestamp=TIME, key=b"key", value=bytes([65 + number % 26]) * 1000)
        for number in range(1000)
    ]
    batch = bytearray(encode_batch(NewBatch(records=records)))
    path = tmp_path_factory.mktemp("gibibyte") / f"{0:020}.log"
    with path.open("wb") as file:
        for base in range(0, len(records) * (GIBIBYTE // len(batch) + 1), len(records)):
            rebase(batch, base_offset=base, leader_epoch=0)
            file.write(batch)
    assert path.stat().st_size >= GIBIBYTE
    yield path
    # pytest keeps the folders of its last runs.
    path.unlink()


# Peak memory is asked for by the child itself and of itself: what the kernel tells a parent about
# its child begins with the parent's own peak.
_WATCHED = """
import atexit, sys
from lakelog.cli import main
def peak():
    with open("/proc/self/status") as status:
        sys.stderr.write(next(line for line in status if line.startswith("VmHWM")).split()[1])
atexit.register(peak)
main()
"""


def _watch(*args: object, read_s_max: float) -> tuple[float, int, float, int]:
    """Run lakelog; return seconds to its first line, lines, peak MB, and how it ended."""
    command = [sys.executable, "-c", _WATCHED, *map(str, args)]
    began = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        lines = len(child.stdout.readline().splitlines())
        first_s = time.monotonic() - began
        while time.monotonic() - began < read_s_max and (data := child.stdout.read(1 << 20)):
            lines += data.count(b"\n")
        child.stdout.close()
        peak_mb = int(child.stderr.read()) / 1024
    return first_s, lines, peak_mb, child.returncode


def test_a_gibibyte_is_dumped_as_it_is_read(gibibyte: Path) -> None:
    with gibibyte.open("rb") as file:
        batch_bytes = 12 + int.from_bytes(file.read(12)[8:], "big")

    # Every batch of the file; then records, for as long as a test may take.
    whole_s, lines, whole_mb, code = _watch("dump", "--no-data", gibibyte, read_s_max=60)
    starts = [_watch("dump", gibibyte, read_s_max=2) for _ in range(3)]

    assert (lines, code) == (gibibyte.stat().st_size // batch_bytes + 2, 0)
    assert max(whole_mb, *(mb for _, _, mb, _ in starts)) < RSS_MB_MAX
    # The machine may be busy with something else: the best of three is ours.
    in_time(min(whole_s, *(first_s for first_s, _, _, _ in starts)) < 1, "the first line")
    assert all(code == 0 for _, _, _, code in starts)
