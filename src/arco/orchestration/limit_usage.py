"""How much of the limits is in use, counted from the rows of runs and tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

from arco.orchestration.limit_tables import (
    MAX_BACKFILL_RUNS,
    WORKSPACE,
    DeclaredLimits,
    LimitName,
    LimitReached,
)
from arco.orchestration.states import RUN_ACTIVE, RunTrigger, TaskState
from arco.orchestration.tables import RunRow, TaskRow


class TaskLimit(NamedTuple):
    """A limit that counts a task; for a tenant without a limit of its own, that of each tenant."""

    scope: str
    name: LimitName
    value: int


def limits_on(task: TaskRow, declared: DeclaredLimits) -> Iterator[TaskLimit]:
    """The limits that count a task in flight. Without any, it is enqueued without counting."""
    for name in (LimitName.CONCURRENT_TASKS, LimitName.QUEUED_TASKS):
        value = declared.of_workspace(name)
        if value is not None:
            yield TaskLimit(WORKSPACE, name, value)
        value = declared.of_tenant(task.tenant, name)
        if value is not None:
            yield TaskLimit(f"tenant:{task.tenant}", name, value)
    size = declared.of_pool(task.pool)
    if size is not None:
        yield TaskLimit(f"pool:{task.pool}", LimitName.CONCURRENT_TASKS, size)


class TaskUse:
    """Tasks in flight, by the limits that count them."""

    def __init__(self, declared: DeclaredLimits, in_flight: Iterable[TaskRow] = ()) -> None:
        self._declared = declared
        self._counts: Counter[tuple[str, LimitName]] = Counter()
        if declared.has_task_limits:
            for task in in_flight:
                self.add(task)

    def add(self, task: TaskRow) -> None:
        for limit in limits_on(task, self._declared):
            if limit.name != LimitName.QUEUED_TASKS or task.state != TaskState.RUNNING:
                self._counts[limit.scope, limit.name] += 1

    def of(self, scope: str, name: LimitName) -> int:
        return self._counts[scope, name]

    def pool(self, pool: str) -> int:
        return self.of(f"pool:{pool}", LimitName.CONCURRENT_TASKS)

    def full(self, task: TaskRow) -> TaskLimit | None:
        """A limit that has no room for a task."""
        return next(
            (
                limit
                for limit in limits_on(task, self._declared)
                if self._counts[limit.scope, limit.name] >= limit.value
            ),
            None,
        )


class RunUse(NamedTuple):
    active: int = 0
    backfills: int = 0
    """Of these, runs of backfills."""
    today: int = 0
    """Runs that were started on this day, in UTC."""

    @classmethod
    def of(cls, runs: Iterable[RunRow], now: datetime) -> RunUse:
        """`runs` are all that are active or were started today."""
        active = backfills = today = 0
        for run in runs:
            today += run.created_at.date() == now.date()
            if run.state in RUN_ACTIVE:
                active += 1
                backfills += run.trigger == RunTrigger.BACKFILL
        return cls(active, backfills, today)

    def with_one(self, kind: RunTrigger) -> RunUse:
        is_backfill = kind == RunTrigger.BACKFILL
        return RunUse(self.active + 1, self.backfills + is_backfill, self.today + 1)

    def value(self, name: LimitName) -> int:
        return {
            LimitName.CONCURRENT_RUNS: self.active,
            LimitName.DAILY_RUNS: self.today,
            LimitName.BACKFILL_RUNS: self.backfills,
        }[name]


def run_limit_reached(
    declared: DeclaredLimits, use: RunUse, kind: RunTrigger
) -> LimitReached | None:
    """The limit that prevents a run of a kind from being started now.

    Backfills leave one place of `max_concurrent_runs` to others: their runs are long.
    """
    most = declared.of_workspace(LimitName.CONCURRENT_RUNS)
    if most is not None and use.active >= most:
        text = f"{_runs(use.active)} active"
        return LimitReached(WORKSPACE, LimitName.CONCURRENT_RUNS, most, use.active, text)
    if most is not None and kind == RunTrigger.BACKFILL and use.backfills >= max(1, most - 1):
        text = f"{_runs(use.backfills)} of backfills, which leave one place to others"
        return LimitReached(WORKSPACE, LimitName.CONCURRENT_RUNS, most, use.active, text)
    daily = declared.of_workspace(LimitName.DAILY_RUNS)
    if daily is not None and use.today >= daily:
        text = f"{_runs(use.today, 'was', 'were')} started today (UTC)"
        return LimitReached(WORKSPACE, LimitName.DAILY_RUNS, daily, use.today, text)
    backfills = declared.of_workspace(LimitName.BACKFILL_RUNS) or MAX_BACKFILL_RUNS
    if kind == RunTrigger.BACKFILL and use.backfills >= backfills:
        text = f"{_runs(use.backfills)} of backfills"
        return LimitReached(WORKSPACE, LimitName.BACKFILL_RUNS, backfills, use.backfills, text)
    return None


def _runs(count: int, verb: str = "is", plural: str = "are") -> str:
    return f"1 run {verb}" if count == 1 else f"{count:,} runs {plural}"
