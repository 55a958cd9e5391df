"""The simulator tells the same story twice, and finds every bug that is planted.

The many seeds are run by ``make sim``. Here are those that matter one by one: every seed that ever
failed, and for each planted bug the seed that finds it.
"""

import json
from pathlib import Path

import pytest

from lakelog.testing import BUGS, Anomaly, planted, simulate

HERE = Path(__file__).parent
FINDINGS: dict[str, int] = json.loads((HERE / "findings.json").read_text())
"""Of each planted bug, a seed that finds it."""
FAILED: dict[str, str] = json.loads((HERE / "failed.json").read_text())
"""Seeds that failed once, and what was wrong."""


def test_a_seed_tells_the_same_story_twice() -> None:
    assert simulate(11) == simulate(11)


def test_every_planted_bug_has_been_found() -> None:
    assert FINDINGS.keys() == BUGS.keys()


@pytest.mark.parametrize("bug", sorted(BUGS))
def test_a_planted_bug_is_found(bug: str) -> None:
    with planted(bug), pytest.raises(Anomaly):
        simulate(FINDINGS[bug], faults=BUGS[bug].faults)


@pytest.mark.parametrize("bug", sorted(BUGS))
def test_without_the_bug_its_seed_is_sound(bug: str) -> None:
    simulate(FINDINGS[bug], faults=BUGS[bug].faults)


@pytest.mark.parametrize("seed", sorted(map(int, FAILED)))
def test_a_seed_that_failed_once_does_not_fail_again(seed: int) -> None:
    simulate(seed)
