"""The audit of a bucket finds damage, and what is left behind; and nothing where all is well."""

from pathlib import Path

import pytest

from lakelog.catalog import Topic
from lakelog.host import new_id
from lakelog.store import StoreSpec
from tests.chaos import audit
from tests.unit.pipeline.home import Home


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setattr(audit, "SWEPT_S", 0.0)  # The grace of this namespace does not pass.
    return Home(tmp_path)


def filled(home: Home) -> Topic:
    topic = home.topic()
    home.fill(topic, 12)
    return topic


def rules(home: Home, *, is_kept: bool) -> set[str]:
    found = audit.audited(StoreSpec(home.url), is_kept=is_kept)
    return {one.partition(":")[0] for one in found}


@pytest.mark.parametrize("is_kept", [True, False])
def test_there_is_nothing_where_all_is_well(home: Home, is_kept: bool) -> None:
    filled(home)
    assert rules(home, is_kept=is_kept) == set()


def test_what_nobody_names_is_an_orphan_where_somebody_sweeps(home: Home) -> None:
    topic = filled(home)
    left = Path(home.url, topic.path_of(0).prefix, f"segment-{7:020}-{new_id().hex()}.kfs")
    left.parent.mkdir(parents=True, exist_ok=True)
    left.write_bytes(b"left")
    assert rules(home, is_kept=True) == {"orphan"}
    assert rules(home, is_kept=False) == set()


def test_a_byte_that_has_changed_is_damage(home: Home) -> None:
    filled(home)
    bundle = next(Path(home.url).rglob("*.bundle"))
    data = bytearray(bundle.read_bytes())
    data[len(data) // 2] ^= 1
    bundle.write_bytes(bytes(data))
    assert rules(home, is_kept=False) == {"damaged"}


def test_a_place_without_a_namespace_cannot_be_read(tmp_path: Path) -> None:
    found = audit.audited(StoreSpec(str(tmp_path)), is_kept=True)
    assert [one.partition(":")[0] for one in found] == ["unreadable"]
