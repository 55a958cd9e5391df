"""stderr: progress for people only, and never in the way of a message."""

import io

import pytest

from lakelog.cli.dump import streams as module
from lakelog.cli.dump.reading import Fault
from lakelog.cli.dump.streams import Output, Report


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class _BytesTerminal(io.BytesIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _always_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DRAW_EVERY_S", 0)


def test_a_terminal_sees_bytes_records_and_time_left() -> None:
    stderr = _Terminal()
    report = Report(stderr, Output(io.BytesIO()))

    report.begin_file()
    report.progress("a.log", 1 << 20, 2 << 20, 1234)

    assert "a.log: 1.0 of 2.0 MiB, 1,234 records, " in stderr.getvalue()
    assert stderr.getvalue().endswith(" s left")


def test_a_message_erases_the_progress_before_it() -> None:
    stderr = _Terminal()
    report = Report(stderr, Output(io.BytesIO()))

    report.progress("a.log", 1, 2, 3)
    report.fault(Fault(path="a.log", position=7, size=5, what="bad"))

    assert stderr.getvalue().endswith("\r\x1b[Klakelog: a.log at byte 7: bad; 5 bytes affected\n")


@pytest.mark.parametrize(
    ("stderr", "stdout"), [(io.StringIO(), io.BytesIO()), (_Terminal(), _BytesTerminal())]
)
def test_files_and_shared_terminals_see_no_progress(
    stderr: io.StringIO, stdout: io.BytesIO
) -> None:
    report = Report(stderr, Output(stdout))

    report.progress("a.log", 1, 2, 3)

    assert stderr.getvalue() == ""


def test_output_comes_before_the_message_about_it() -> None:
    stdout = io.BytesIO()
    output = Output(stdout)
    output.write("first\n")
    output.write("second\n")

    Report(io.StringIO(), output).say("third")

    assert stdout.getvalue() == b"first\nsecond\n"


def test_a_terminal_sees_every_line_at_once_and_a_pipe_the_first() -> None:
    for stdout, seen in ((_BytesTerminal(), b"a\nb\n"), (io.BytesIO(), b"a\n")):
        output = Output(stdout)
        output.write("a\n")
        output.write("b\n")

        assert stdout.getvalue() == seen
