"""The compiled inner loops of the columns: record bytes to columns, and columns to record bytes.

Each kernel is a plain loop over bytes that Numba turns into machine code. They are compiled once
per machine: explicit signatures give one version of each, and the result is cached beside these
files, or in the user's cache where that is not writable. Importing this package costs LLVM, so only
code that was asked for columns does it.

To compile takes many seconds, and nobody who calls knows that it happens: so it is said here, on
stderr, by a floor that says nothing otherwise. ``lakelog warm`` does it ahead.
"""

import sys

from numba.core import event

__all__: list[str] = []

COMPILING = (
    "lakelog is compiling its kernels, which happens once on a machine and takes some ten seconds; "
    "`lakelog warm` does it ahead\n"
)


class _Teller(event.Listener):  # type: ignore[misc]
    """Tells once in a process that something is compiled, and not taken from the cache."""

    is_told = False

    def on_start(self, event: event.Event) -> None:
        kernel = event.data["dispatcher"].py_func
        if not self.is_told and kernel.__module__.startswith("lakelog."):
            self.is_told = True
            sys.stderr.write(COMPILING)

    def on_end(self, event: event.Event) -> None:
        pass


event.register("numba:compile", _Teller())
