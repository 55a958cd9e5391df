"""Figures that lakelog claims, each measured by a module here.

    .venv/bin/python -m benchmarks.decode [--quick]

A module prints what it measures as it goes, and one JSON object as its last line, with at least
``name``, ``value``, ``bar`` and ``pass``; it exits non-zero when the bar is missed. Machines are
shared and noisy, so both sides of a ratio are measured in turn within one run, in CPU time, and the
value is the median of the rounds' ratios.
"""
