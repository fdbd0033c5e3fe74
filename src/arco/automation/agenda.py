"""The agenda: what is due next, in memory, for controllers to look at.

It holds the active schedules, each with its next tick, and the requests for runs that are not
planned yet. Like the board it is brought from one generation to the next by the rows that
changed: what it costs follows that, and what is due, not how many schedules there are.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from datetime import datetime

from arco.automation.tables import SCHEDULES, ScheduleRow, ScheduleState
from arco.automation.ticks import next_tick
from arco.orchestration.states import RequestState
from arco.orchestration.tables import RUN_REQUESTS, RunRequestRow
from arco.state.changes import Changes
from arco.state.snapshot import Snapshot


class Agenda:
    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self.schedules: dict[str, ScheduleRow] = {}
        """Those that are active."""
        self.requests: dict[str, RunRequestRow] = {}
        """Those that are pending."""
        self._next: dict[str, datetime] = {}
        self._heap: list[tuple[datetime, str]] = []
        """Next ticks. An entry that differs from `_next` is of before, and does not count."""
        self._due: dict[str, ScheduleRow] = {}

    # -- moving to another generation ----------------------------------------------------

    def load(self, snapshot: Snapshot) -> None:
        """Start anew from a snapshot."""
        self._clear()
        self._take(snapshot.hot(SCHEDULES), snapshot.hot(RUN_REQUESTS))

    def advance(self, snapshot: Snapshot, position: int) -> None:
        """Go on to a newer snapshot by what changed after a position."""
        self._take(
            (row for _, row in snapshot.since(SCHEDULES, position)),
            (row for _, row in snapshot.since(RUN_REQUESTS, position)),
        )

    def apply(self, changes: Changes) -> None:
        """Go on by one commit of this process."""
        schedules = (row for _, row in changes.get(SCHEDULES, {}).values())
        requests = (row for _, row in changes.get(RUN_REQUESTS, {}).values())
        self._take(
            (row for row in schedules if row is not None),
            (row for row in requests if row is not None),
        )

    def _take(self, schedules: Iterable[ScheduleRow], requests: Iterable[RunRequestRow]) -> None:
        for schedule in schedules:
            self._put_schedule(schedule)
        for request in requests:
            if request.state == RequestState.PENDING:
                self.requests[request.request_key] = request
            else:
                self.requests.pop(request.request_key, None)

    def _put_schedule(self, row: ScheduleRow) -> None:
        key = row.schedule_id
        self._due.pop(key, None)
        self._next.pop(key, None)
        if row.state != ScheduleState.ACTIVE:
            self.schedules.pop(key, None)
            return
        self.schedules[key] = row
        tick = next_tick(row.cron, row.timezone, row.done_until)
        if tick is not None:
            self._next[key] = tick.at
            heapq.heappush(self._heap, (tick.at, key))

    # -- what is due ---------------------------------------------------------------------

    def due(self, now: datetime) -> list[ScheduleRow]:
        """Schedules with ticks up to now that nobody has recorded yet."""
        while (at := self.next_due()) is not None and at <= now:
            _, key = heapq.heappop(self._heap)
            del self._next[key]
            self._due[key] = self.schedules[key]
        return list(self._due.values())

    def next_due(self) -> datetime | None:
        """When the next schedule is due that is not due yet."""
        while self._heap:
            at, key = self._heap[0]
            if self._next.get(key) == at:
                return at
            heapq.heappop(self._heap)
        return None
