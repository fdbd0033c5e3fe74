"""When something is due next: a heap in which each name has one time at most."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from datetime import datetime


class DueTimes:
    def __init__(self) -> None:
        self._heap: list[tuple[datetime, str]] = []
        """Entries that differ from `_times` are obsolete."""
        self._times: dict[str, datetime] = {}

    def put(self, name: str, at: datetime | None) -> None:
        """None: it is not due by itself."""
        if self._times.get(name) == at:
            return
        self._times.pop(name, None)
        if at is not None:
            self._times[name] = at
            heapq.heappush(self._heap, (at, name))

    def of(self, name: str) -> datetime | None:
        return self._times.get(name)

    def first(self) -> datetime | None:
        while self._heap:
            at, name = self._heap[0]
            if self._times.get(name) == at:
                return at
            heapq.heappop(self._heap)
        return None

    def due(self, now: datetime) -> list[str]:
        """The names that are due by now, the earliest first, until they get another time."""
        entries = list(self._popped(now))
        for at, name in entries:
            self.put(name, at)
        return [name for _, name in entries]

    def pop(self, now: datetime) -> Iterator[str]:
        """Take out what is due by now."""
        for _, name in self._popped(now):
            yield name

    def _popped(self, now: datetime) -> Iterator[tuple[datetime, str]]:
        while (at := self.first()) is not None and at <= now:
            entry = heapq.heappop(self._heap)
            del self._times[entry[1]]
            yield entry
