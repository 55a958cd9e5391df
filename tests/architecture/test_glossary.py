"""The glossary: what it names is there, and what it says is no longer used is not."""

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GLOSSARY = (ROOT / "docs" / "reference" / "glossary.md").read_text()
_WORDS, _, _FORMER = GLOSSARY.partition("## Names that we no longer use")

NAMED = sorted(set(re.findall(r"`(lakelog\.[\w.]+)`", _WORDS)))
_ROWS = re.findall(r"^\| (`.*?) \|", _FORMER, re.M)
BANNED = {name for row in _ROWS for name in re.findall(r"`(\w+)`", row)}
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


def test_no_module_class_or_function_has_a_former_name() -> None:
    found = []
    for path in MODULES:
        if path.stem in BANNED:
            found.append(str(path.relative_to(ROOT)))
        tree = ast.parse(path.read_text())
        found += [
            f"{path.relative_to(ROOT)}: {node.name}"
            for node in tree.body
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and node.name in BANNED
        ]
    assert found == []
