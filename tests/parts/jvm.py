"""Finds the Java tools: Kafka, Spark and the Java oracle all need a JDK, version 17 or later."""

import functools
import os
import re
import shutil
import subprocess
from pathlib import Path

from tests.parts.process import MissingPartError

OLDEST = 17
# A JVM that lives for seconds gains nothing from the optimising compiler, and on two cores it
# loses half its time to it. Benchmarks do without these flags, or they would measure a crippled
# opponent.
QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xlog:disable")
_REMEDY = f"install a JDK {OLDEST} or later (Debian: apt-get install openjdk-17-jdk-headless)"


@functools.cache
def java() -> str:
    """The path of a `java` that is new enough."""
    command = jdk_tool("java")
    banner = subprocess.run([command, "-version"], capture_output=True, text=True).stderr
    version = re.search(r'version "(\d+)', banner)
    if version is None or int(version[1]) < OLDEST:
        raise MissingPartError(f"{command} is not Java {OLDEST} or later: {_REMEDY}\n{banner}")
    return command


def jdk_tool(name: str) -> str:
    """The path of one JDK command, from JAVA_HOME where that is set."""
    home = os.environ.get("JAVA_HOME")  # noqa: TID251 (the JDK's own convention)
    command = shutil.which(name, path=str(Path(home, "bin")) if home else None)
    if command is None:
        raise MissingPartError(f"`{name}` is missing: {_REMEDY}")
    return command
