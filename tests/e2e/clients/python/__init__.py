"""The programs that are written in Python; see the package above."""
