"""A Parquet lake becomes a topic, and Kafka's consumers read it: no broker takes part in the load.

    python examples/lake_to_topic.py PARQUET NAMESPACE TOPIC

Every row is a record: the first column is its key, all of them as JSON its value. The whole load is
in the topic at once, or not at all. Brokers that serve the topic, and their consumers, see it
within a second or two; nothing is restarted.
"""

import sys

from pyspark.sql import functions as f

from lakelog.spark import write
from lakelog.spark.session import spark_session

lake, namespace, topic = sys.argv[1:4]

with spark_session() as spark:
    rows = spark.read.parquet(lake)
    records = rows.select(
        f.col(rows.columns[0]).cast("string").alias("key"),
        f.to_json(f.struct("*")).alias("value"),
        f.array(
            f.struct(f.lit("source").alias("key"), f.lit(lake).cast("binary").alias("value"))
        ).alias("headers"),
    )
    write(records, namespace, topic=topic, compression="zstd")

    # The same namespace, as Spark reads it.
    log = spark.read.format("lakelog").options(path=namespace, subscribe=topic).load()
    log.groupBy("partition").agg(f.count("*").alias("records"), f.max("offset")).orderBy(
        "partition"
    ).show()
