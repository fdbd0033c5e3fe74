"""Prints changes in a workspace as lines: runs, their tasks, refused requests."""

from __future__ import annotations

from arco.app import Workspace
from arco.cli import render, run_display
from arco.cli.live import QUIET, line_of, name_of, run_state, task_state
from arco.cli.short_ids import short
from arco.orchestration import states
from arco.orchestration.states import RequestState, TaskState
from arco.orchestration.tables import RUN_REQUESTS, RUNS, TASKS, RunRow, TaskRow
from arco.orchestration.triggers import run_trigger
from arco.state.snapshot import Snapshot


class RunLines:
    """Prints what has changed since the last call. The cost depends on the number of changes."""

    def __init__(self, workspace: Workspace, *, as_json: bool) -> None:
        self._workspace = workspace
        self._json = as_json
        self._position = workspace.read.snapshot().position
        self._states: dict[str, str] = {}
        """Of runs that are active, and of their tasks, by id."""
        self._tasks_of: dict[str, set[str]] = {}

    def poll(self) -> None:
        snapshot = self._workspace.read.snapshot()
        if snapshot.position == self._position:
            return
        runs = [row for _, row in snapshot.since(RUNS, self._position)]
        tasks = [row for _, row in snapshot.since(TASKS, self._position)]
        self._refused(snapshot)
        self._position = snapshot.position
        for run in sorted(runs, key=lambda row: row.created_at):
            if run.run_id not in self._states:
                self._states[run.run_id] = ""
                self._began(run)
        for task in sorted(tasks, key=lambda row: (row.run_id, row.index)):
            self._changed(task)
        for run in runs:
            if run.state not in states.RUN_ACTIVE:
                self._ended(run)

    def _refused(self, snapshot: Snapshot) -> None:
        for _, row in snapshot.since(RUN_REQUESTS, self._position):
            if row.state == RequestState.REFUSED:
                what = " ".join([*row.selection, *row.partitions])
                if self._json:
                    render.line({"event": "refused", "what": what, "reason": row.reason})
                else:
                    render.say(f"{self._time()} a run of {what} was refused: {row.reason}", "red")

    def _began(self, run: RunRow) -> None:
        if self._json:
            self._line("run", run_id=run.run_id, state=run.state)
            return
        trigger = run_trigger(run)
        what = run_display.requested(run)
        tasks = render.count(run.tasks_total, "task")
        text = f"{self._time()} run {short(run.run_id)} started ({trigger}): {what}, {tasks}"
        render.say(text, "bold")

    def _changed(self, task: TaskRow) -> None:
        if self._states.get(task.task_id) == task.state:
            return
        self._states[task.task_id] = task.state
        self._tasks_of.setdefault(task.run_id, set()).add(task.task_id)
        is_over = task.state in states.TERMINAL - QUIET or task.state == TaskState.RETRY_WAIT
        if not is_over:
            return
        if self._json:
            state = task_state(task).plain
            error = task.error_message
            self._line("task", run_id=task.run_id, task=name_of(task), state=state, error=error)
        else:
            render.out(line_of(task))

    def _ended(self, run: RunRow) -> None:
        self._states.pop(run.run_id, None)
        for task_id in self._tasks_of.pop(run.run_id, ()):
            self._states.pop(task_id, None)
        if self._json:
            self._line("run", run_id=run.run_id, state=run.state)
            return
        state, took = run_state(run), run_display.duration_text(run) or "0 s"
        counts = run_display.task_counts(run)
        text = f"{self._time()} run {short(run.run_id)} {state.plain} in {took}: {counts}"
        render.say(text, str(state.style) or "green")

    def _line(self, event: str, **fields: object) -> None:
        render.line({"event": event, **fields})

    def _time(self) -> str:
        return f"{self._workspace.clock.now():%H:%M:%SZ}"
