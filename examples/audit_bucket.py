"""Verify every segment below an address, and say per topic what is damaged.

    python examples/audit_bucket.py s3://bucket/prefix kafs region=eu-central-1

Every CRC is checked, the order of offsets, counts and indexes. The report is a table like any
other. Ends with 1 unless all of it is good: if something is damaged, if nothing was found, or if
the format has no checksum to tell by.
"""

import sys

from lakelog.spark import jobs
from lakelog.spark.session import spark_session


def main(url: str, layout: str, *options: str) -> int:
    with spark_session() as spark:
        store = dict(option.split("=", 1) for option in options)
        report = jobs.verify(spark, url, layout=layout, store_options=store)
        jobs.report_table(spark, report).createOrReplaceTempView("report")
        spark.sql(
            """
            SELECT topic, count(*) AS segments, sum(records) AS records,
                   count_if(outcome = 'damaged') AS damaged,
                   count_if(outcome = 'unverifiable') AS unverifiable
            FROM report GROUP BY topic ORDER BY topic
            """
        ).show(truncate=False)
        spark.sql(
            """
            SELECT f.object, f.position, f.size AS lost_bytes, f.what
            FROM report LATERAL VIEW explode(findings) AS f
            ORDER BY f.object, f.position LIMIT 50
            """
        ).show(truncate=False)
        return 0 if report.is_good else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
