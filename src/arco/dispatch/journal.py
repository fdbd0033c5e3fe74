"""Logs what an orchestrator sees and does, in lines of the process log. It follows all changed
rows: deployments, runs that start and end, tasks that are sent, end, or will be tried again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TypeVar

from arco.automation.changed_rows import TableRows
from arco.orchestration import states
from arco.orchestration.states import TaskState
from arco.orchestration.tables import DEPLOYMENTS, RUNS, TASKS, RunRow, TaskRow
from arco.state.changes import Changes
from arco.state.snapshot import Snapshot
from arco.state.table import Row, Table
from arco.tasks.input_failures import partition_text

R = TypeVar("R", bound=Row)

log = logging.getLogger(__name__)


def rows_put(changes: Changes, table: Table[R]) -> Iterable[R]:
    """The rows of a table that a commit has put."""
    return (row for _, row in changes.get(table, {}).values() if row is not None)


def rows_since(snapshot: Snapshot, position: int, table: Table[R]) -> Iterable[R]:
    """The rows of a table that were put after a position."""
    return (row for _, row in snapshot.since(table, position))


class Journal:
    def __init__(self) -> None:
        self._active: set[str] = set()
        """The runs whose start is known."""

    @property
    def is_on(self) -> bool:
        return log.isEnabledFor(logging.INFO)

    def load(self, runs: Iterable[str]) -> None:
        """Load the runs that are active already."""
        self._active = set(runs)
        if self._active:
            log.info("%d runs are active", len(self._active))

    def take(self, rows_of: TableRows) -> None:
        for row in rows_of(DEPLOYMENTS):
            log.info("deployment %d of project %s: %d assets", row.number, row.project, row.assets)
        for run in rows_of(RUNS):
            self._run(run)
        for task in rows_of(TASKS):
            _task(task)

    def _run(self, row: RunRow) -> None:
        is_active, is_new = row.state in states.RUN_ACTIVE, row.run_id not in self._active
        if is_active and is_new:
            self._active.add(row.run_id)
            cause = f"{row.trigger} {row.reference}".strip()
            tasks = f"{row.tasks_total} task{'' if row.tasks_total == 1 else 's'}"
            log.info("run %s started: %s, %s", row.run_id, tasks, cause)
        elif not is_active:  # also one that ended at once
            self._active.discard(row.run_id)
            log.info(
                "run %s %s: %d of %d tasks succeeded, %d reused, %d failed",
                row.run_id,
                row.state,
                row.tasks_succeeded,
                row.tasks_total,
                row.tasks_reused,
                row.tasks_failed,
            )


def log_sent(tasks: Iterable[TaskRow | None]) -> None:
    """Log tasks that were enqueued; if a task ends at once, no row shows that."""
    if log.isEnabledFor(logging.INFO):
        for row in tasks:
            if row is not None:
                log.info("sent %s, attempt %d", _name(row), row.attempt)


def _task(row: TaskRow) -> None:
    if row.state == TaskState.RETRY_WAIT:
        log.info("%s failed and will be tried again: %s", _name(row), row.error_code)
    elif row.state in states.TERMINAL and row.attempt:
        error = f": {row.error_code}" if row.error_code else ""
        log.info("%s %s%s", _name(row), row.state, error)


def _name(row: TaskRow) -> str:
    partition = partition_text(row.partition_key)
    return f"task {row.asset_key}{f' {partition}' if partition else ''} of run {row.run_id}"
