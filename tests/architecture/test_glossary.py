"""The glossary: what it names is there, and what it says is no longer used is not."""

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GLOSSARY = (ROOT / "docs" / "reference" / "glossary.md").read_text()
_WORDS, _, _FORMER = GLOSSARY.partition("## Names that we no longer use")

NAMED = sorted(set(re.findall(r"`(lakelog\.[\w.]+)`", _WORDS)))
_ROWS = re.findall(r"^\| (`.*?) \| (.*) \|$", _FORMER, re.M)


def banned(*, modules: bool) -> set[str]:
    """Return the former names of modules, or those of everything else."""
    rows = [row for row, now in _ROWS if now.startswith("the modules") == modules]
    return {name for row in rows for name in re.findall(r"`(\w+)`", row)}


BANNED, BANNED_MODULES = banned(modules=False), banned(modules=True)
MODULES = sorted((ROOT / "src" / "lakelog").rglob("*.py"))


@pytest.mark.parametrize("name", NAMED)
def test_what_the_glossary_names_is_there(name: str) -> None:
    try:
        import_module(name)
    except ModuleNotFoundError:
        module, _, attribute = name.rpartition(".")
        assert hasattr(import_module(module), attribute), name


def test_the_glossary_names_something() -> None:
    assert len(NAMED) > 40
    assert len(BANNED) > 30


def names_of(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the classes, functions, methods and parameters of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg


def test_no_module_class_function_or_parameter_has_a_former_name() -> None:
    found = []
    for path in MODULES:
        if path.stem in BANNED | BANNED_MODULES:
            found.append(str(path.relative_to(ROOT)))
        names = names_of(ast.parse(path.read_text()))
        found += [f"{path.relative_to(ROOT)}:{at} {name}" for at, name in names if name in BANNED]
    assert found == []
