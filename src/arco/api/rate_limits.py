"""Rate limits: a token bucket for each caller, by identity."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from arco.clock import Clock

KEPT = 10_000


class Allowance(NamedTuple):
    is_allowed: bool
    limit: int
    remaining: int
    reset_s: int
    """Seconds until the bucket is full again."""
    retry_after_s: int


class RateLimits:
    """Buckets of the callers that were seen last. Used by one event loop alone."""

    def __init__(self, clock: Clock, per_s: float, burst: int) -> None:
        self._clock = clock
        self._per_s = per_s
        self._burst = burst
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """By caller, what was left, and when."""

    def take(self, caller: str) -> Allowance:
        left, now = self._left(caller)
        is_allowed = left >= 1
        left -= is_allowed
        self._buckets[caller] = (left, now)
        self._buckets.move_to_end(caller)
        while len(self._buckets) > KEPT:
            self._buckets.popitem(last=False)
        wait_s = 0 if is_allowed else max(1, round((1 - left) / self._per_s))
        reset_s = round((self._burst - left) / self._per_s)
        return Allowance(is_allowed, self._burst, int(left), reset_s, wait_s)

    def is_exhausted(self, caller: str) -> bool:
        return self._left(caller)[0] < 1

    def _left(self, caller: str) -> tuple[float, float]:
        now = self._clock.monotonic()
        left, at = self._buckets.get(caller, (float(self._burst), now))
        return min(self._burst, left + (now - at) * self._per_s), now
