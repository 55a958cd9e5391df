"""What a test says when a machine was too slow for it, and not the log wrong.

    in_time(time.monotonic() < deadline, "nothing has been deleted")

A neighbour who takes the processor away makes any limit too short. So a test that was late is run
again, twice at most, and the run says so (``--reruns`` in pyproject.toml). Whatever else fails
stays failed: a record that is lost once is lost.
"""


class LateError(AssertionError):
    """Something has not come, or not enough of it, in the time it was given."""


def in_time(is_so: bool, otherwise: object) -> None:
    """Assert what depends on how fast the machine is."""
    if not is_so:
        raise LateError(otherwise)
