"""Whether the cluster behind a driver is lost: jobs wait without executors.

A standalone master that restarts does not know the applications of the one before, and has their
executors ended. The driver waits for new ones for ever, without a message.

It is normal that there is no executor while no job waits, while a cluster starts the first ones,
and while a cluster with dynamic allocation starts them again. So the timeout differs.
"""

from __future__ import annotations

from typing import NamedTuple


class Activity(NamedTuple):
    """The executors and jobs of a driver at one moment."""

    executors: int
    """Without the driver itself."""
    jobs: int
    """That have begun and not ended."""


class ClusterWatch:
    """Watches one driver. Not thread-safe."""

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
        """To be called repeatedly; `now` is monotonic."""
        if activity.executors > 0:
            self._seen = True
        if activity.executors > 0 or activity.jobs == 0:
            self._alone_since = None
            return False
        if self._alone_since is None:
            self._alone_since = now
        return now - self._alone_since >= self.patience_s
