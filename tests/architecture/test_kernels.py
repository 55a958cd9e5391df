"""The cache of compiled kernels is never older than what was compiled into it.

Numba knows a cached kernel by the text of the file it stands in, and by nothing else. So each of
these files holds a digest of the files whose functions are compiled into it: when those change,
this test asks for a new digest, which changes the text, and the kernel is compiled anew.
"""

import ast
from hashlib import sha256

import pytest

from tests.architecture.house import MODULES, ROOT, Module

INLINED = (
    "lakelog.records.kernels.primitives",
    "lakelog.records.kernels.fields",
    "lakelog.records.kernels.source",
    "lakelog.records.kernels.checksum",
    "lakelog.records.kernels.envelope",
)
"""Compiled into kernels, in the order in which the digest takes them."""

CACHED = tuple(module for module in MODULES if "cache=True" in module.text)


def digest() -> str:
    texts = {module.name: module.path.read_bytes() for module in MODULES}
    return sha256(b"".join(texts[name] for name in INLINED)).hexdigest()[:12]


def test_the_kernels_are_found() -> None:
    assert {module.name for module in CACHED} >= {
        "lakelog.records.kernels.decode",
        "lakelog.records.kernels.encode",
    }
    assert not {module.name for module in CACHED} & set(INLINED)


@pytest.mark.parametrize("module", CACHED, ids=lambda module: module.name)
def test_a_kernel_file_names_what_it_was_built_from(module: Module) -> None:
    expected = digest()
    found = [
        ast.literal_eval(node.value)
        for node in module.tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "BUILT_FROM"
    ]
    wanted = f'BUILT_FROM = "{expected}"'
    assert found == [expected], f"write into {module.path.relative_to(ROOT)}: {wanted}"


@pytest.mark.parametrize("module", CACHED, ids=lambda module: module.name)
def test_nothing_else_is_compiled_into_a_kernel(module: Module) -> None:
    ours = {name for name in module.imports() if name.startswith("lakelog.")}
    assert ours <= {*INLINED, "lakelog.records.kernels"}
