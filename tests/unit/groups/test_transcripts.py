"""Stories of groups: what is written down is what happens."""

import pytest

from tests.transcripts.replay import FOLDER, replay

STORIES = sorted(FOLDER.glob("*.txt"))


def test_there_are_stories() -> None:
    assert len(STORIES) >= 10


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_the_story_happens_as_it_is_told(path: object) -> None:
    """``python -m tests.transcripts.replay`` writes what happens; read the diff."""
    text = path.read_text()  # type: ignore[attr-defined]
    assert replay(text) == text
