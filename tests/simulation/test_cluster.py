"""A simulated cluster: nothing goes wrong in it, and what is planted is found, by its law."""

import pytest

from lakelog.testing.cluster import CLUSTER_BUGS, planted_in_cluster, simulate_cluster
from lakelog.testing.truth import Anomaly

SEEDS = {
    "fetch-no-look": (4, "commit went back"),
    "epoch-invented": (0, "one leader"),
    "claim-at-once": (0, "claims"),
    "dead-by-time": (1, "dead by lists"),
    "no-empty-bundle": (0, "one leader"),
    "old-view": (0, "fresh"),
    "no-release": (0, "home"),
    "hash-of-runs": (0, "home"),
    "past-forgotten": (31, "redirect ignored"),
    "told-early": (80, "redirect ignored"),
    "save-guessed": (8, "commit went back"),
    "replaced-lives-on": (2, "replaced"),
    "dead-epochs-forgotten": (151, "epochs"),
    "unknown-acked": (3, "lost"),
}
"""Where each bug shows, and as what."""


FAILED = {
    607: "a claim whose answer was lost, of a shard that should be elsewhere: nobody gave it up",
    641: "a look under an earlier claim ended in a loss, and the one taken since was dropped",
    796: "a lane that was taken while the first ones were being announced was never announced",
}
"""Seeds that found something."""


@pytest.mark.parametrize("seed", FAILED)
def test_what_was_found_once_is_not_found_again(seed: int) -> None:
    simulate_cluster(seed)


def test_every_bug_has_its_seed() -> None:
    assert SEEDS.keys() == CLUSTER_BUGS.keys()


@pytest.mark.parametrize("name", SEEDS)
def test_a_planted_bug_is_found(name: str) -> None:
    seed, law = SEEDS[name]
    with planted_in_cluster(name), pytest.raises(Anomaly, match=law):
        simulate_cluster(seed)


@pytest.mark.parametrize("seed", sorted({seed for seed, _ in SEEDS.values()}))
def test_without_it_nothing_is_found(seed: int) -> None:
    report = simulate_cluster(seed)
    assert report.acks > 100
    assert report.ways["committed"] > 100
