"""Stories that take turns in CI exist: a name that nothing has would be a story told by nobody."""

import ast
from pathlib import Path

import pytest

from tests.e2e.conftest import HERE, TURNS


@pytest.mark.parametrize("name", [one for _, stories in TURNS.values() for one in stories])
def test_a_story_that_takes_turns_is_there(name: str) -> None:
    module, _, function = name.partition("::")
    tree = ast.parse(Path(HERE, module).read_text())
    tests = {one.name for one in tree.body if isinstance(one, ast.FunctionDef)}
    assert not function or function in tests


@pytest.mark.parametrize("name", TURNS)
def test_some_of_them_run_and_some_wait(name: str) -> None:
    count, stories = TURNS[name]
    assert 0 < count < len(stories)
