"""Tests that were late beside others are told apart, and run again when nothing else does.

    pytest -n 4 -p tests.e2e.late --late-to FILE   late ones neither pass nor fail; FILE names them
    xargs -a FILE pytest                           whoever is late here, time and again, has failed

Four processes share two cores, so that being late says little of the log (tests/patience.py). To
run a test again at once would be to run it in the same crowd.
"""

import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.patience import LateError

LATE = "late"
ERRORS = (LateError, subprocess.TimeoutExpired)
"""What says that something has not come, or not ended, in the time it was given."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--late-to", metavar="FILE", help="leave tests that are late for another run")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if item.config.option.late_to and report.failed and isinstance(_error(call), ERRORS):
        report.outcome = LATE  # type: ignore[assignment]
    return report


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    return (LATE, "L", "LATE") if report.outcome == LATE else None


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if not config.option.late_to:
        return
    late = {one.nodeid: one for one in terminalreporter.stats.get(LATE, [])}
    Path(config.option.late_to).write_text("".join(f"{name}\n" for name in late))
    for name, report in late.items():
        terminalreporter.write_line(f"late, to be run again: {name}: {_why(report)}")


def _error(call: pytest.CallInfo[None]) -> BaseException | None:
    return call.excinfo.value if call.excinfo else None


def _why(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    return crash.message.splitlines()[0][:300] if crash else ""
