"""A mapping that is never changed: with other values, it is another mapping.

    base   most of the entries, shared with the mappings that came before
    top    what was set since; copied with every change, and so kept small

Whoever holds one sees it as it was, for ever, also while its successors are made. Copying a large
dictionary for every bundle of a lane would cost more than the bundle, so a change copies the top
only. When the top has grown to about the square root of the base, both become a new base: over many
changes that is a few copied entries for each.
"""

from collections.abc import ItemsView, Iterator, Mapping
from math import isqrt
from typing import TypeVar, overload

__all__ = ["Layers"]

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")

TOP_MIN = 64
"""A smaller top is not worth merging."""


class Layers(Mapping[K, V]):
    """A mapping without deletion; no value of it is None."""

    __slots__ = ("_base", "_new", "_top")

    def __init__(self, base: Mapping[K, V] | None = None) -> None:
        self._base: dict[K, V] = {} if base is None else dict(base)
        self._top: dict[K, V] = {}
        self._new = 0
        """How many keys of the top are not in the base."""

    def changed(self, values: Mapping[K, V]) -> "Layers[K, V]":
        """Return the mapping with other values for some keys."""
        if not values:
            return self
        base = self._base
        top = {**self._top, **values}
        if len(top) > max(TOP_MIN, 4 * isqrt(len(base))):
            base, top = {**base, **top}, {}
        made: Layers[K, V] = Layers.__new__(Layers)
        made._base, made._top = base, top
        made._new = sum([key not in base for key in top])
        return made

    @overload
    def get(self, key: K, /) -> V | None: ...
    @overload
    def get(self, key: K, /, default: V | D) -> V | D: ...
    def get(self, key: K, /, default: object = None) -> object:
        """Return the value of a key, or the default."""
        found = self._top.get(key)
        return self._base.get(key, default) if found is None else found

    def __getitem__(self, key: K) -> V:
        found = self._top.get(key)
        return self._base[key] if found is None else found

    def __contains__(self, key: object) -> bool:
        return key in self._top or key in self._base

    def __len__(self) -> int:
        return len(self._base) + self._new

    def __iter__(self) -> Iterator[K]:
        return iter(self.plain())

    def items(self) -> ItemsView[K, V]:
        """Return keys with their values."""
        return self.plain().items()

    def plain(self) -> dict[K, V]:
        """Return a dictionary of it, which is the caller's own."""
        return {**self._base, **self._top}

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Layers):
            return self.plain() == other.plain()
        return self.plain() == other if isinstance(other, dict) else NotImplemented

    def __hash__(self) -> int:
        raise TypeError("a mapping is no key")

    def __repr__(self) -> str:
        return f"Layers({self.plain()!r})"
