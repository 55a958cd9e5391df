"""Token buckets: so much in a second, and as much at once after a quiet time.

    spend    takes from the bucket, also more than is there: by one request it may be overdrawn
    wait_s   for how long nothing more may be spent: what is missing, over the rate

So over any time no more passes than the rate allows, what a full bucket holds, and one request. A
bucket that is full is as good as a new one: it need not be remembered.
"""

from collections.abc import Hashable

__all__ = ["BUCKETS_MAX", "Bucket", "Buckets"]

BUCKETS_MAX = 20_000
"""Of one broker. Clients that come when so many have something to pay back share one by kind."""


class Bucket:
    """So much of something in a second. Times are seconds of any clock that does not go back."""

    __slots__ = ("_at_s", "_left", "burst", "rate")

    def __init__(self, rate: float, burst_s: float, now_s: float) -> None:
        self.rate, self.burst = rate, rate * burst_s
        self._left, self._at_s = self.burst, now_s

    def spend(self, amount: float, now_s: float) -> float:
        """Take so much, whether it is there or not; return for how long no more may be spent."""
        left = self._left + (now_s - self._at_s) * self.rate
        self._left = left = (left if left < self.burst else self.burst) - amount
        self._at_s = now_s
        return -left / self.rate if left < 0 else 0.0

    def wait_s(self, now_s: float) -> float:
        """Return for how long nothing more may be spent."""
        missing = -self._left - (now_s - self._at_s) * self.rate
        return missing / self.rate if missing > 0 else 0.0

    def is_full(self, now_s: float) -> bool:
        """Say whether nothing of it has to be remembered."""
        return self._left + (now_s - self._at_s) * self.rate >= self.burst

    def set_rate(self, rate: float, burst_s: float, now_s: float) -> None:
        """Go on at another rate. What was overdrawn is paid back, at the new one."""
        self.spend(0, now_s)
        self.rate, self.burst = rate, rate * burst_s
        self._left = min(self._left, self.burst)


class Buckets:
    """Buckets by kind and owner, of which there are never too many."""

    def __init__(self, most: int = BUCKETS_MAX) -> None:
        self._most = most
        self._all: dict[tuple[str, Hashable], Bucket] = {}
        self.generation = 0
        """Whoever keeps a bucket looks for it again when this has changed."""

    def __len__(self) -> int:
        return len(self._all)

    def find(self, kind: str, owner: Hashable, rate: float, burst_s: float, now_s: float) -> Bucket:
        """Return the bucket of an owner."""
        found = self._all.get((kind, owner))
        if found is None:
            if len(self._all) >= self._most:
                self.forget_full(now_s)
            if len(self._all) >= self._most:
                owner = None
            found = self._all.get((kind, owner)) or Bucket(rate, burst_s, now_s)
            self._all[kind, owner] = found
        bucket = found
        if bucket.rate != rate:
            bucket.set_rate(rate, burst_s, now_s)
        return bucket

    def forget_full(self, now_s: float) -> None:
        """Forget what has nothing to be remembered."""
        before = len(self._all)
        self._all = {key: one for key, one in self._all.items() if not one.is_full(now_s)}
        if len(self._all) < before:
            self.generation += 1
