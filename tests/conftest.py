"""What all tests share: the real parts, one of each per run, and the Hypothesis profiles.

A part that cannot start fails the tests that need it and says what to install. It never skips
them: a green run means that everything ran.
"""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import hypothesis
import pytest
from hypothesis.configuration import set_hypothesis_home_dir

from tests.parts.archives import quick_kafka, quick_spark
from tests.parts.jars import cache

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.parts.kafka import Kafka
    from tests.parts.kafka_cluster import KafkaCluster
    from tests.parts.seaweedfs import SeaweedFS
    from tests.parts.spark_cluster import SparkCluster

# A shared machine makes both of Hypothesis' clocks lie.
_NO_CLOCKS = hypothesis.settings(
    deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
set_hypothesis_home_dir(cache() / "hypothesis")
hypothesis.settings.register_profile("dev", _NO_CLOCKS, max_examples=20)
hypothesis.settings.register_profile(
    "ci", _NO_CLOCKS, max_examples=40, derandomize=True, print_blob=True
)
hypothesis.settings.register_profile("nightly", _NO_CLOCKS, max_examples=5000, print_blob=True)
hypothesis.settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE", "dev")  # noqa: TID251 (tests have no settings file)
)


@pytest.fixture(scope="session")
def kafka() -> Iterator["Kafka"]:
    """A running Apache Kafka. A test that stops it starts it again."""
    from tests.parts.kafka import running_kafka

    with running_kafka(jvm=quick_kafka()) as running:
        yield running


@pytest.fixture(scope="module")
def kafka_cluster() -> Iterator["KafkaCluster"]:
    """Three brokers. They go as soon as the tests of a module are through: they take room."""
    from tests.parts.kafka_cluster import running_kafka_cluster

    with running_kafka_cluster(jvm=quick_kafka()) as running:
        yield running


@pytest.fixture(scope="session")
def seaweedfs() -> Iterator["SeaweedFS"]:
    """A running SeaweedFS with its S3 gateway."""
    from tests.parts.seaweedfs import running_seaweedfs

    with running_seaweedfs() as running:
        yield running


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    """A local Spark session, which has the real ``format("kafka")`` as well."""
    from tests.parts.jars import spark_kafka_jars
    from tests.parts.spark import running_spark

    jars = ",".join(map(str, spark_kafka_jars()))
    with running_spark({"spark.jars": jars}, jvm=quick_spark()) as running:
        yield running


@pytest.fixture(scope="session")
def one_spark_cluster() -> Iterator["SparkCluster"]:
    """The cluster behind `spark_cluster`, whatever the last test has left of it."""
    from tests.parts.spark_cluster import running_cluster

    with running_cluster(jvm=quick_spark()) as running:
        yield running


@pytest.fixture
def spark_cluster(one_spark_cluster: "SparkCluster") -> "SparkCluster":
    """A standalone Spark cluster with all its workers. A test may kill some."""
    one_spark_cluster.heal()
    return one_spark_cluster
