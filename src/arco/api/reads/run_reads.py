"""Runs, their tasks, outputs, logs and plans.

A run is visible if an asset of one of its tasks is. If some of its tasks are hidden, its selection
is left out, and the hidden tasks are only counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
import pyarrow as pa
from msgspec import UNSET, Meta, UnsetType

from arco.api.page_tokens import PageKey
from arco.api.reads.catalog import AssetName
from arco.api.routes import AtParameters, PageParameters, PageWindow, listing, read
from arco.api.run_visibility import (
    ASKED_OF_RUN,
    require_run,
    seen_places,
    sees_run,
    sees_whole_run,
)
from arco.api.views import View, require_asset
from arco.dispatch.waiting import Occupied, Waiting, older_runs, read_liveness, waiting
from arco.errors import NotFound
from arco.execution.tables import MaterializationRow
from arco.orchestration import states
from arco.orchestration.reader import OrchestrationReader
from arco.orchestration.run_outputs import run_outputs
from arco.orchestration.states import RunState, TaskState
from arco.orchestration.tables import TASK_ORDER, TASKS, RunRow, TaskRow
from arco.orchestration.triggers import runs_before
from arco.plain_json import Document, plain
from arco.security.permissions import Permission
from arco.security.visibility import Visible
from arco.state.days import newest_first
from arco.times import parse_time
from arco.worker.log_parts import RunLogs

RunId = Annotated[str, Meta(min_length=1, max_length=64, description="The id of a run.")]
Time = Annotated[str, Meta(max_length=64, description="A time: 2026-01-31T12:00Z, or 7d ago.")]
MAX_LOG_BYTES = 1 << 20


class RunParameters(AtParameters, frozen=True, kw_only=True):
    run_id: RunId


class RunListParameters(PageParameters, frozen=True, kw_only=True):
    state: (
        Annotated[list[RunState], Meta(max_length=10, description="Only runs in these states.")]
        | UnsetType
    ) = UNSET
    asset: Annotated[AssetName, Meta(description="Only runs with a task of this asset.")] = ""
    created_after: Time = ""


class RunBody(RunRow, frozen=True, kw_only=True):
    is_partial: bool = False
    """The run has tasks that the caller does not see; what was asked for is left out."""


def _body(view: View, visible: Visible, row: RunRow) -> RunBody:
    fields = msgspec.structs.asdict(row)
    if sees_whole_run(view, visible, row):
        return RunBody(**fields)
    return RunBody(**(fields | dict(ASKED_OF_RUN)), is_partial=True)


class EndedRun(RunRow, frozen=True, kw_only=True):
    """A run of a history file, which does not change any more."""

    document: Document
    """For those who see all of it."""


def _ended(value: Any) -> Any:
    """What is kept of a history file: of a run also its document."""
    if type(value) is not RunRow:
        return value
    fields = msgspec.structs.asdict(value)
    return EndedRun(**fields, document=Document(plain(RunBody(**fields))))


def _listed(view: View, visible: Visible, row: RunRow) -> Any:
    """A `RunBody`, or the document of one."""
    if isinstance(row, EndedRun):
        if sees_whole_run(view, visible, row):
            return row.document
        fields = {name: getattr(row, name) for name in RunRow.__struct_fields__}
        row = RunRow(**fields)
    return _body(view, visible, row)


def list_runs(
    view: View, visible: Visible, parameters: RunListParameters, window: PageWindow
) -> Iterator[tuple[PageKey, RunBody]]:
    """List runs, the newest first."""
    if parameters.asset:
        require_asset(visible, parameters.asset)
    in_states = () if parameters.state is UNSET else tuple(parameters.state)
    if parameters.state is not UNSET and not in_states:
        return
    since = (
        parse_time(parameters.created_after, view.snapshot.published_at)
        if parameters.created_after
        else None
    )
    after: Any = window.after
    page = OrchestrationReader(view.snapshot).runs(
        limit=window.limit,
        in_states=in_states,
        asset_key=parameters.asset,
        since=since,
        after=after,
        matches=None if visible.all else lambda row: sees_run(view, visible, row),
        choose=None if visible.all else lambda rows: seen_places(view, visible, rows),
        namespaces=visible.namespaces,
        keep=lambda name, make: view.keep_of_runs(name, lambda: _ended(make())),
    )
    for row in page.rows:
        yield (row.created_at, row.run_id), _listed(view, visible, row)


class RunDetails(msgspec.Struct, frozen=True, kw_only=True):
    run: RunBody
    caused_by: list[str]
    """Runs before it that led to it."""
    hidden_tasks: int
    waiting: list[Waiting]
    """What an active run waits for now."""


class RunDetailsParameters(RunParameters, frozen=True, kw_only=True):
    waiting: Annotated[bool, Meta(description="Also what it waits for.")] = True


def get_run(view: View, visible: Visible, parameters: RunDetailsParameters) -> RunDetails:
    """Show a run: its state, its counts, and what it waits for."""
    row = require_run(view, visible, parameters.run_id)
    sees_all = sees_whole_run(view, visible, row)
    tasks = () if sees_all else OrchestrationReader(view.snapshot).tasks(row.run_id)
    before = runs_before(view.snapshot, row)
    return RunDetails(
        run=_body(view, visible, row),
        caused_by=[each.run_id for each in before if sees_run(view, visible, each)],
        hidden_tasks=sum(not visible.sees_asset(task.asset_key) for task in tasks),
        waiting=_waiting(view, row) if sees_all and parameters.waiting else [],
    )


def _waiting(view: View, row: RunRow) -> list[Waiting]:
    if not view.is_current or row.state not in states.RUN_ACTIVE:
        return []
    tasks = OrchestrationReader(view.snapshot).tasks(row.run_id)
    occupied, older = Occupied.read(view.snapshot), older_runs(view.snapshot, row, tasks)
    return list(
        waiting(row, tasks, read_liveness(view.store, row, tasks), view.now, occupied, older)
    )


class TaskListParameters(PageParameters, frozen=True, kw_only=True):
    run_id: RunId
    state: Annotated[list[TaskState], Meta(max_length=20)] | UnsetType = UNSET
    asset: Annotated[AssetName, Meta(description="Only tasks of this asset.")] = ""
    page_size: Annotated[int, Meta(ge=1, le=500)] = 20


def list_tasks(
    view: View, visible: Visible, parameters: TaskListParameters, window: PageWindow
) -> Iterator[tuple[PageKey, TaskRow]]:
    """List the tasks of a run in the order of its plan."""
    run_id = require_run(view, visible, parameters.run_id).run_id
    for index, task_id, asset, state in task_order(view, run_id):
        if window.after is not None and (index,) <= window.after:
            continue
        is_chosen = parameters.state is UNSET or state in parameters.state
        if is_chosen and parameters.asset in ("", asset) and visible.sees_asset(asset):
            task = view.snapshot.get(TASKS, run_id, task_id)
            assert task is not None
            yield (index,), msgspec.structs.replace(task, downstream=[], upstream=[])


def task_order(view: View, run_id: str) -> list[tuple[int, str, str, str]]:
    """Index, id, asset and state of the tasks of a run in the plan's order: few of its columns."""

    def read_order() -> list[tuple[int, str, str, str]]:
        names = ("index", "task_id", "asset_key", "state")
        parts = [rows.select(names) for rows, _ in newest_first(view.snapshot, TASK_ORDER, run_id)]
        if not parts:  # nothing of it is planned yet
            return []
        rows = pa.concat_tables(parts)
        return sorted(zip(*(rows.column(name).to_pylist() for name in names), strict=True))

    return view.derived(f"tasks of {run_id}", read_order)


