"""A pipeline says until when it keeps the namespace, and brokers stand back."""

import pytest

from lakelog.catalog import claim_pipeline, is_pipeline_claimed
from lakelog.errors import CorruptError, UnsupportedError
from lakelog.names import PIPELINE_KEY
from lakelog.store import PutIfAbsent, PutIfMatch
from tests.unit.log.site import Site, lose_answer

A, B = bytes(15) + b"1", bytes(15) + b"2"


@pytest.fixture
def site() -> Site:
    return Site()


def claimed(site: Site, now_ms: int) -> bool:
    return site.run(is_pipeline_claimed(now_ms))


def test_without_a_claim_brokers_keep(site: Site) -> None:
    assert not claimed(site, 0)


def test_a_claim_runs_out(site: Site) -> None:
    site.run(claim_pipeline(A, 100))
    assert claimed(site, 99)
    assert not claimed(site, 100)


def test_a_claim_is_renewed_by_anybody(site: Site) -> None:
    site.run(claim_pipeline(A, 100))
    site.run(claim_pipeline(B, 200))
    assert claimed(site, 150)
    site.run(claim_pipeline(B, 200))
    assert claimed(site, 150)


@pytest.mark.parametrize("kind", [PutIfAbsent, PutIfMatch])
def test_a_lost_answer_does_no_harm(site: Site, kind: type) -> None:
    if kind is PutIfMatch:
        site.run(claim_pipeline(A, 50))
    site.run(claim_pipeline(A, 100), lose_answer(site, kind, PIPELINE_KEY))
    assert claimed(site, 99)


def test_what_is_no_claim_is_not_taken_for_one(site: Site) -> None:
    for body in (b"", b"{}", b'{"format": 1}', b'{"format": 1, "until_ms": "x"}'):
        site.replace(PIPELINE_KEY, body)
        with pytest.raises((CorruptError, UnsupportedError)):
            claimed(site, 0)
    site.replace(PIPELINE_KEY, b'{"format": 2, "until_ms": 7}')
    with pytest.raises(UnsupportedError):
        claimed(site, 0)
