"""Reads a topic with Spark whenever a line comes, by the lakelog that this Python imports.

python reading.py URL TOPIC
a line on stdin  -->  {"version": ..., "rows": [[partition, offset, value], ...]} on stdout
"""

import json
import sys
from base64 import b64encode

from pyspark.sql import SparkSession

import lakelog

VALUE_BYTES = 10
"""The head of a value, which says who sent it."""


def main(url: str, topic: str) -> None:
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    read = spark.read.format("lakelog").option("path", url).option("subscribe", topic)
    for _ in sys.stdin:
        rows = [
            [row.partition, row.offset, b64encode(row.value[:VALUE_BYTES]).decode()]
            for row in read.load().select("partition", "offset", "value").collect()
        ]
        sys.stdout.write(json.dumps({"version": lakelog.__version__, "rows": rows}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
