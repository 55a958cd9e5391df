"""Each process does its work with the policy of its role, on a store that denies everything else.

users of a real SeaweedFS, one a role, with the policy that `lakelog iam` prints
  -> broker, Spark, pipeline and spool work, each as its own      nothing is missing
  -> what each of them asked for, as a proxy has seen it          nothing is idle
  -> every kind of object x get, put, delete, as each role        the store decides as we say
"""

import fnmatch
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs, quote, unquote, urlsplit

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame, SparkSession

from lakelog.host import new_id
from lakelog.security import ROLES, Role, bucket_policy
from tests.e2e.broker.traffic import create_topic
from tests.parts.flaky_proxy import FlakyProxy, running_flaky_proxy
from tests.parts.lakelog import running_lakelog
from tests.parts.process import mortal
from tests.parts.seaweedfs import SeaweedFS
from tests.parts.sigv4 import signed_headers
from tests.patience import in_time

pytestmark = [pytest.mark.seaweedfs, pytest.mark.spark, pytest.mark.timeout(420)]

BUCKET, FOLDER = "policies", new_id().hex()
URL = f"s3://{BUCKET}/{FOLDER}"
TOPIC, PARTITIONS, RECORDS = "t", 3, 300
OPERATIONS = {"GET": "get", "HEAD": "get", "PUT": "put", "DELETE": "delete", "POST": "delete"}

KINDS = [
    "_lakelog/cluster.json", "_lakelog/topics/t", "_lakelog/lanes/0000/head",
    "_lakelog/lanes/0000/tail", "_lakelog/lanes/0000/00000000000000000001.bundle",
    "_lakelog/lanes/0000/00000000000000000001.checkpoint", "_lakelog/staged/w/identity",
    "_lakelog/staged/w/0000/000000.batches", "_lakelog/staged/w/plan", "_lakelog/commits/q/0",
    "_lakelog/groups/00", "_lakelog/mirror/0/00", "_lakelog/brokers/1/beat",
    "_lakelog/brokers/1/member", "_lakelog/pipeline", "_lakelog/time/x", "_lakelog/users",
    "_lakelog/acls", "_lakelog/quotas", "t/0/manifest", "t/0/segment-00000000000000000000.kfs",
    "t/0/segment-00000000000000000000.index", "t/0/page-w.json", "../elsewhere/t/0/manifest",
]  # fmt: skip


class Asked(NamedTuple):
    operation: str
    key: str
    """Within the namespace; of a list, what it begins with."""


class Worked(NamedTuple):
    users: dict[str, dict[str, str]]
    asked: dict[str, set[Asked]]


@pytest.fixture(scope="module")
def worked(
    seaweedfs: SeaweedFS, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Worked]:
    seaweedfs.bucket(BUCKET)
    with running_flaky_proxy(seaweedfs.endpoint) as proxy:
        made = {
            role: seaweedfs.user(f"{FOLDER}-{role}", bucket_policy(role, BUCKET, FOLDER))
            for role in ROLES
        }
        users = {role: {**user, "endpoint": proxy.endpoint} for role, user in made.items()}
        work(users, spark, tmp_path_factory.mktemp("spool"))
        yield Worked(made, asked_by(proxy, users))


def work(users: dict[str, dict[str, str]], spark: SparkSession, spool: Path) -> None:
    """Let everybody do what they are for, with their own credentials alone."""
    with running_lakelog(URL, users["broker"], ["--init", "--keep-every", "2"]) as broker:
        create_topic(broker.bootstrap, TOPIC, PARTITIONS)
        create_topic(broker.bootstrap, "gone", 1)
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for number in range(RECORDS):
            producer.produce(TOPIC, b"%d" % number, key=b"k", partition=number % PARTITIONS)
        producer.produce("gone", b"soon")
        assert producer.flush(60) == 0
        assert by_group(broker.bootstrap) == RECORDS
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        for future in admin.delete_records([TopicPartition(TOPIC, 0, 1)]).values():
            future.result()
        for future in admin.delete_topics(["gone"]).values():
            future.result()
        assert by_spark(spark, users["reader"]).count() == RECORDS - 1
        rows = spark.range(RECORDS).selectExpr("'k' AS key", "CAST(id AS STRING) AS value")
        to = rows.write.format("lakelog").options(**of_spark(users["writer"]))
        to.option("path", URL).option("topic", TOPIC).mode("append").save()
        assert by_spark(spark, users["reader"]).count() == 2 * RECORDS - 1
        lakelog("spool", "append", str(spool), TOPIC, "--partition", "0", stdin="a\nb\n")
        lakelog("spool", "ship", str(spool), "--to", URL, user=users["spool"], of="to-")
        broker.kill()
    lakelog("pipeline", "run", "--now", URL, user=users["pipeline"])
    lakelog("pipeline", "verify", URL, "--layout", "lakelog", user=users["pipeline"])
    lakelog("keep", URL, user=users["pipeline"])
    assert by_spark(spark, users["reader"]).count() == 2 * RECORDS + 1


