"""Every input that a fuzz run starts from, or once broke something, without atheris."""

import pytest

from tests.fuzz.targets import CORPUS, TARGETS, load

CORPUS_BYTES_MAX = 500_000


def test_every_target_has_a_corpus_and_every_corpus_a_target() -> None:
    assert {path.name for path in CORPUS.iterdir()} == set(TARGETS)


def test_the_corpus_is_small() -> None:
    sizes = [path.stat().st_size for path in CORPUS.rglob("*") if path.is_file()]
    assert sum(sizes) < CORPUS_BYTES_MAX
    assert max(sizes) < 10_000


@pytest.mark.parametrize("name", TARGETS)
def test_the_corpus_is_read_as_it_should_be(name: str) -> None:
    """A target whose seeds are all refused would fuzz nothing but its first check."""
    target = load(name)
    found = {path.name: target(path.read_bytes()) for path in sorted((CORPUS / name).iterdir())}
    assert any(found.values()), found
    target(b"")
