"""The compiled inner loops of the columns: record bytes to columns, and columns to record bytes.

Each kernel is a plain loop over bytes that Numba turns into machine code. They are compiled once
per machine: explicit signatures give one version of each, and the result is cached beside these
files, or in the user's cache where that is not writable. Importing this package costs LLVM, so only
code that was asked for columns does it.
"""
