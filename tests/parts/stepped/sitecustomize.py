"""Sleeping as Python did before 3.11, for processes under libfaketime.

Debian's libfaketime refuses to sleep until a moment of the monotonic clock if that clock is left
alone, and that is what ``time.sleep`` does.
"""

import select
import time


def _sleep(seconds: float) -> None:
    select.select([], [], [], seconds)


time.sleep = _sleep  # type: ignore[assignment]  # noqa: TID251 (it is replaced)
