"""The live log in Spark: a backfill of all of it, then a windowed stream that goes on from there.

    python examples/live_log.py NAMESPACE TOPIC CHECKPOINT

The namespace is the folder or bucket that brokers write to. None of them is asked for anything:
both queries read the bucket, history and journal as one.
"""

import sys

from pyspark.sql import functions as f

from lakelog.spark.session import spark_session

namespace, topic, checkpoint = sys.argv[1:4]
options = {"path": namespace, "subscribe": topic}

with spark_session(settings={"spark.sql.shuffle.partitions": "2"}) as spark:
    # A backfill: a batch, by as many tasks as there are bytes for. Instead of all of it, a time:
    # .option("startingTimestamp", ...) finds its offsets by manifests and time indexes.
    backfill = spark.read.format("lakelog").options(**options).load()
    backfill.groupBy("partition").agg(f.count("*").alias("records"), f.max("offset")).show()

    # A stream: the same options, and a checkpoint. Its offsets have Kafka's shape.
    counts = (
        spark.readStream.format("lakelog")
        .options(**options, startingOffsets="earliest", maxOffsetsPerTrigger="100000")
        .load()
        .withWatermark("timestamp", "10 minutes")
        .groupBy(f.window("timestamp", "1 minute"), "partition")
        .count()
    )
    query = (
        counts.writeStream.format("console")
        .outputMode("update")
        .option("truncate", "false")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)  # For ever: processingTime="10 seconds".
        .start()
    )
    query.awaitTermination()
