"""Groups with a key for each: what only they go through. Owners are in ``test_groups``."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from lakelog.coordination import GROUP_BYTES_MAX, KeyedGroups, encode_group, shard_of
from lakelog.errors import CorruptError, FencedError, InvalidInputError, UnavailableError
from lakelog.names import claim_key, group_key
from lakelog.store import ETCD_BYTES_MAX, ETCD_CHANGES_MAX, Delete, Get, PutIfAbsent, PutTogether
from tests.unit.coordination.test_groups import A, B, Site, group

MANY = 3 * ETCD_CHANGES_MAX


def names(count: int) -> list[str]:
    found = (str(number) for number in range(99_999))
    return [name for name in found if shard_of(name, 8) == 0][:count]


def changes(count: int = MANY, generation: int = 1) -> dict[str, bytes | None]:
    return {name: encode_group(group(name, generation=generation)) for name in names(count)}


def test_a_commit_is_as_large_as_its_group_and_not_as_its_shard() -> None:
    site, mine = Site(), KeyedGroups(A)
    held = site.run(mine.save(site.run(mine.claim(0)), changes()))
    site.puts.clear()
    one = dict(list(changes(generation=2).items())[:1])
    site.run(mine.save(held, one))
    (put,) = site.puts
    assert isinstance(put, PutTogether)
    assert put.size < 2_000


def test_no_request_has_more_changes_or_bytes_than_etcd_takes() -> None:
    site, mine = Site(), KeyedGroups(A)
    held = site.run(mine.claim(0))
    large: Mapping[str, bytes | None] = {name: bytes(GROUP_BYTES_MAX // 3) for name in names(10)}
    for changed in (changes(), large):
        held = site.run(mine.save(held, changed))
    puts = [put for put in site.puts if isinstance(put, PutTogether)]
    assert len(puts) == 4 + 4
    assert all(len(put.others) < ETCD_CHANGES_MAX and put.size <= ETCD_BYTES_MAX for put in puts)


@pytest.mark.parametrize("at", range(4))
@pytest.mark.parametrize("fault", ["lose_request", "lose_answer"])
def test_a_large_save_goes_on_where_it_was_broken_off(at: int, fault: str) -> None:
    site, mine = Site(), KeyedGroups(A)
    held = site.run(mine.claim(0))
    site.faults = [site.store.perform] * at + [getattr(site, fault)]
    with pytest.raises(UnavailableError):
        site.run(mine.save(held, changes()))
    after = site.run(mine.save(held, changes()))
    assert after.writes == 4
    assert dict(after.groups) == changes()
    found = site.run(KeyedGroups(B).claim(0))
    assert dict(found.groups) == changes()
    with pytest.raises(FencedError):
        site.run(mine.save(after, {}))


def test_a_large_save_that_is_taken_over_halfway_is_fenced() -> None:
    site, mine = Site(), KeyedGroups(A)
    held = site.run(mine.claim(0))

    def take_over(op: Any) -> Any:
        site.run(KeyedGroups(B).claim(0))
        return site.store.perform(op)

    site.faults = [site.store.perform, take_over]
    with pytest.raises(FencedError):
        site.run(mine.save(held, changes()))
    assert len(site.run(KeyedGroups(B).read(0)).groups) == ETCD_CHANGES_MAX - 1


def test_a_group_that_etcd_would_not_take_is_refused_before_anything_is_stored() -> None:
    site, mine = Site(), KeyedGroups(A)
    held = site.run(mine.claim(0))
    few, large = names(2)
    with pytest.raises(InvalidInputError, match="commit fewer partitions"):
        site.run(mine.save(held, {few: b"{}", large: bytes(GROUP_BYTES_MAX + 1)}))
    assert dict(site.run(mine.read(0)).groups) == {}


def test_whose_a_shard_is_is_told_without_its_groups() -> None:
    site, mine = Site(), KeyedGroups(A)
    assert site.run(mine.holder(0)) is None
    held = site.run(mine.save(site.run(mine.claim(0)), changes(3)))
    found = site.run(KeyedGroups(B).holder(0))
    assert (found.claim, found.writes, dict(found.groups)) == (held.claim, 1, {})
    assert site.run(mine.read_again(held)) is held


def test_a_group_under_the_name_of_another_is_damage() -> None:
    site, mine = Site(), KeyedGroups(A)
    one, other = names(2)
    site.run(mine.claim(0))
    site.store.perform(PutIfAbsent(group_key(0, one), encode_group(group(other))))
    with pytest.raises(CorruptError, match="it is the group"):
        site.run(mine.read(0))


def test_a_claim_that_is_none_is_damage_and_left_as_it_is() -> None:
    site, mine = Site(), KeyedGroups(A)
    site.run(mine.claim(0))
    fields = json.loads(site.store.perform(Get(claim_key(0))).body)
    for changed in ({"shard": 1}, {"shards": 0}, {"broker": "00"}, {"epoch": "x"}):
        site.store.perform(Delete(claim_key(0)))
        body = json.dumps(fields | changed).encode()
        site.store.perform(PutIfAbsent(claim_key(0), body))
        with pytest.raises(CorruptError):
            site.run(KeyedGroups(B).claim(0))
        assert site.store.perform(Get(claim_key(0))).body == body
