"""The cell of quotas: read, changed by several at once, and not taken for what it is not."""

import json

import pytest

from lakelog.catalog import change_quotas, read_quotas
from lakelog.errors import CorruptError, UnsupportedError
from lakelog.names import QUOTAS_KEY
from lakelog.security import Alteration
from lakelog.store import PutIfAbsent, PutIfMatch
from tests.unit.log.site import Site, lose_answer

ALICE, BOB = (("user", "alice"),), (("user", "bob"),)


@pytest.fixture
def site() -> Site:
    return Site()


def test_without_a_cell_there_are_none_and_the_first_change_makes_it(site: Site) -> None:
    assert site.run(read_quotas()).quotas.rows == {}
    now, flaws = site.run(change_quotas([Alteration(ALICE, [("producer_byte_rate", 5.0)])]))
    assert (now.version, flaws) == (1, {ALICE: ""})
    found = site.run(read_quotas())
    assert found.quotas == now
    assert site.run(read_quotas(found)) is found


def test_what_is_set_already_or_refused_changes_nothing(site: Site) -> None:
    rate = Alteration(ALICE, [("producer_byte_rate", 5.0)])
    wrong = Alteration(BOB, [("producer_byte_rate", 0.5)])
    site.run(change_quotas([rate]))
    before = site.run(read_quotas())
    now, flaws = site.run(change_quotas([rate, wrong]))
    assert now == before.quotas
    assert flaws[ALICE] == ""
    assert "producer_byte_rate" in flaws[BOB]
    assert site.run(read_quotas(before)) is before


@pytest.mark.parametrize("kind", [PutIfAbsent, PutIfMatch])
def test_a_lost_answer_does_no_harm(site: Site, kind: type) -> None:
    if kind is PutIfMatch:
        site.run(change_quotas([Alteration(ALICE, [("consumer_byte_rate", 5.0)])]))
    change = [Alteration(ALICE, [("producer_byte_rate", 5.0)])]
    site.run(change_quotas(change), lose_answer(site, kind, QUOTAS_KEY))
    assert site.run(read_quotas()).quotas.rows[ALICE]["producer_byte_rate"] == 5


@pytest.mark.parametrize(
    "row",
    [
        {},
        {"values": {}},
        {"user": "", "values": {}},
        {"user": 7, "values": {}},
        {"user": "a", "values": {"producer_byte_rate": -1}},
        {"user": "a", "values": {"producer_byte_rate": True}},
        {"user": "a", "values": [1]},
        7,
    ],
)
def test_what_is_no_cell_of_quotas_is_not_taken_for_one(site: Site, row: object) -> None:
    site.replace(QUOTAS_KEY, json.dumps({"format": 1, "version": 1, "quotas": [row]}).encode())
    with pytest.raises(CorruptError):
        site.run(read_quotas())


def test_a_field_of_a_later_version_is_refused_and_the_cell_is_left_as_it_is(site: Site) -> None:
    for body in (
        b'{"format": 2, "version": 1, "quotas": []}',
        b'{"format": 1, "version": 1, "quotas": [], "new": 1}',
        b'{"format": 1, "version": 1, "quotas": [{"user": "a", "values": {}, "new": 1}]}',
    ):
        site.replace(QUOTAS_KEY, body)
        with pytest.raises(UnsupportedError):
            site.run(change_quotas([Alteration(ALICE, [("producer_byte_rate", 5.0)])]))
        with pytest.raises(UnsupportedError):
            site.run(read_quotas())
