"""What a web console of Kafka asks is answered, as Kafka answers it, or not offered at all.

The consoles themselves are not in the package registries. So their calls are replayed with the Java
client, as they make them: at the start, for each page, and for what can be edited. A console asks
what a broker offers and hides the rest, and every one of them takes these errors for "not here".
"""

import subprocess
from pathlib import Path

import pytest

from tests.parts.archives import quick_kafka
from tests.parts.jars import compiled
from tests.parts.jvm import java
from tests.parts.kafka import Kafka
from tests.parts.lakelog import running_lakelog
from tests.parts.process import mortal

SOURCE = Path(__file__).parent / "java" / "Console.java"

NOT_HERE = {
    "quorum": "UnsupportedVersionException",
    "reassignments": "UnsupportedVersionException",
    "transactions": "UnsupportedVersionException",
}


def replay(bootstrap: str) -> dict[str, str]:
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
    argv = [java(), *quick_kafka(), quiet, "-cp", compiled("console", SOURCE), "Console", bootstrap]
    done = subprocess.run(mortal(argv), capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    return dict(line.split("\t") for line in done.stdout.splitlines())


@pytest.mark.kafka
def test_a_console_is_answered_as_by_kafka_or_told_that_it_is_not_here(kafka: Kafka) -> None:
    theirs = replay(kafka.bootstrap)
    assert not [what for what in theirs.values() if what == "UnsupportedVersionException"]
    with running_lakelog() as broker:
        ours = replay(broker.bootstrap)
    assert len(theirs) > 25
    assert ours == {**theirs, **NOT_HERE}