def by_group(bootstrap: str) -> int:
    """Read all that there is as a group, commit, and return the number of records."""
    options = {"bootstrap.servers": bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
    found = 0
    with closing(Consumer(options)) as consumer:
        consumer.subscribe([TOPIC])
        for _ in range(60):
            found += len(consumer.consume(RECORDS, 1.0))
            if found == RECORDS:
                break
        consumer.commit(asynchronous=False)
    in_time(found == RECORDS, f"{found} records in a minute")
    return found


def by_spark(spark: SparkSession, user: dict[str, str]) -> DataFrame:
    reader = spark.read.format("lakelog").options(**of_spark(user))
    return reader.option("path", URL).option("subscribe", TOPIC).load()


def of_spark(user: dict[str, str]) -> dict[str, str]:
    return {f"store.{name}": value for name, value in user.items()}


def lakelog(*argv: str, user: dict[str, str] | None = None, of: str = "", stdin: str = "") -> None:
    """Run a command, which must do what it is for."""
    words = [f"{name}={value}" for name, value in (user or {}).items()]
    options = [word for pair in words for word in (f"--{of}store-option", pair)]
    command = mortal([sys.executable, "-m", "lakelog", *argv, *options])
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stdout + done.stderr


def asked_by(proxy: FlakyProxy, users: dict[str, dict[str, str]]) -> dict[str, set[Asked]]:
    roles = {user["access_key_id"]: role for role, user in users.items()}
    found: dict[str, set[Asked]] = {role: set() for role in users}
    for who, method, target in proxy.tally().targets:
        parts = urlsplit(target)
        query = parse_qs(parts.query, keep_blank_values=True)
        if "lifecycle" in query:
            asked = Asked("lifecycle", "")
        elif "list-type" in query:
            prefix = query.get("prefix", [""])[0]
            assert prefix.startswith(f"{FOLDER}/"), f"{roles[who]} lists {prefix!r}"
            asked = Asked("list", prefix.removeprefix(f"{FOLDER}/"))
        else:
            key = unquote(parts.path).removeprefix(f"/{BUCKET}/{FOLDER}/")
            asked = Asked(OPERATIONS[method], key)
        found[roles[who]].add(asked)
    return found


# ---------------------------------------------------------------------------- nothing is idle


def allowed(role: Role) -> list[Asked]:
    rows = [("get", role.get), ("put", role.put), ("delete", role.delete)]
    return [Asked(name, key) for name, keys in rows for key in keys]


@pytest.mark.parametrize("role", ROLES)
def test_whatever_a_policy_allows_its_process_does(worked: Worked, role: str) -> None:
    asked = worked.asked[role]
    for operation, pattern in allowed(ROLES[role]):
        done = [one for one in asked if one.operation == operation]
        assert any(fnmatch.fnmatchcase(one.key, pattern) for one in done), (operation, pattern)
    assert ROLES[role].lifecycle == any(one.operation == "lifecycle" for one in asked)


@pytest.mark.parametrize("role", ROLES)
def test_who_may_replace_an_object_may_read_it(role: str) -> None:
    """S3 asks for both when a PUT has an If-Match."""
    row = ROLES[role]
    for key in KINDS:
        assert decided(row, "get", key) or not decided(row, "put", key)


# ---------------------------------------------------------------------------- the store decides


def decided(role: Role, operation: str, key: str) -> bool:
    """Whether a role may do that to an object, by the table alone."""
    patterns: tuple[str, ...] = getattr(role, operation)
    denied = role.never if operation == "get" else (*role.never, *role.unchanged)
    return (
        not key.startswith("../")
        and any(fnmatch.fnmatchcase(key, one) for one in patterns)
        and not any(fnmatch.fnmatchcase(key, one) for one in denied)
    )


def status_of(
    seaweedfs: SeaweedFS, user: dict[str, str], method: str, key: str, query: str = ""
) -> int:
    """Return what the store says to one request of a user."""
    path = f"/{BUCKET}" + (
        f"?{query}" if query else f"/{quote(os.path.normpath(f'{FOLDER}/{key}'))}"
    )
    keys = user["access_key_id"], user["secret_access_key"]
    signed = signed_headers(method, seaweedfs.endpoint + path, b"", *keys)
    return seaweedfs.send(method, path, b"", signed).status


@pytest.mark.parametrize("role", ROLES)
def test_the_store_decides_as_the_table_says(
    worked: Worked, seaweedfs: SeaweedFS, role: str
) -> None:
    for operation, key in product(("get", "put", "delete"), KINDS):
        # Below a name that nobody uses, so that nothing of the namespace is lost.
        method = operation.upper()
        if operation != "get":
            key = key.replace("0001", "9991") if "lanes" in key else key
        status = status_of(seaweedfs, worked.users[role], method, key)
        expected = decided(ROLES[role], operation, key)
        assert (status != 403) == expected, (operation, key, status)


@pytest.mark.parametrize("role", ROLES)
def test_only_the_namespace_is_listed(worked: Worked, seaweedfs: SeaweedFS, role: str) -> None:
    user = worked.users[role]
    inside = f"list-type=2&prefix={quote(f'{FOLDER}/_lakelog/topics/', safe='')}"
    assert status_of(seaweedfs, user, "GET", "", inside) == 200
    outside = f"list-type=2&prefix={quote('elsewhere/', safe='')}"
    assert status_of(seaweedfs, user, "GET", "", outside) == 403


@pytest.mark.parametrize("role", ROLES)
def test_what_is_not_there_is_not_found(worked: Worked, seaweedfs: SeaweedFS, role: str) -> None:
    """A store that says 403 of it makes every question a failure."""
    key = "_lakelog/lanes/0000/00000000000000099999.bundle"
    assert status_of(seaweedfs, worked.users[role], "GET", key) == 404
