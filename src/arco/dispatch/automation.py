"""Automation of an orchestrator: fires ticks, enqueues evaluations of sensors, continues backfills,
checks freshness, requests runs by the automation of assets, and plans requests.

The agenda follows the same commits as the board. A failure of one part does not stop the others:
after an error of the store it waits, any other error is logged and retried at each tick. The engine
of `servo run` has none of this.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from datetime import datetime

from arco.automation.agenda import Agenda
from arco.automation.asset_reads import AutomationReads
from arco.automation.controllers.backfill_chunks import backfill_chunks
from arco.automation.controllers.plannable import active_by_schedule, to_plan, within_limits
from arco.automation.controllers.schedule_ticks import schedule_ticks
from arco.automation.controllers.sensor_calls import sensor_calls
from arco.dispatch.freshness_watch import FreshnessWatch
from arco.dispatch.request_planner import RequestPlanner
from arco.dispatch.sensor_sender import SensorSender
from arco.log.envelope import Payload
from arco.log.head import Head
from arco.orchestration.board import Board
from arco.orchestration.limit_tables import Permit
from arco.orchestration.tables import RunRow
from arco.state.core import Core
from arco.state.snapshot import Snapshot
from arco.storage.outage import STORE_ERRORS
from arco.transport.reports import Reports

log = logging.getLogger(__name__)

SENSORS, ASSETS, TICKS = "sensors", "the automation of assets", "schedules"
BACKFILLS, FRESHNESS, REQUESTS = "backfills", "freshness", "requests for runs"


class Automation:
    def __init__(
        self,
        core: Core,
        reports: Reports,
        planner: RequestPlanner,
        sensors: SensorSender,
        is_first_report: Callable[[str], bool],
    ) -> None:
        """`is_first_report` tells whether something was not reported a moment ago."""
        self._core = core
        self._reports = reports
        self._planner = planner
        self._sensors = sensors
        self._is_first_report = is_first_report
        self._freshness = FreshnessWatch(is_first_report)
        self._failed: dict[str, str] = {}
        """By part, its last error that is not an error of the store."""
        self.agenda = Agenda()

    def due_in_s(self) -> float | None:
        """Seconds until something is due; None if nothing is.

        By the clock of `act`. A part that fails waits for the next tick.
        """
        agenda, now = self.agenda, self._core.store_clock.estimate()
        assets = None if ASSETS in self._failed else agenda.assets
        if self._planner.has_more or (assets is not None and assets.has_more):
            return 0.0
        times = [
            None if TICKS in self._failed else agenda.next_tick(),
            None if FRESHNESS in self._failed else agenda.freshness.next_due(),
            None if SENSORS in self._failed else agenda.sensors.next_due(),
            None if assets is None else assets.next_due(),
        ]
        due = [max(0.0, (at - now).total_seconds()) for at in times if at is not None]
        return min(due, default=None)

    def act(self, board: Board, head: Head) -> int:
        """Report what is due and plan requests; returns the number of both.

        All parts are called, whatever fails. An error of the store is raised at the end; the rest
        is retried at the next tick.
        """
        now = self._core.store_clock.estimate()
        snapshot = self._core.snapshot_of(head)
        turn = AutomationTurn(board, self.agenda, snapshot, now)
        self._planner.has_more = False
        parts: dict[str, Callable[[AutomationTurn], int]] = {
            SENSORS: self._evaluate_sensors,
            ASSETS: lambda turn: self._report(self._by_assets(turn)),
            TICKS: lambda turn: self._report(self._ticks(turn)),
            BACKFILLS: lambda turn: self._report(self._chunks(turn)),
            FRESHNESS: lambda turn: self._report(self._judged(turn)),
            REQUESTS: self._plan,
        }
        acts, errors = 0, []
        for name, part in parts.items():
            try:
                acts += part(turn)
            except STORE_ERRORS as error:
                errors.append(error)
            except Exception as error:  # it must not stop the other parts
                self._log_once(name, error)
            else:
                self._failed.pop(name, None)
        if errors:
            raise errors[0]
        return acts

    def _log_once(self, part: str, error: Exception) -> None:
        text = f"{type(error).__name__}: {error}"
        if self._failed.get(part) != text:
            log.error("%s cannot be served here: %s", part, text, exc_info=error)
        self._failed[part] = text

    def _report(self, facts: Sequence[Payload]) -> int:
        self._reports.submit(facts)
        return len(facts)

    # -- the parts -----------------------------------------------------------------------

    def _evaluate_sensors(self, turn: AutomationTurn) -> int:
        """Have the sensors that are due evaluated, unless dispatch is paused; how many."""
        agenda, now = self.agenda.sensors, turn.now
        calls = sensor_calls(agenda, now)
        if turn.board.declared.is_paused:
            for row, _ in calls:
                agenda.postpone(row, now)
            return 0
        if calls:
            self._sensors.send(calls, self.agenda.deployments, turn.snapshot)
        for row, _ in calls:
            agenda.sent(row, now)
        return len(calls)

    def _ticks(self, turn: AutomationTurn) -> list[Payload]:
        due = self.agenda.due(turn.now)
        active = active_by_schedule(turn.runs, turn.requests) if due else {}
        return [
            tick
            for tick in schedule_ticks(
                due, active, turn.now, is_paused=turn.board.declared.is_paused
            )
            if self._is_first_report(f"{tick.schedule_id}@{tick.tick}")
        ]

    def _chunks(self, turn: AutomationTurn) -> list[Payload]:
        """The next chunks of backfills."""
        agenda = self.agenda
        if not agenda.backfills:
            return []
        backfills = agenda.backfills.values()
        return [
            step.event
            for step in backfill_chunks(backfills, agenda.progress, turn.requests, turn.runs)
            if self._is_first_report(step.name)
        ]

    def _judged(self, turn: AutomationTurn) -> list[Payload]:
        """The series that became stale, or fresh again."""
        agenda = self.agenda.freshness
        if not agenda.is_due(turn.now):
            return []
        return self._freshness.facts(agenda, turn.snapshot, turn.runs, turn.requests, turn.now)

    def _plan(self, turn: AutomationTurn) -> int:
        """Plan requests that may be planned now; how many."""
        if not turn.requests:
            return 0
        declared = turn.board.declared
        self._planner.saw_limits(declared)
        plannable = to_plan(turn.requests, self.agenda.schedules, turn.runs, self.agenda.backfills)
        plannable = within_limits(plannable, declared, turn.board.run_use(turn.now))
        if not plannable:
            return 0
        position = turn.board.position
        permit = Permit(position, self._core.ids()) if declared.has_run_limits else None
        return self._planner.plan(plannable, turn.snapshot, permit)

    def _by_assets(self, turn: AutomationTurn) -> Sequence[Payload]:
        """What the automation of assets proposes."""
        watch, monotonic_s = self.agenda.assets, self._core.clock.monotonic()
        snapshot, now = turn.snapshot, turn.now
        reads = AutomationReads(snapshot, self._planner.library)
        if not watch.is_prepared:
            watch.prepare(reads.graph(self._planner.world(snapshot)))
        if not watch.has_work(now, monotonic_s, snapshot.position):
            return ()
        requests, backfills = self.agenda.requests.values(), self.agenda.backfills.values()
        making, id = turn.board.making, self._core.ids()
        return watch.decide(snapshot, making, requests, backfills, reads, now, monotonic_s, id)


class AutomationTurn:
    """The state that one round of automation uses."""

    def __init__(self, board: Board, agenda: Agenda, snapshot: Snapshot, now: datetime) -> None:
        self.board = board
        self.snapshot = snapshot
        self.now = now
        self.requests = list(agenda.requests.values())
        """Those that were pending when it began."""

    @functools.cached_property
    def runs(self) -> list[RunRow]:
        return [*self.board.runs.values(), *self.board.others.values()]
