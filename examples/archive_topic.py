"""A topic into a compressed archive, and back into a directory that Kafka can load.

    python examples/archive_topic.py /var/lib/kafka/data s3://bucket/archive /tmp/restored orders

The archive is STRM with zstd. Offsets, keys, values, headers and times are kept; which producer
wrote a batch is not, and that loss is named. The comparison at the end reads both sides.
"""

import sys

from lakelog.spark import jobs
from lakelog.spark.session import spark_session

LOSSES = ["producers"]


def main(source: str, archive: str, restored: str, topic: str) -> int:
    with spark_session() as spark:
        there = jobs.convert(
            spark, source, layout="kafka", target=archive, target_layout="strm",
            topics=[topic], codec="zstd", segment_bytes=256 << 20, lose=LOSSES,
        )  # fmt: skip
        back = jobs.convert(
            spark, archive, layout="strm", target=restored, target_layout="kafka",
            topics=[topic], codec="lz4",
        )  # fmt: skip
        same = jobs.compare(
            spark, source, layout="kafka", against=restored, against_layout="kafka", topics=[topic]
        )
        for name, report in (("archive", there), ("restore", back), ("compare", same)):
            usage = report.usage
            print(
                f"{name}: {report.outcomes}, {report.records} records, "
                f"{usage.bytes_read} bytes read, {usage.bytes_written} written"
            )
            for finding in report.findings(5):
                print(f"  {finding.object}: {finding.what}")
        return 0 if there.is_good and back.is_good and same.is_good else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
