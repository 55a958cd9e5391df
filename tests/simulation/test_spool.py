"""A spool on a disk that forgets: many stories, and every planted bug is found.

``LAKELOG_SPOOL_SEEDS`` says how many; ``make sim-spool`` runs ten thousand.
"""

import logging
import os
from collections.abc import Iterator

import pytest

from lakelog.testing.spool_bugs import SPOOL_BUGS, planted_in_spool
from lakelog.testing.spooling import simulate_spool
from lakelog.testing.truth import Anomaly

SEEDS = int(os.environ.get("LAKELOG_SPOOL_SEEDS", "60"))  # noqa: TID251
CHUNK = 10


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """What was cut off and dropped is said many times over."""
    log = logging.getLogger("lakelog.spool")
    log.setLevel(logging.ERROR)
    yield
    log.setLevel(logging.NOTSET)


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_whatever_was_promised_is_there(first: int) -> None:
    for seed in range(first, first + CHUNK):
        try:
            simulate_spool(seed)
        except Anomaly as error:
            raise AssertionError(
                f"seed {seed}: {error}; python -m lakelog.testing --spool --seeds {seed}"
            ) from error


@pytest.mark.parametrize("name", SPOOL_BUGS)
def test_what_is_planted_is_found(name: str) -> None:
    with planted_in_spool(name), pytest.raises(Anomaly):
        simulate_spool(SPOOL_BUGS[name].seed)
