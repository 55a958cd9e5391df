"""What producers' settings are worth on object storage: the table in the README.

A broker on a store whose puts take 100 ms longer, and kafka-producer-perf-test: records of 1 KB
into 4 partitions, acks=all, with the Java client's own defaults and with others. A producer has at
most so many requests in flight, with a batch of each partition in them; so what it reaches is that
divided by the time of an acknowledgement, and larger batches are worth more than anything else.

The value is how many times as much the last row reaches as the first, the defaults.
"""

import re

from benchmarks.broker import create_topic, perf, served
from benchmarks.measure import arguments, closing_line

BAR = 3.0

ROWS: tuple[tuple[str, int, dict[str, str]], ...] = (
    ("defaults", 12_000, {}),
    ("linger.ms=100", 12_000, {"linger.ms": "100"}),
    ("batch.size=256 KiB", 120_000, {"batch.size": "262144"}),
    ("batch.size=256 KiB, linger.ms=100", 120_000, {"batch.size": "262144", "linger.ms": "100"}),
    (
        "batch.size=1 MB, linger.ms=100, max.request.size=8 MB, buffer.memory=128 MB",
        300_000,
        {
            "batch.size": "1000000",
            "linger.ms": "100",
            "max.request.size": "8000000",
            "buffer.memory": "128000000",
        },
    ),
)
"""What is set, and how many records take about ten seconds then."""


def measure(bootstrap: str, topic: str, records: int, extra: dict[str, str]) -> dict[str, float]:
    """Return megabytes a second and the latency of one setting."""
    props = {"bootstrap.servers": bootstrap, "acks": "all", **extra}
    out = perf(
        "ProducerPerformance", "--topic", topic, "--num-records", str(records),
        "--record-size", "1000", "--throughput", "-1",
        "--producer-props", *(f"{name}={value}" for name, value in props.items()),
    )  # fmt: skip
    last = out.strip().splitlines()[-1]
    speed = re.search(r"\(([\d.]+) MB/sec\)", last)
    p99 = re.search(r"([\d.]+) ms 99th", last)
    assert speed is not None
    assert p99 is not None
    return {"mb_s": float(speed[1]), "p99_ms": float(p99[1])}


def main() -> None:
    options = arguments(__doc__)
    rows = [ROWS[0], ROWS[-1]] if options.quick else list(ROWS)
    figures = {}
    with served("broker", "memory:", "100") as broker:
        for number, (name, records, extra) in enumerate(rows):
            topic = f"settings-{number}"
            create_topic(broker.bootstrap, topic, 4)
            count = records // 2 if options.quick else records
            figures[name] = measure(broker.bootstrap, topic, count, extra)
    speeds = [row["mb_s"] for row in figures.values()]
    closing_line(name="settings", value=speeds[-1] / speeds[0], bar=BAR, put_ms=100, rows=figures)


if __name__ == "__main__":
    main()
