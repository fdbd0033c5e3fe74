"""Follows a run: a live view on a terminal, a line for each task elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from rich.console import Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from arco.app import Workspace
from arco.cli import render
from arco.dispatch.waiting import Occupied, Waiting, held_back, older_runs, read_liveness, waiting
from arco.errors import Error, Refused
from arco.orchestration import states
from arco.orchestration.states import RunState, TaskState
from arco.orchestration.tables import RUNS, TASKS, RunRow, TaskRow
from arco.storage.outage import Outage
from arco.tasks.input_failures import partition_text as partition_text
from arco.transport.liveness import Progress, records

Reasons = Callable[[RunRow, Sequence[TaskRow]], Sequence[Waiting]]

STYLES: dict[str, str] = {
    TaskState.SUCCEEDED: "green",
    TaskState.REUSED: "dim",
    TaskState.FAILED: "bold red",
    TaskState.SKIPPED: "yellow",
    TaskState.CANCELLED: "yellow",
    TaskState.RUNNING: "cyan",
    TaskState.RETRY_WAIT: "magenta",
    RunState.TIMED_OUT: "bold red",
}
SHOWN = 8
WAITING_S = 5.0
"""Interval of checks what a run waits for."""
QUIET = frozenset({TaskState.REUSED})


def state_text(state: str) -> Text:
    return Text(state, STYLES.get(state, ""))


def run_state(run: RunRow) -> Text:
    """A run's state, and how many of its outputs are held: `SUCCEEDED, 1 output held`."""
    if not run.tasks_held:
        return state_text(run.state)
    style = "bold yellow" if run.state == RunState.SUCCEEDED else STYLES.get(run.state, "")
    return Text(f"{run.state}, {render.count(run.tasks_held, 'output')} held", style)


def is_partition(key: str, named: str | None) -> bool:
    """Whether a text names a partition: by its key, its text, or a part of it."""
    text = partition_text(key)
    return named is None or named in (key, text, *text.split(","))


def name_of(task: TaskRow) -> str:
    text = partition_text(task.partition_key)
    return f"{task.asset_key}[{text}]" if text else task.asset_key


def follow(
    workspace: Workspace,
    run_id: str,
    *,
    progress: Callable[[], Mapping[str, Progress]],
    wait: Callable[[float], None],
    quiet: bool = False,
    interrupted: Callable[[], bool] = lambda: False,
    waiting: Reasons = lambda run, tasks: [],
) -> RunRow:
    """Show a run until it has ended; return its row. An interrupt cancels it.

    After the run was first read, failures of the store are retried.
    """
    followed = _Followed(workspace, run_id)
    outage = Outage(workspace.clock, "view of the run")
    cancelled = False
    with _view(quiet) as view:
        while True:
            pause_s = 0.2
            try:
                run, changed = followed.poll()
                for task in changed:
                    view.changed(task)
                if run.state in states.RUN_ACTIVE and interrupted() and not cancelled:
                    _cancel(workspace, run_id)
                    cancelled = True
                tasks = [*followed.tasks.values()]
                view.update(_RunView(run, tasks, progress(), waiting(run, tasks)))
                outage.passed()
            except Refused:  # an answer of the fold, not an error of the store
                raise
            except Error as error:
                pause_s = outage.failed(error)
                view.stalled(outage.text)
            else:
                if run.state not in states.RUN_ACTIVE:
                    return run
            wait(pause_s)


class _Followed:
    """A run and its tasks, as last read."""

    def __init__(self, workspace: Workspace, run_id: str) -> None:
        self._workspace = workspace
        self._run_id = run_id
        self._position: int | None = None
        self.tasks: dict[str, TaskRow] = {}

    def poll(self) -> tuple[RunRow, list[TaskRow]]:
        """The run, and the tasks whose states have changed since."""
        snapshot = self._workspace.read.snapshot()
        run = snapshot.get(RUNS, self._run_id)
        assert run is not None
        if self._position is None:
            rows = snapshot.rows(TASKS, self._run_id)
        else:
            since = snapshot.since(TASKS, self._position)
            rows = [task for key, task in since if key[0] == self._run_id]
        changed = []
        for task in sorted(rows, key=lambda task: task.index):
            before = self.tasks.get(task.task_id)
            if before is None or before.state != task.state:
                changed.append(task)
            self.tasks[task.task_id] = task
        self._position = snapshot.position
        return run, changed


def _cancel(workspace: Workspace, run_id: str) -> None:
    try:
        workspace.commands.orchestration.cancel(run_id, reason="Ctrl-C")
    except Refused as refusal:
        if refusal.code != "run_finished":  # then it was faster
            raise


def follow_remote(workspace: Workspace, run_id: str, *, quiet: bool = False) -> RunRow:
    """The same for a run of other processes."""

    def progress() -> Mapping[str, Progress]:
        return {id: p for record in records(workspace.store) for id, p in record.attempts.items()}

    return follow(
        workspace,
        run_id,
        progress=progress,
        wait=lambda s: workspace.clock.sleep(s),
        quiet=quiet,
        waiting=_all_reasons(workspace),
    )


def limits_of(workspace: Workspace) -> Reasons:
    """The limits, or the pause, that a run of this process waits for."""
    return _now_and_then(
        workspace,
        lambda run, tasks: held_back(tasks, Occupied.read(workspace.read.snapshot())),
    )


