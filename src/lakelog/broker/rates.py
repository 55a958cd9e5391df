"""How often something may happen: so many times in a second."""

__all__ = ["Rate"]


class Rate:
    """So many in a second, and as many at once after a second without any."""

    __slots__ = ("_at_s", "_left", "_per_s")

    def __init__(self, per_s: int, now_s: float) -> None:
        self._per_s, self._left, self._at_s = per_s, float(per_s), now_s

    def allows(self, now_s: float) -> bool:
        """Count one, if there may be one more."""
        self._left = min(self._left + (now_s - self._at_s) * self._per_s, self._per_s)
        self._at_s = now_s
        if self._left < 1:
            return False
        self._left -= 1
        return True

    def is_new(self, now_s: float) -> bool:
        """Say whether nothing is remembered any more."""
        return now_s - self._at_s >= 1
