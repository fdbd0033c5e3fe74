"""What an orchestrator does by itself: fires ticks, has sensors evaluated, lets backfills go on,
judges how fresh data is, asks for partitions by the automation of assets, plans requests.

The agenda follows the same commits as the board. The engine of `servo run` has none of this.
"""

from __future__ import annotations

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
from arco.state.core import Core
from arco.state.snapshot import Snapshot
from arco.transport.reports import Reports


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
        self.agenda = Agenda()

    def due_in_s(self, now: datetime) -> float | None:
        """When there is something to do at the latest; None if nothing is due by itself."""
        if self._planner.has_more or self.agenda.assets.has_more:
            return 0.0
        agenda = self.agenda
        times = (agenda.next_due(), agenda.sensors.next_due(), agenda.assets.next_due())
        due = [max(0.0, (at - now).total_seconds()) for at in times if at is not None]
        return min(due, default=None)

    def act(self, board: Board, head: Head) -> int:
        """Report what is due and plan what was requested; how many of both.

        Raises what a store may raise; what is left then is tried again at the next tick.
        """
        agenda, now = self.agenda, self._core.store_clock.estimate()
        self._planner.has_more = False
        sensed = self._evaluate_sensors(board, head, now)
        due = agenda.due(now)
        facts: list[Payload] = [*self._by_assets(board, head, now)]
        has_aged = agenda.freshness.is_due(now)
        if not (due or has_aged or agenda.requests or agenda.backfills):
            self._reports.submit(facts)
            return sensed + len(facts)
        runs = [*board.runs.values(), *board.others.values()]
        requests = list(agenda.requests.values())
        active = active_by_schedule(runs, requests) if due else {}
        facts += [
            tick
            for tick in schedule_ticks(due, active, now)
            if self._is_first_report(f"{tick.schedule_id}@{tick.tick}")
        ]
        facts += [
            step.event
            for step in backfill_chunks(agenda.backfills.values(), agenda.progress, requests, runs)
            if self._is_first_report(step.name)
        ]
        if has_aged:
            snapshot = self._snapshot(head)
            facts += self._freshness.facts(agenda.freshness, snapshot, runs, requests, now)
        self._reports.submit(facts)
        if not requests:
            return sensed + len(facts)
        declared = board.declared
        self._planner.saw_limits(declared)
        plannable = to_plan(requests, agenda.schedules, runs, agenda.backfills)
        plannable = within_limits(plannable, declared, board.run_use(now))
        if not plannable:
            return sensed + len(facts)
        permit = Permit(board.position, self._core.ids()) if declared.has_run_limits else None
        planned = self._planner.plan(plannable, self._snapshot(head), permit)
        return sensed + len(facts) + planned

    def _evaluate_sensors(self, board: Board, head: Head, now: datetime) -> int:
        """Have the sensors that are due evaluated, unless dispatch is paused; how many."""
        agenda = self.agenda.sensors
        calls = sensor_calls(agenda, now)
        if calls and not board.declared.is_paused:
            self._sensors.send(calls, self.agenda.deployments, self._snapshot(head))
        for row, _ in calls:
            agenda.sent(row, now)
        return 0 if board.declared.is_paused else len(calls)

    def _snapshot(self, head: Head) -> Snapshot:
        return Snapshot(self._core.manifests, self._core.files, head)

    def _by_assets(self, board: Board, head: Head, now: datetime) -> Sequence[Payload]:
        """What the automation of assets proposes."""
        watch, monotonic_s = self.agenda.assets, self._core.clock.monotonic()
        snapshot = self._snapshot(head)
        reads = AutomationReads(snapshot, self._planner.library)
        if not watch.is_prepared:
            watch.prepare(reads.graph(self._planner.world(snapshot)))
        if not watch.has_work(now, monotonic_s, snapshot.position):
            return ()
        requests = self.agenda.requests.values()
        return watch.decide(
            snapshot, board.making, requests, reads, now, monotonic_s, self._core.ids()
        )
