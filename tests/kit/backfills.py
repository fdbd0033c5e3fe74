"""Backfills in a simulated store: a town with daily assets, and tasks that fail on demand."""

from __future__ import annotations

from collections import Counter
from typing import Any

from arco.automation.backfill_commands import BackfillDraft
from arco.automation.backfill_states import BackfillState
from arco.automation.reader import Backfill
from arco.automation.tables import BackfillRunRow
from arco.orchestration.plan import PlanRequest
from servo.contract.task import ErrorInfo, TaskRequest
from tests.kit.schedules import Town

DAYS = """
from servo import AssetIn, asset, daily, dynamic, static

@asset(namespace='city', partitions=daily('date', start='2025-01-01'))
def days() -> None: ...

@asset(namespace='city', partitions=daily('date', start='2025-01-01'))
def sums(days: AssetIn['city.days']) -> None: ...

@asset(namespace='city', partitions=dynamic('shop', keys='shops'))
def shops() -> None: ...
"""


class FailingTasks:
    """What a worker does: it notes each task, and fails those whose partition is listed."""

    def __init__(self) -> None:
        self.bad: set[str] = set()
        """Ends of partition keys."""
        self.ran: Counter[tuple[str, str]] = Counter()
        """By asset and partition, tasks that succeeded."""

    def __call__(self, request: TaskRequest) -> ErrorInfo | None:
        if any(request.partition.endswith(end) for end in self.bad):
            return ErrorInfo(category="user_code", code="user_code.ValueError", message="no way")
        self.ran[request.asset, request.partition] += 1
        return None


class BackfillTown(Town):
    def __init__(self, text: str = DAYS, **settings: Any) -> None:
        super().__init__(text, **settings)
        self.tasks = FailingTasks()

    def serve(self) -> None:
        self.crowd.orchestrator()
        self.crowd.worker(script=self.tasks)

    def create(self, *partitions: str, selection: str = "city.days", **settings: Any) -> str:
        """Start a backfill; its id."""
        request = PlanRequest(
            selection=tuple(selection.split()),
            partitions=partitions,
            force=settings.pop("force", False),
        )
        draft = BackfillDraft(request=request, **{"chunk_size": 4, **settings})
        return self.fresh().commands.backfills.create(draft).row.backfill_id

    def backfill(self, id: str) -> Backfill:
        return self.fresh().read.automation().backfill(id)

    def chunks(self, id: str) -> list[BackfillRunRow]:
        return self.fresh().read.automation().backfill_runs(id)

    def until_state(self, id: str, *states: BackfillState) -> Backfill:
        """Let the processes go on until a backfill is in a state."""
        self.crowd.until(lambda: self.backfill(id).row.state in states, steps=400)
        return self.backfill(id)

    def counts(self, id: str) -> dict[str, int]:
        """Progress, without what is zero."""
        entry = self.backfill(id)
        names = ("completed", "failed", "skipped", "cancelled", "pending")
        return {name: getattr(entry, name) for name in names if getattr(entry, name)}
