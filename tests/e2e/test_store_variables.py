"""A store on plain HTTP, named by the variables that every tool for S3 knows, and by nothing else.

Each command is a process whose only word about the store is its address: serve, keep, topic,
Apache's tools, doctor, and a Python program that scans.
"""

import json
import subprocess
import sys
from collections.abc import Mapping

import pytest

from lakelog.host import new_id
from tests.parts.archives import quick_environment
from tests.parts.lakelog import running_lakelog
from tests.parts.seaweedfs import SeaweedFS

pytestmark = pytest.mark.seaweedfs

SCAN = "import lakelog, sys; print(lakelog.scan(sys.argv[1]).read_all()['value'].to_pylist())"


def run(argv: list[str], variables: Mapping[str, str], stdin: str = "") -> str:
    done = subprocess.run(
        [sys.executable, *argv],
        env={**quick_environment(), **variables},
        input=stdin, capture_output=True, text=True, timeout=180,
    )  # fmt: skip
    assert done.returncode == 0, (argv, done.stdout, done.stderr)
    return done.stdout


@pytest.mark.sample(1)
@pytest.mark.parametrize("endpoint", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"])
def test_the_usual_variables_are_enough_for_every_command(
    seaweedfs: SeaweedFS, endpoint: str
) -> None:
    url = f"s3://{seaweedfs.bucket('variables')}/{new_id().hex()}"
    variables = {
        endpoint: seaweedfs.endpoint,
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": seaweedfs.access_key,
        "AWS_SECRET_ACCESS_KEY": seaweedfs.secret_key,
    }

    def lakelog(*words: str, stdin: str = "") -> str:
        return run(["-m", "lakelog", *words], variables, stdin)

    arguments = ["--init", "--no-keep"]
    with running_lakelog(url, arguments=arguments, env=variables) as broker:
        at = ("--bootstrap-server", broker.bootstrap)
        lakelog("topic", "create", "t", "--storage", url)
        lakelog("kafka-console-producer", *at, "--topic", "t", stdin="one\ntwo\n")
        told = lakelog("topic", "describe", "t", "--storage", url, "--json")
        assert "two" not in told
        read = ("--topic", "t", "--from-beginning", "--max-messages", "2")
        assert lakelog("kafka-console-consumer", *at, *read) == "one\ntwo\n"
        assert run(["-c", SCAN, url], variables) == "[b'one', b'two']\n"
        lakelog("keep", url, "--idle")
        lakelog("kafka-console-producer", *at, "--topic", "t", stdin="three\n")
        assert run(["-c", SCAN, url], variables) == "[b'one', b'two', b'three']\n"
    checks = json.loads(lakelog("doctor", "store", url, "--writers", "2", "--keys", "2", "--json"))
    assert checks["good"], checks
    assert {one["check"]: one["verdict"] for one in checks["checks"]}["expiry"] == "good", (
        "the rules of the bucket are asked for with the key of the variables"
    )
