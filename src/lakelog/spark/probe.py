"""What `lakelog doctor spark` runs on an executor: imports, kernels, the store.

This module is sent to executors by value, because the first thing that can be wrong there is that
they have no lakelog. So it imports nothing that Python itself does not bring, and it answers in
plain values. Whatever goes wrong is the finding.
"""

import importlib
import os
import platform
import socket
import sys
from collections.abc import Iterable, Iterator
from time import perf_counter
from typing import Any

__all__ = ["PACKAGES", "probe"]

PACKAGES = ("pyarrow", "numpy", "numba", "obstore", "crc32c", "pandas", "lakelog")
_KERNELS = "lakelog.formats.columns"
_KERNEL = ("lakelog.records.kernels.decode", "parse_batches")


def probe(
    rows: Iterable[Any], url: str | None, options: dict[str, str]
) -> Iterator[dict[str, Any]]:
    """Yield, for each row, what the worker that has it finds about itself."""
    for _ in rows:
        found: dict[str, Any] = {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "python": platform.python_version(),
            "executable": sys.executable,
            "packages": {},
            "errors": {},
        }
        for name in PACKAGES:
            _note(found, name, _import, name)
        if found["packages"].get("lakelog"):
            _note(found, "kernels", _load_kernels)
            if url is not None:
                _note(found, "store", _reach_store, url, options)
        yield found


def _note(found: dict[str, Any], what: str, do: Any, *arguments: Any) -> None:
    try:
        do(found, *arguments)
    except Exception as error:  # noqa: BLE001 (whatever it is, it is the finding)
        found["errors"][what] = f"{type(error).__name__}: {error}"


def _import(found: dict[str, Any], name: str) -> None:
    found["packages"][name] = str(getattr(importlib.import_module(name), "__version__", "there"))


def _load_kernels(found: dict[str, Any]) -> None:
    """Importing them loads them from the cache, or compiles them and fills it."""
    began = perf_counter()
    importlib.import_module(_KERNELS)
    found["kernel_seconds"] = perf_counter() - began
    stats = getattr(importlib.import_module(_KERNEL[0]), _KERNEL[1]).stats
    found["kernels_cached"] = not stats.cache_misses
    found["kernel_cache"] = stats.cache_path


def _reach_store(found: dict[str, Any], url: str, options: dict[str, str]) -> None:
    store = importlib.import_module("lakelog.store")
    began = perf_counter()
    page = store.open_store(url, options).perform(store.ListPage("", "", 1))
    found["store_seconds"] = perf_counter() - began
    found["store_objects"] = len(page.objects)
