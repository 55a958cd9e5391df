"""A worker that reads all of a topic with Spark, again and again, in batches and without a broker.

    python -m tests.cluster.spark_reader PLAN DIARY

Each line of its diary is what one batch has shown of every partition. The last one is read after it
was told to end, when all others have.
"""

import json
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from lakelog.store import METADATA
from tests.cluster.history import Diary
from tests.cluster.workers import Plan
from tests.parts.spark import running_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAUSE_S = 8.0
_SETTINGS = {"spark.master": "local[1]", "spark.sql.session.timeZone": "UTC"}


class Reading:
    """Reads everything, and writes down what it was shown, or why it was not."""

    def __init__(self, plan: Plan, diary: Diary, spark: "SparkSession") -> None:
        self._plan, self._diary, self._spark = plan, diary, spark

    def scan(self) -> None:
        """Read once."""
        begun, plan = self._diary.now(), self._plan
        reader = self._spark.read.format("lakelog").option("path", plan.storage)
        for name, value in plan.options.items():
            if not name.startswith(METADATA):  # Records are in the bucket.
                reader = reader.option(f"store.{name}", value)
        frame = reader.option("subscribe", plan.topic).option("columns", "partition,offset,value")
        rows: dict[int, list[tuple[int, str]]] = {one: [] for one in range(plan.partitions)}
        for row in frame.load().collect():
            value = bytes(row["value"] or b"").decode().rstrip()
            rows[row["partition"]].append((row["offset"], value))
        for some in rows.values():
            some.sort()
        self._diary.write("scanned", begun, self._diary.now(), "/spark", rows)

    def try_to_scan(self) -> None:
        """Read once; what keeps it from that is told."""
        try:
            self.scan()
        except Exception as error:  # noqa: BLE001 (whatever it is, it is told)
            text = " ".join(str(error).split())[-300:]
            self._diary.write("error", self._diary.now(), "/spark", f"scan: {text}")


def main() -> None:
    plan, diary = Plan(**json.loads(sys.argv[1])), Diary(Path(sys.argv[2]))
    ended = threading.Event()

    def listen() -> None:
        for line in sys.stdin:
            if line.strip() == "quiet":
                diary.write("quiet", diary.now(), plan.name)
            else:
                break
        ended.set()

    threading.Thread(target=listen, daemon=True).start()
    with running_spark(_SETTINGS) as spark:
        reading = Reading(plan, diary, spark)
        while not ended.is_set():
            reading.try_to_scan()
            ended.wait(PAUSE_S)
        reading.scan()


if __name__ == "__main__":
    main()
