"""The modules of lakelog as text: read, never imported, so that every one can be looked at."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

__all__ = ["MODULES", "PACKAGES", "ROOT", "Module"]

ROOT = Path(__file__).parents[2]
_SOURCE = ROOT / "src"


@dataclass(frozen=True)
class Module:
    """One file of lakelog."""

    path: Path

    @property
    def name(self) -> str:
        parts = self.path.relative_to(_SOURCE).with_suffix("").parts
        return ".".join(parts).removesuffix(".__init__")

    @property
    def top(self) -> str:
        """The package below lakelog that it belongs to, or itself."""
        return ".".join(self.name.split(".")[:2])

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"

    @cached_property
    def text(self) -> str:
        return self.path.read_text()

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """All nodes of the tree."""
        return tuple(ast.walk(self.tree))

    @cached_property
    def used(self) -> frozenset[str]:
        """Names and attributes that it speaks of."""
        names = {node.id for node in self.nodes if isinstance(node, ast.Name)}
        return frozenset(names | {n.attr for n in self.nodes if isinstance(n, ast.Attribute)})

    @cached_property
    def listed(self) -> list[str] | None:
        """What ``__all__`` lists, if there is one."""
        for node in self.tree.body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                found: list[str] = ast.literal_eval(node.value)
                return found
        return None

    def definitions(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
        """Functions and classes at the top level."""
        for node in self.tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield node

    def functions(self) -> Iterator[ast.FunctionDef]:
        """Functions and methods, at any depth."""
        for node in self.nodes:
            if isinstance(node, ast.FunctionDef):
                yield node

    def bound(self) -> set[str]:
        """Every name that the top level of the module binds."""
        names = {node.name for node in self.definitions()}
        for node in self.tree.body:
            match node:
                case ast.Import() | ast.ImportFrom():
                    names |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
                case ast.Assign():
                    stores = (one for target in node.targets for one in ast.walk(target))
                    names |= {one.id for one in stores if isinstance(one, ast.Name)}
                case ast.AnnAssign(target=ast.Name(id=name)):
                    names.add(name)
        return names

    def imports(self) -> Iterator[str]:
        """Every module that is imported anywhere in it, by its full name."""
        for node in self.nodes:
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module is not None:
                yield node.module
                # ``from lakelog.records import columns`` imports a module, too.
                # Unless the package hands it out itself: then that is its front door.
                inner = (
                    alias.name for alias in node.names if alias.name not in _given(node.module)
                )
                yield from (
                    f"{node.module}.{name}" for name in inner if _is_module(node.module, name)
                )


MODULES = tuple(Module(path) for path in sorted(_SOURCE.glob("lakelog/**/*.py")))
PACKAGES = frozenset(module.name for module in MODULES if module.is_package)
_NAMES = frozenset(module.name for module in MODULES)
_GIVEN = {module.name: frozenset(module.listed or ()) for module in MODULES}


def _given(package: str) -> frozenset[str]:
    """Return the names that a package lists."""
    return _GIVEN.get(package, frozenset())


def _is_module(package: str, name: str) -> bool:
    return f"{package}.{name}" in _NAMES
