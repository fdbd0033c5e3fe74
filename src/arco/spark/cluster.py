"""Whether the cluster behind a driver is lost: jobs wait, and nobody works on them.

A standalone master that restarts does not know the applications of the one before, and has
their executors ended. The driver keeps waiting for new ones, for ever, and says nothing.

No executor is nothing unusual while no job waits, while a cluster starts the first ones, and
while a cluster with dynamic allocation starts them again. So the patience differs.
"""

from __future__ import annotations

from typing import NamedTuple


class Activity(NamedTuple):
    """What a driver has at one moment."""

    executors: int
    """Without the driver itself."""
    jobs: int
    """That have begun and not ended."""


class ClusterWatch:
    """Of one driver. Not for several threads at once."""

    def __init__(self, *, lost_s: float, first_s: float, dynamic: bool = False) -> None:
        self._lost_s = lost_s
        self._first_s = first_s
        self._dynamic = dynamic
        self._seen = False
        self._alone_since: float | None = None

    @property
    def patience_s(self) -> float:
        """How long jobs may wait without an executor."""
        return self._lost_s if self._seen and not self._dynamic else self._first_s

    def is_lost(self, activity: Activity, now: float) -> bool:
        """To be asked again and again; `now` is monotonic."""
        if activity.executors > 0:
            self._seen = True
        if activity.executors > 0 or activity.jobs == 0:
            self._alone_since = None
            return False
        if self._alone_since is None:
            self._alone_since = now
        return now - self._alone_since >= self.patience_s
