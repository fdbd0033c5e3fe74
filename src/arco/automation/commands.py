"""Commands about schedules."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

from arco.automation.events import SchedulePaused, ScheduleResumed
from arco.automation.fold import request_of
from arco.automation.reader import AutomationReader
from arco.automation.tables import ScheduleRow
from arco.automation.ticks import name_of
from arco.orchestration.commands import OrchestrationCommands, Requested
from arco.orchestration.plan import PlanSpec
from arco.orchestration.states import RunTrigger
from arco.state.core import Core
from arco.state.tier1 import Acknowledged, Tier1
from servo.contract.manifest import Catchup


class AutomationCommands:
    def __init__(
        self, core: Core, tier1: Tier1, orchestration: OrchestrationCommands, actor: str = ""
    ) -> None:
        self._core = core
        self._tier1 = tier1
        self._orchestration = orchestration
        self._actor = actor

    def pause(self, schedule: str, *, reason: str = "") -> Acknowledged:
        """No tick fires until it is resumed. Deployments do not resume it."""
        event = SchedulePaused(schedule_id=self._schedule(schedule).schedule_id, reason=reason)
        return self._tier1.execute(event, actor=self._actor)

    def resume(self, schedule: str, *, catchup: Catchup = "none") -> Acknowledged:
        """Resume it; `catchup` decides about ticks that were due during the pause."""
        key = self._schedule(schedule).schedule_id
        event = ScheduleResumed(schedule_id=key, catchup=catchup)
        return self._tier1.execute(event, actor=self._actor)

    def tick(self, schedule: str, *, at: datetime | None = None, run_key: str = "") -> Requested:
        """Request the run of a tick now, or of one at a time (UTC).

        The schedule's own ticks do not change.
        """
        row = self._schedule(schedule)
        at = at or self._core.clock.now()
        tick = name_of(at, ZoneInfo(row.timezone))
        return self._orchestration.request(
            request_of(row),
            run_key=run_key,
            kind=RunTrigger.SCHEDULE,
            reference=f"{row.schedule_id}@{tick}",
            until=at,
        )

    def preview(self, schedule: ScheduleRow, at: datetime) -> PlanSpec:
        """What a tick at a time (UTC) would run, by the current state."""
        return self._orchestration.plan(request_of(schedule), until=at)

    def _schedule(self, text: str) -> ScheduleRow:
        return AutomationReader(self._core.snapshot()).schedule(text)
