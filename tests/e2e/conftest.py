"""What several end-to-end tests share and takes long to make."""

from collections.abc import Iterator

import pytest

from tests.e2e.oracle.story import Story, tell_story


@pytest.fixture(scope="session")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """A real Kafka, and its directories at several times of its life."""
    with tell_story(tmp_path_factory.mktemp("story")) as told:
        yield told