class TaskParameters(RunParameters, frozen=True, kw_only=True):
    task_id: Annotated[str, Meta(min_length=1, max_length=128)]


def get_task(view: View, visible: Visible, parameters: TaskParameters) -> TaskRow:
    """Show a task of a run."""
    return require_task(view, visible, parameters.run_id, parameters.task_id)


def require_task(view: View, visible: Visible, run_id: str, task_id: str) -> TaskRow:
    row = require_run(view, visible, run_id)
    task = view.snapshot.get(TASKS, row.run_id, task_id)
    if task is None or not visible.sees_asset(task.asset_key):
        raise NotFound(f"run {run_id} has no task {task_id}")
    return task


class LogParameters(TaskParameters, frozen=True, kw_only=True):
    attempt: Annotated[int, Meta(ge=1, le=1000)] | None = None
    start: Annotated[
        int, Meta(ge=0, le=1 << 40, description="The first byte; `end` of the previous response.")
    ] = 0
    length: Annotated[int, Meta(ge=1, le=MAX_LOG_BYTES)] = MAX_LOG_BYTES // 4


class LogBody(msgspec.Struct, frozen=True, kw_only=True):
    attempt: int
    start: int
    end: int
    """Where the next part begins."""
    text: str
    is_complete: bool
    """Whether the attempt has ended and there is nothing after this."""


