"""The clock of a store that is somewhere else, over the wire, against a real process's own."""

import subprocess
import sys
from datetime import timedelta

import pytest

from lakelog.errors import UnavailableError
from lakelog.host import SystemClock, new_id
from lakelog.journal import StoreTime, stamp
from lakelog.store import open_store, run, working
from tests.parts.lying_s3 import LyingS3, running_lying_s3


def lakelog(s3: LyingS3, option: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command against the store, to its end."""
    options = [f"{option}={name}={value}" for name, value in s3.options.items()]
    command = [sys.executable, "-m", "lakelog", *arguments, *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_a_store_that_tells_whole_seconds_agrees_with_a_right_clock() -> None:
    """To the millisecond: there is no reason to be a second behind."""
    clock = SystemClock()
    with running_lying_s3() as s3:
        perform = working(open_store("s3://bucket", s3.options).perform)
        for _ in range(5):
            before_ms = clock.now_ms()
            now_ms = run(stamp(StoreTime(), clock, new_id), perform)
            assert before_ms - 2 <= now_ms <= clock.now_ms() + 2  # Of two clocks, both rounded.


@pytest.mark.parametrize("minutes", [-2, 2])
def test_a_store_whose_clock_is_a_little_off_is_followed(minutes: int) -> None:
    clock, ahead = SystemClock(), timedelta(minutes=minutes)
    with running_lying_s3() as s3:
        s3.ahead = ahead
        now_ms = run(
            stamp(StoreTime(), clock, new_id),
            working(open_store("s3://bucket", s3.options).perform),
        )
    assert abs(now_ms - clock.now_ms() - ahead // timedelta(milliseconds=1)) <= 2_000


def test_a_store_whose_clock_is_far_off_is_told_of() -> None:
    with running_lying_s3() as s3:
        s3.ahead = timedelta(minutes=-6)
        perform = working(open_store("s3://bucket", s3.options).perform)
        with pytest.raises(UnavailableError, match="more than 300 seconds apart"):
            run(stamp(StoreTime(), SystemClock(), new_id), perform)


def test_a_broker_process_whose_clock_is_wrong_ends_and_says_both_times() -> None:
    """In place of a machine in 2100, a store in the past: the tests have this machine's clock."""
    with running_lying_s3() as s3:
        assert lakelog(s3, "--store-option", "init", "s3://bucket").returncode == 0
        made = set(s3._objects)
        s3.ahead = timedelta(days=-365 * 50)
        ended = lakelog(
            s3,
            "--store-option",
            "serve",
            "--storage=s3://bucket",
            "--listen=127.0.0.1:0",
            "--no-keep",
        )
        assert ended.returncode == 1
        last = ended.stderr.strip().splitlines()[-1]
        assert last.startswith("Error: the clock of this machine says 20")
        assert "the clock of the store 19" in last
        assert "Set the clock of this machine (NTP)" in last
        assert "Traceback" not in ended.stderr
        # Nothing but what `init` has made: no group was taken from another broker.
        assert set(s3._objects) == made
