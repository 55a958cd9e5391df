"""Files and folders of a simulated disk: what processes see of each, and what is on the disk."""

import stat
from dataclasses import dataclass, field

__all__ = ["Entry", "Node", "Status", "put_name", "status_of"]

UNWRITTEN_MAX = 200
"""Changes of names in a folder that nobody syncs, before the kernel writes the oldest by itself."""


@dataclass(eq=False, slots=True, kw_only=True)
class Node:
    """A file or a folder: what is seen of it, and what is on the disk."""

    number: int
    mode: int
    mtime_ns: int
    above: "Node | None" = None
    """Of a folder; its own number at the top."""
    body: bytearray = field(default_factory=bytearray)
    names: dict[str, "Node"] = field(default_factory=dict)
    kept_body: bytes = b""
    kept_names: dict[str, "Node"] = field(default_factory=dict)
    kept: tuple[int, int] = (0, 0)
    """Mode and time, as they are on the disk."""
    sectors: set[int] = field(default_factory=set)
    """Those that were written since the last fsync."""
    dirty: bool = True
    """Whether fsync would write the bytes: not once it failed."""
    changes: list[tuple[str, "Node | None"]] = field(default_factory=list)
    """Of names, since the last fsync."""

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.mode)

    def rename(self, name: str, node: "Node | None") -> None:
        """Let a name stand for something else, or for nothing."""
        self.changes.append((name, node))
        put_name(self.names, name, node)
        while len(self.changes) > UNWRITTEN_MAX:
            put_name(self.kept_names, *self.changes.pop(0))


def put_name(names: dict[str, Node], name: str, node: Node | None) -> None:
    if node is None:
        names.pop(name, None)
    else:
        names[name] = node


@dataclass(frozen=True, slots=True)
class Status:
    st_mode: int
    st_ino: int
    st_dev: int
    st_size: int
    st_mtime_ns: int


@dataclass(frozen=True, slots=True)
class Entry:
    name: str
    node: Node

    def is_dir(self, *, follow_symlinks: bool) -> bool:  # noqa: ARG002
        return self.node.is_folder

    def is_file(self, *, follow_symlinks: bool) -> bool:  # noqa: ARG002
        return not self.node.is_folder


def status_of(node: Node) -> Status:
    return Status(node.mode, node.number, 1, len(node.body), node.mtime_ns)
