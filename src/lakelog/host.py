"""What this machine gives: its clocks, and bytes that nobody has had before."""

import os
import time

__all__ = ["SystemClock", "new_id"]


class SystemClock:
    """The clocks of this machine."""

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def boot_ms(self) -> int:
        """Milliseconds since this machine booted, the time it was suspended included."""
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


def new_id() -> bytes:
    """Return sixteen bytes from the kernel. Never all zeros, which means none."""
    return os.urandom(15) + b"\x01"
