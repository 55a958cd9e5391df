"""Tests wait for what happens, not for a while; only one that says it was late is run again."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.house import ROOT
from tests.patience import LateError

_HELD = "how long work holds the loop is measured, and work takes real time"
REAL = {
    "broker/test_connection.py::"
    "test_a_client_that_does_not_read_is_not_read_and_its_answers_do_not_pile_up": (
        "a peer that closed its window is a matter of the kernel, which has timers of its own"
    ),
    "broker/test_scans.py::Loop": _HELD,
    "broker/test_scans.py::test_asking_for_a_time_does_not_hold_up_the_loop_whatever_is_there": (
        _HELD
    ),
    "broker/test_turns.py::"
    "test_a_small_request_that_names_many_things_does_not_hold_up_the_loop": _HELD,
    "broker/test_turns.py::"
    "test_many_things_are_given_in_their_order_and_others_go_on_meanwhile": _HELD,
}
"""Tests in tests/unit that let real time pass, and why nothing else will do."""


def _sleeps(path: Path) -> Iterator[str]:
    """Yield the names of outermost functions in which real time passes."""
    for outer in ast.parse(path.read_text()).body:
        for node in ast.walk(outer):
            if not isinstance(node, ast.Call):
                continue
            name, args = ast.unparse(node.func), [ast.unparse(one) for one in node.args]
            if name == "time.sleep" or (name == "asyncio.sleep" and args != ["0"]):
                yield f"{path.relative_to(ROOT / 'tests/unit')}::{getattr(outer, 'name', '?')}"


def test_no_unit_test_sleeps() -> None:
    """A sleep is too short on a busy machine, and on any other it is time that everybody waits.

    ``until`` waits for what comes by itself; ``pass_time`` lets time pass on a virtual loop.
    """
    found = {name for path in ROOT.glob("tests/unit/**/*.py") for name in _sleeps(path)}
    assert found == set(REAL)


@pytest.mark.parametrize(
    ("error", "again"),
    [(LateError("2 s"), True), (TimeoutError(), False), (AssertionError(), False)],
)
def test_only_what_says_that_it_was_late_is_run_again(error: Exception, again: bool) -> None:
    """A wake-up that was lost ends in a TimeoutError, and would not be lost the second time."""
    options = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    (pattern,) = [
        one.removeprefix("--only-rerun=")
        for one in options["addopts"]
        if one.startswith("--only-rerun=")
    ]
    assert bool(re.search(pattern, f"{type(error).__name__}: {error}")) is again