def get_task_log(view: View, visible: Visible, parameters: LogParameters) -> LogBody:
    """Show a part of what an attempt of a task printed and logged; the last attempt by default."""
    task = require_task(view, visible, parameters.run_id, parameters.task_id)
    attempt = task.attempt if parameters.attempt is None else parameters.attempt
    logs = RunLogs(view.store, task.run_id)
    has_ended = task.state in states.TERMINAL or attempt < task.attempt
    start, length = parameters.start, parameters.length
    if not visible.all:
        length = max(length, MAX_LOG_BYTES // 4)
    data, more = logs.part(task.task_id, attempt, start, length)
    end = start + len(data)
    if not visible.all:
        starts_line = start == 0 or logs.part(task.task_id, attempt, start - 1, 1)[0] == b"\n"
        skipped, data = whole_lines(data, starts_line=starts_line, is_last=has_ended and not more)
        start, end = start + skipped, start + skipped + len(data)
        if not data and more:  # a line that is longer than a part: its rest is left out
            end = start = parameters.start + length
    return LogBody(
        attempt=attempt,
        start=start,
        end=end,
        text=data.decode("utf-8", "replace"),
        is_complete=has_ended and not more,
    )


def whole_lines(data: bytes, *, starts_line: bool, is_last: bool) -> tuple[int, bytes]:
    """How many bytes are skipped, and the lines after them.

    Hidden names are replaced in each answer: a part that begins or ends within a line could
    show halves of one.
    """
    skipped = 0 if starts_line else data.find(b"\n") + 1
    if not starts_line and not skipped:
        return len(data), b""
    lines = data[skipped:]
    return skipped, lines if is_last else lines[: lines.rfind(b"\n") + 1]


class OutputListParameters(PageParameters, frozen=True, kw_only=True):
    run_id: RunId
    reused: bool = False
    """Include versions that were up to date and reused."""


class OutputBody(msgspec.Struct, frozen=True, kw_only=True):
    asset: str
    reused: bool
    version: MaterializationRow


def list_run_outputs(
    view: View, visible: Visible, parameters: OutputListParameters, window: PageWindow
) -> Iterator[tuple[PageKey, OutputBody]]:
    """List the versions that a run wrote, with their status, in the order of the plan."""
    row = require_run(view, visible, parameters.run_id)
    outputs = run_outputs(view.snapshot, row.run_id, reused=parameters.reused).outputs
    for place, each in enumerate(outputs):
        if visible.sees_asset(each.asset) and (window.after is None or (place,) > window.after):
            yield (place,), OutputBody(asset=each.asset, reused=each.reused, version=each.version)


class PlanListParameters(PageParameters, frozen=True, kw_only=True):
    run_id: RunId


class PlannedTaskBody(msgspec.Struct, frozen=True, kw_only=True):
    index: int
    task_id: str
    asset: str
    partition: str
    action: str
    reason: str
    stage: int
    depends_on: tuple[int, ...]


def list_planned_tasks(
    view: View, visible: Visible, parameters: PlanListParameters, window: PageWindow
) -> Iterator[tuple[PageKey, PlannedTaskBody]]:
    """List the plan of a run: each task, whether it runs, and why."""
    row = require_run(view, visible, parameters.run_id)
    plan = view.library.plan(row.plan_id)
    first = 0 if window.after is None else int(str(window.after[0])) + 1
    tasks = plan.spec.tasks
    for index in range(first, len(tasks)):
        task = tasks[index]
        if visible.sees_asset(task.asset):
            depends = tuple(n for n in task.depends_on if visible.sees_asset(tasks[n].asset))
            yield (
                (index,),
                PlannedTaskBody(
                    index=index,
                    task_id=task.task_id,
                    asset=task.asset,
                    partition=task.partition,
                    action=task.action,
                    reason=task.reason,
                    stage=task.stage,
                    depends_on=depends,
                ),
            )


_READ = Permission.RUNS_READ
ROUTES: tuple[Any, ...] = (
    listing("/runs", _READ, list_runs),
    read("/runs/{run_id}", _READ, get_run, live=True),
    listing("/runs/{run_id}/tasks", _READ, list_tasks),
    read("/runs/{run_id}/tasks/{task_id}", _READ, get_task),
    read("/runs/{run_id}/tasks/{task_id}/log", _READ, get_task_log, live=True),
    listing("/runs/{run_id}/outputs", _READ, list_run_outputs),
    listing("/runs/{run_id}/plan", _READ, list_planned_tasks),
)
