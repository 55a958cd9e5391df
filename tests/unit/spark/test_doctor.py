"""What the doctor makes of a machine, as far as no Spark is needed."""

from pathlib import Path

import pytest

from lakelog.spark.doctor import Check, check_here

NEW = 'openjdk version "21.0.2" 2024-01-16'


def java_check(home: Path, said: str) -> Check:
    """Look at a Java that says this when it is asked for its version."""
    (home / "bin").mkdir(parents=True)
    java = home / "bin" / "java"
    java.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{said}\nEND\n")
    java.chmod(0o755)
    (found,) = (check for check in check_here(str(home)) if check.name == "java")
    return found


@pytest.mark.parametrize(
    ("said", "good", "found"),
    [
        (NEW, True, NEW),
        (f"NOTE: Picked up JDK_JAVA_OPTIONS: -Xmx1g\n{NEW}\nOpenJDK Runtime", True, NEW),
        ('java version "1.8.0_392"', False, 'java version "1.8.0_392"'),
        ("no such thing", False, "no such thing"),
    ],
)
def test_javas_version_is_found_in_whatever_it_says(
    tmp_path: Path, said: str, good: bool, found: str
) -> None:
    check = java_check(tmp_path, said)
    assert (check.good, check.found) == (good, found)
    assert "JDK 17" in check.remedy


def test_a_java_that_is_not_there_is_told(tmp_path: Path) -> None:
    (found,) = (check for check in check_here(str(tmp_path)) if check.name == "java")
    assert not found.good
