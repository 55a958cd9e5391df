"""The table of targets.

A target is a function of bytes. It returns whether it accepted them, and raises an AssertionError
(or anything else that is not an error of ours) when a decoder breaks its promise:

- it raises CorruptError or UnsupportedError, and nothing else, on bytes it does not accept
- what it accepts is in order, and comes back when it is encoded again, where there is an encoder
- it asks only for ranges inside the file, and holds no more than it was allowed to

Modules of targets are imported one at a time, because one of them brings a compiler with it.
"""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

__all__ = ["CORPUS", "TARGETS", "Target", "load"]

Target = Callable[[bytes], bool]

CORPUS = Path(__file__).parent / "corpus"

_MODULES = {
    "batches": ("record-batch", "gzip", "snappy", "lz4", "zstd"),
    "columns": ("columns", "kafkalog-scan", "rustlog-scan", "strm-scan"),
    "formats": (
        "kafs-walk",
        "kafs-lookup",
        "strm-walk",
        "strm-lookup",
        "rustlog-walk",
        "rustlog-lookup",
        "kafkalog-walk",
        "kafkalog-lookup",
    ),
    "logins": ("login", "users-cell", "certificate"),
    "rights": ("acls-cell", "quotas-cell"),
    "lanes": ("lane-bundle", "lane-directory", "lane-checkpoint"),
    "side": (
        "kafs-index",
        "kafka-index",
        "kafka-timeindex",
        "kafka-txnindex",
        "kafka-snapshot",
        "kafka-leader-epochs",
        "kafka-metadata",
        "rustlog-index",
        "rustlog-checkpoint",
        "strm-header",
        "strm-footer",
        "strm-index",
    ),
    "wire": ("wire-frames", "wire-request", "wire-produce", "wire-fetch"),
}

TARGETS = {name: module for module, names in _MODULES.items() for name in names}
"""The module of each target, by name."""


def load(name: str) -> Target:
    """Return a target, and import no other module of targets."""
    found: Target = import_module(f"tests.fuzz.{TARGETS[name]}").TARGETS[name]
    return found
