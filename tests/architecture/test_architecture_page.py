"""ARCHITECTURE.md answers what a newcomer asks, and what it says of the tree is so.

Three flows are followed there, file by file: downwards, and never back into a room that was left.
Ten tasks and more are answered with places; each place is a file, or a name that a file defines.
"""

import ast
import re
import tomllib

import pytest

from tests.architecture.house import MODULES, ROOT, Module

PAGE = (ROOT / "ARCHITECTURE.md").read_text()
FILES_MAX = 10
WORDS_MAX = 2_400
"""Ten minutes, for somebody who reads slowly because it is new."""

FLOWS = dict(re.findall(r"^### (.+?)\n.*?^```\n(.*?)^```", PAGE, re.M | re.S))
_TASKS = PAGE.partition("## Where would I go to")[2].partition("\n## ")[0]
TASKS = dict(re.findall(r"^\| ([^|`]+?) \| (.*`.*) \|$", _TASKS, re.M))
BY_PATH = {str(one.path.relative_to(ROOT / "src" / "lakelog")): one for one in MODULES
           if one.path.is_relative_to(ROOT / "src" / "lakelog")}  # fmt: skip


def floors() -> dict[str, int]:
    """The number of each room's floor, by the contract that keeps them."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    return {
        name.strip(" ()"): len(layers) - number
        for number, layer in enumerate(layers)
        for name in layer.split("|")
    }


def steps(flow: str) -> list[Module]:
    return [BY_PATH[path] for path in re.findall(r"^ +(\w[\w/]*\.py)  ", flow, re.M)]


def room(module: Module) -> str:
    return module.top


def defined(module: Module) -> set[str]:
    """What a file defines: at its top, and in its classes."""
    found: set[str] = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {ast.unparse(target) for target in node.targets}
        elif isinstance(node, ast.AnnAssign):
            found.add(ast.unparse(node.target))
    return found


def imported(module: Module) -> set[str]:
    """The modules of lakelog that it imports from, by the front door or not."""
    found: set[str] = set()
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.ImportFrom) or not node.module:
            continue
        if not node.module.startswith("lakelog."):
            continue
        found.add(node.module)
        front = BY_PATH.get("/".join(node.module.split(".")[1:]) + "/__init__.py")
        names = {one.name for one in node.names}
        found |= {f"{node.module}.{name}" for name in names}
        for inner in front.tree.body if front is not None else ():
            if isinstance(inner, ast.ImportFrom) and names & {one.name for one in inner.names}:
                found.add(inner.module or "")
    return found


def test_the_page_is_read_in_ten_minutes() -> None:
    assert len(PAGE.split()) <= WORDS_MAX


def test_the_three_flows_are_drawn() -> None:
    assert list(FLOWS) == ["Produce", "A Spark read", "A Spark seal"]
    assert all(len(steps(flow)) >= 5 for flow in FLOWS.values())


@pytest.mark.parametrize("name", FLOWS)
def test_a_flow_is_followed_in_ten_files_downwards(name: str) -> None:
    files = steps(FLOWS[name])
    assert len(files) <= FILES_MAX
    rooms = [room(one) for one in files]
    entered = [one for at, one in enumerate(rooms) if at == 0 or rooms[at - 1] != one]
    assert len(entered) == len(set(entered)), f"{name} comes back to a room: {entered}"
    levels = [floors()[one.removeprefix("lakelog.")] for one in entered]
    assert levels == sorted(levels, reverse=True), f"{name} climbs: {entered}"


@pytest.mark.parametrize("name", FLOWS)
def test_each_file_of_a_flow_is_reached_from_one_before_it(name: str) -> None:
    """Or from its own room, whose front door one before it goes through."""
    files = steps(FLOWS[name])
    reached: set[str] = imported(files[0])
    unreached = []
    for one in files[1:]:
        beside = (other for other in MODULES if room(other) == room(one) and other is not one)
        if one.name not in reached.union(*(imported(other) for other in beside)):
            unreached.append(one.name)
        reached |= imported(one)
    assert unreached == []


def test_the_tasks_are_there() -> None:
    assert len(TASKS) >= 10


@pytest.mark.parametrize("task", TASKS)
def test_a_task_is_answered_with_places_that_exist(task: str) -> None:
    places = re.findall(r"`([\w/.<>-]+?)(?::(\w+))?`", TASKS[task])
    paths = [(path, name) for path, name in places if "/" in path or path.endswith(".py")]
    assert paths, "no place is named"
    missing = []
    for path, name in paths:
        module = BY_PATH.get(path)
        if module is None and not (ROOT / path).exists():
            if not (ROOT / "src" / "lakelog" / path).exists():
                missing.append(path)
        elif name and (module is None or name not in defined(module)):
            missing.append(f"{path}:{name}")
    assert missing == []
