"""SQL on the disk of a Kafka broker that does not run.

    python examples/dead_broker_sql.py /var/lib/kafka/data orders

No broker takes part: Spark reads the .log files. Copies of several brokers may lie side by side
below the directory; each record comes out once.
"""

import sys

from lakelog.spark.session import spark_session


def main(directory: str, topic: str) -> None:
    with spark_session() as spark:
        spark.sql(
            f"""
            CREATE TEMPORARY VIEW log USING lakelog
            OPTIONS (path '{directory}', layout 'kafka', subscribe '{topic}')
            """
        )
        spark.sql(
            """
            SELECT partition, count(*) AS records, min(offset) AS first, max(offset) AS last,
                   min(timestamp) AS since, max(timestamp) AS until
            FROM log GROUP BY partition ORDER BY partition
            """
        ).show(truncate=False)
        spark.sql(
            """
            SELECT cast(key AS string) AS key, count(*) AS records
            FROM log WHERE key IS NOT NULL GROUP BY key ORDER BY records DESC, key LIMIT 10
            """
        ).show(truncate=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
