"""A log in DuckDB, without Spark.

    python examples/duckdb_log.py s3://bucket/log                 # a namespace, to its last record
    python examples/duckdb_log.py /var/lib/kafka/data kafka       # segments

`lakelog.scan` gives an Arrow stream; DuckDB, Polars and whatever else takes Arrow reads it.
"""

import sys

import duckdb

import lakelog


def main(path: str, layout: str | None = None) -> None:
    log = lakelog.scan(path, layout=layout, columns=["topic", "partition", "offset", "value"])
    counted = duckdb.from_arrow(log).aggregate(
        'topic, partition, count(*) AS records, max("offset") AS last, '
        "sum(octet_length(value)) AS value_bytes"
    )
    print(counted.order("topic, partition"))


if __name__ == "__main__":
    main(*sys.argv[1:])
