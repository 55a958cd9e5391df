"""What every module looks like: it says what it is, lists what it offers, and fits one head."""

import ast
import re

import pytest

from lakelog import errors
from tests.architecture.house import MODULES, Module

LINES_MAX = 420
FUNCTION_LINES_MAX = 70

LONG_FUNCTIONS = {
    "lakelog.formats.kernels.parse_strm": "a kernel: one pass over the bytes, state in registers",
    "lakelog.records.kernels.encode.encode_batches": "a kernel, likewise",
}

VAGUE = {"base", "common", "core", "helper", "helpers", "lib", "manager", "misc", "util", "utils"}

every_module = pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)


@every_module
def test_it_begins_by_saying_what_it_is(module: Module) -> None:
    said = ast.get_docstring(module.tree)
    assert said, f"{module.path} has no docstring"
    assert said.splitlines()[0].endswith((".", ":")), "a docstring opens with a sentence"


@every_module
def test_the_table_of_a_package_names_modules_that_are_there(module: Module) -> None:
    """A line of it begins with names and two spaces, or with names alone if they are long."""
    if not module.is_package:
        return
    folder = module.path.parent
    lines = (ast.get_docstring(module.tree) or "").splitlines()[1:]
    named = {
        name
        for line in lines
        if (found := re.match(r"([a-z_0-9]+(?:, [a-z_0-9]+)*)/?(?:  +\S|$)", line))
        for name in found[1].split(", ")
    }
    gone = named - {path.stem for path in folder.iterdir()}
    assert not gone, f"{module.path} names what is not there: {gone}"


@every_module
def test_it_lists_what_it_offers(module: Module) -> None:
    """Functions and classes without an underscore are public. Constants need not be."""
    if module.listed is None:
        assert module.is_package or module.name == "lakelog.__main__"
        return
    listed = set(module.listed)
    public = {node.name for node in module.definitions() if not node.name.startswith("_")}
    assert listed <= module.bound(), "__all__ lists what is not there"
    assert public <= listed, "public, but not in __all__"
    assert not [name for name in listed if name.startswith("_")]


@every_module
def test_a_package_offers_all_that_it_imports(module: Module) -> None:
    """Its ``__init__`` is the front door, and has no other use."""
    if module.is_package and module.listed is not None:
        bound = {name for name in module.bound() if not name.startswith("_")}
        assert bound == set(module.listed)


@every_module
def test_its_name_says_what_is_in_it(module: Module) -> None:
    assert not VAGUE & set(module.name.split("."))


@every_module
def test_it_fits_one_head(module: Module) -> None:
    assert len(module.text.splitlines()) <= LINES_MAX, "find the second noun"
    for function in module.functions():
        name = f"{module.name}.{function.name}"
        lines = (function.end_lineno or 0) - function.lineno + 1
        if name not in LONG_FUNCTIONS:
            assert lines <= FUNCTION_LINES_MAX, f"{name} has {lines} lines"


def test_every_exception_to_the_length_of_functions_is_needed() -> None:
    long = {
        f"{module.name}.{function.name}"
        for module in MODULES
        for function in module.functions()
        if (function.end_lineno or 0) - function.lineno + 1 > FUNCTION_LINES_MAX
    }
    assert long == set(LONG_FUNCTIONS)


def test_whoever_may_append_to_a_lane_stamps_by_the_stores_clock() -> None:
    """A clock that is years ahead would stamp everything that anybody appends later.

    Who writes under no name, ``bytes(16)``, never appends; the simulator has its own worlds.
    """
    for module in MODULES:
        if module.name.startswith("lakelog.testing"):
            continue
        for node in module.nodes:
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("Lane", "new_lane"):
                given = {word.arg: ast.unparse(word.value) for word in node.keywords}
                assert "time" in given or given.get("writer", "bytes(16)") == "bytes(16)", (
                    f"{module.name}, line {node.lineno}: give this Lane a StoreTime"
                )


def test_the_tree_of_errors() -> None:
    """A new class needs a caller who would act differently: this test is where to defend it."""
    parents = {
        name: [
            # One class that nobody catches stands between two of them and the root.
            parent.__name__.replace("_ByteError", "LakelogError")
            for parent in getattr(errors, name).__bases__
        ]
        for name in errors.__all__
    }
    assert parents == {
        "LakelogError": ["Exception"],
        "InvalidInputError": ["LakelogError", "ValueError"],
        "TooLargeError": ["InvalidInputError"],
        "UnsupportedError": ["LakelogError"],
        "CorruptError": ["LakelogError"],
        "NotFoundError": ["LakelogError", "KeyError"],
        "ConflictError": ["LakelogError"],
        "FencedError": ["ConflictError"],
        # Whoever fills a spool waits, drops or slows down; whoever got no answer does not know.
        "FullError": ["LakelogError"],
        "UnavailableError": ["LakelogError"],
    }


def test_every_error_is_defined_in_one_place() -> None:
    for module in MODULES:
        if module.name != "lakelog.errors":
            for node in module.definitions():
                assert not node.name.endswith(("Error", "Exception")), f"{module.name}.{node.name}"


_WAITS = {ast.Await, ast.Yield, ast.YieldFrom}

STARTERS = {"create_task", "ensure_future", "TaskGroup"}


@every_module
def test_only_the_supervisor_starts_tasks(module: Module) -> None:
    """A task that anybody may start nobody owns, and it dies without a word."""
    if module.name == "lakelog.broker.supervision":
        return
    assert not module.used & STARTERS, "start it with Supervisor.keep, Supervisor.once or awaited"


@every_module
def test_only_a_broker_asks_stores_from_an_event_loop(module: Module) -> None:
    """obstore's threads may abort a process that ends after its loop has asked a remote store.

    So a broker and its keeper leave without taking the interpreter apart, and every other
    command asks by threads.
    """
    floor = module.name.split(".")[1:2]
    if floor in (["broker"], ["store"], ["testing"]):
        return
    assert not module.used & {"perform_async", "retrying_async"}, "use lakelog.log.Driver"
    if "run_plan" in module.used and module.name != "lakelog.cli.demo":
        assert "leave_process" in module.used, "end the process with lakelog.host.leave_process"


@every_module
def test_nothing_is_added_to_what_others_may_have_changed_meanwhile(module: Module) -> None:
    """``kept.count += yield from flow``: the count is read before the flow runs, and what others
    have added by the time that it ends is lost.
    """
    for node in ast.walk(module.tree):
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Attribute):
            waits = {type(one) for one in ast.walk(node.value)} & _WAITS
            assert not waits, f"line {node.lineno}: wait first, add then"