def _all_reasons(workspace: Workspace) -> Reasons:
    def reasons_of(run: RunRow, tasks: Sequence[TaskRow]) -> Sequence[Waiting]:
        signs = read_liveness(workspace.store, run, tasks)
        snapshot = workspace.read.snapshot()
        older = older_runs(snapshot, run, tasks)
        occupied = Occupied.read(snapshot)
        return waiting(run, tasks, signs, workspace.clock.now(), occupied, older)

    return _now_and_then(workspace, reasons_of)


def _now_and_then(workspace: Workspace, look_up: Reasons) -> Reasons:
    """What a run waits for, looked up every few seconds."""
    looked_at = float("-inf")
    reasons: Sequence[Waiting] = []

    def reasons_of(run: RunRow, tasks: Sequence[TaskRow]) -> Sequence[Waiting]:
        nonlocal looked_at, reasons
        if workspace.clock.monotonic() - looked_at >= WAITING_S:
            reasons = look_up(run, tasks)
            looked_at = workspace.clock.monotonic()
        return reasons

    return reasons_of


class _RunView(NamedTuple):
    run: RunRow
    tasks: Sequence[TaskRow]
    progress: Mapping[str, Progress]
    waiting: Sequence[Waiting]


class _Quiet:
    def changed(self, task: TaskRow) -> None:
        """The task has got into another state."""

    def stalled(self, text: str) -> None:
        """The store fails; its outage is in the log."""

    def update(self, view: _RunView) -> None: ...


class _Lines(_Quiet):
    """A line for each finished task, and for each change of what the run waits for."""

    def __init__(self) -> None:
        self._waited: set[str] = set()

    def update(self, view: _RunView) -> None:
        for reason in view.waiting:
            if reason.what not in self._waited:
                render.out(Text(f"  waiting: {reason.text}", "yellow"))
        self._waited = {reason.what for reason in view.waiting}

    def changed(self, task: TaskRow) -> None:
        if task.state in states.TERMINAL - QUIET or task.state == TaskState.RETRY_WAIT:
            render.out(line_of(task))


HELD = {"quarantine": "QUARANTINED", "block": "BLOCKED"}
"""The word for a task that succeeded and whose output is held."""


def task_state(task: TaskRow) -> Text:
    if task.state == TaskState.SUCCEEDED and task.gate in HELD:
        return Text(HELD[task.gate], "bold yellow")
    return state_text(task.state)


def line_of(task: TaskRow) -> Text:
    state = task_state(task)
    state.pad_right(max(0, 12 - len(state)))
    text = Text("  ") + state + Text(name_of(task))
    if task.state in (TaskState.SUCCEEDED, TaskState.FAILED, TaskState.RETRY_WAIT):
        text.append(f"  {task.wall_ms / 1000:.1f} s", "dim")
    if task.attempt > 1 or task.state == TaskState.RETRY_WAIT:
        text.append(f"  attempt {task.attempt} of {task.max_attempts}", "dim")
    if task.error_message and task.state in (TaskState.FAILED, TaskState.RETRY_WAIT):
        text.append(f"  {task.error_message.splitlines()[0][:200]}", "red")
    elif task.state == TaskState.SUCCEEDED and task.gate in HELD:
        text.append(f"  {task.error_message.splitlines()[0][:200]}", "yellow")
    elif task.gate == "warn":
        text.append("  with warnings", "yellow")
    return text


class _Screen(_Lines):
    """Finished tasks scroll; below them, the running tasks."""

    def __init__(self) -> None:
        super().__init__()
        self._live = Live(console=render.console(), refresh_per_second=8, transient=True)

    def __enter__(self) -> _Screen:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def changed(self, task: TaskRow) -> None:
        if task.state in (TaskState.FAILED, TaskState.RETRY_WAIT, TaskState.SUCCEEDED):
            self._live.console.print(line_of(task), no_wrap=True, overflow="ellipsis")

    def stalled(self, text: str) -> None:
        self._live.update(Text(text, "yellow"))

    def update(self, view: _RunView) -> None:
        run = view.run
        head = Table.grid(padding=(0, 1, 0, 0))
        bar = ProgressBar(total=max(1, run.tasks_total), completed=run.tasks_done, width=40)
        counts = f"{run.tasks_done:,} of {run.tasks_total:,}"
        if run.tasks_failed:
            counts += f", {run.tasks_failed:,} failed"
        head.add_row(run_state(run), bar, Text(counts))
        going = [task for task in view.tasks if task.state == TaskState.RUNNING]
        lines = [_going(task, view.progress.get(task.attempt_id)) for task in going[:SHOWN]]
        if len(going) > SHOWN:
            lines.append(Text(f"  and {len(going) - SHOWN} more", "dim"))
        lines += [Text(f"  waiting: {reason.text}", "yellow") for reason in view.waiting]
        self._live.update(Group(head, *lines))


def _going(task: TaskRow, progress: Progress | None) -> Text:
    text = Text("  ") + Text(name_of(task), "cyan")
    if progress is not None and (progress.percent or progress.message):
        text.append(f"  {progress.percent}% {progress.message}", "dim")
    return text


@contextmanager
def _view(quiet: bool) -> Iterator[_Quiet]:
    if quiet:
        yield _Quiet()
    elif render.console().is_terminal:
        with _Screen() as screen:
            yield screen
    else:
        yield _Lines()
