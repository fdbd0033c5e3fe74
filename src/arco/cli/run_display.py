"""A run and its tasks, as people and programs are shown them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from arco.app import Workspace
from arco.cli import render
from arco.cli.live import HELD, name_of, partition_text, run_state, task_state
from arco.orchestration import states
from arco.orchestration.reader import OrchestrationReader
from arco.orchestration.states import TaskState
from arco.orchestration.tables import RunRow, TaskRow
from arco.orchestration.triggers import run_trigger
from arco.state.snapshot import Snapshot
from arco.transport.liveness import records

SHOWN_ASKED = 3
"""Maximum number of ranges, and of selection terms, in a line of the list."""


def requested(row: RunRow) -> str:
    """The selection and partitions of a run, shortened."""
    selection = _shortened(row.selection[:SHOWN_ASKED], row.selection_total or len(row.selection))
    ranges = _shortened(row.partitions[:SHOWN_ASKED], row.partitions_total or len(row.partitions))
    return f"{selection} {ranges}".rstrip()


def _shortened(texts: list[str], total: int) -> str:
    """The first texts, and how many more there are; `total` is 0 if the list is complete."""
    more = [f"… and {total - len(texts):,} more"] if total > len(texts) else []
    return " ".join([*texts, *more])


def show_run(row: RunRow, caused_by: Sequence[RunRow] = ()) -> None:
    chain = "; ".join(f"run {each.run_id}: {run_trigger(each)}" for each in caused_by)
    render.show_fields(
        {
            "run": row.run_id,
            "state": run_state(row),
            "selection": _shortened(row.selection, row.selection_total),
            "partitions": _shortened(row.partitions, row.partitions_total) or None,
            "trigger": run_trigger(row),
            **({"caused by": chain} if chain else {}),
            "run key": row.run_key or None,
            "retry of": row.retry_of or None,
            "deployment": row.deployment_id,
            "plan": row.plan_id,
            "created": row.created_at,
            "finished": row.finished_at,
            "took": duration_text(row),
            "cancelled": _cancelled(row),
            "tasks": task_counts(row),
        }
    )


def _cancelled(row: RunRow) -> str | None:
    if row.cancel_requested_at is None:
        return None
    who = f" (by {row.cancelled_by})" if row.cancelled_by else ""
    return f"{row.cancel_reason or 'yes'}{who}"


def show_tasks(workspace: Workspace, snapshot: Snapshot, row: RunRow, everything: bool) -> None:
    tasks = OrchestrationReader(snapshot).tasks(row.run_id)
    unremarkable = states.GOOD | {TaskState.SKIPPED, TaskState.BLOCKED, TaskState.CANCELLED}
    chosen = [t for t in tasks if everything or t.state not in unremarkable or t.gate in HELD]
    if len(tasks) <= 20:
        chosen = tasks
    if not chosen:
        return
    progress = _progress(workspace) if row.state in states.RUN_ACTIVE else {}
    cells = [
        (
            t.asset_key,
            partition_text(t.partition_key) or None,
            task_state(t),
            f"{t.attempt}/{t.max_attempts}",
            f"{t.wall_ms / 1000:.1f} s" if t.wall_ms else None,
            t.error_message.split("\n")[0][:300] or progress.get(t.attempt_id),
        )
        for t in chosen[:500]
    ]
    headers = ("asset", "partition", "state", "attempt", "took", "")
    render.say("")
    render.show_table(headers, cells, right=["attempt", "took"], whole=["asset"])
    for task in chosen:
        if task.state == TaskState.FAILED and task.error_hint:
            render.say(f"{task.asset_key}: {task.error_hint}", "cyan")


def _progress(workspace: Workspace) -> dict[str, str]:
    return {
        id: f"{p.percent}% {p.message} on {record.worker_id}"
        for record in records(workspace.store)
        for id, p in record.attempts.items()
    }


def document_of(snapshot: Snapshot, run_id: str) -> dict[str, Any]:
    """A run with its tasks, for machines."""
    reader = OrchestrationReader(snapshot)
    row = reader.run(run_id)
    hidden = {"downstream", "upstream"}
    tasks = [
        {k: v for k, v in render.plain(task).items() if k not in hidden}
        for task in reader.tasks(run_id)
    ]
    generation = reader.snapshot.generation
    return {"generation": generation, **plain_run(row), "tasks": tasks}


def plain_run(row: RunRow) -> dict[str, Any]:
    """For machines: the row, and its state as people read it."""
    return {**render.plain(row), "state_text": run_state(row).plain}


def show_end(workspace: Workspace, row: RunRow) -> None:
    """Shows failures, held outputs and the final state of a run."""
    if row.tasks_failed:
        tasks = workspace.read.orchestration().tasks(row.run_id)
        alike: dict[tuple[str, str], list[TaskRow]] = {}
        for task in tasks:
            if task.state == TaskState.FAILED:
                alike.setdefault((task.asset_key, task.error_message), []).append(task)
        for failed in list(alike.values())[:10]:
            more = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
            _explain(failed[0], name_of(failed[0]) + more, row)
        if len(alike) > 10:
            render.say(f"\n{len(alike) - 10} more kinds of errors", "red")
    if row.tasks_held:
        held = render.count(row.tasks_held, "output")
        render.say(f"\n{held} held by checks; see `servo quarantine list`", "bold yellow")
    state, took = run_state(row), duration_text(row) or "0 s"
    render.say(f"run {row.run_id} {state.plain} in {took}: {task_counts(row)}", str(state.style))


def _explain(task: TaskRow, name: str, run: RunRow) -> None:
    place = f" at {task.error_place}" if task.error_place else ""
    render.say(f"\n{name} failed{place} ({task.error_code}):", "bold red")
    render.say(f"  {task.error_message}")
    if task.error_hint:
        render.say(f"  {task.error_hint}", "cyan")
    render.say(f"  servo runs logs {run.run_id} --task {task.asset_key}", "dim")


def duration_text(row: RunRow) -> str | None:
    if row.finished_at is None:
        return None
    seconds = (row.finished_at - row.created_at).total_seconds()
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def task_counts(row: RunRow) -> str:
    counts = Counter(
        succeeded=row.tasks_succeeded - row.tasks_held,
        held=row.tasks_held,
        reused=row.tasks_reused,
        failed=row.tasks_failed,
        skipped=row.tasks_skipped,
        cancelled=row.tasks_cancelled,
    )
    left = row.tasks_total - row.tasks_done
    parts = [f"{n:,} {what}" for what, n in counts.items() if n]
    parts += [f"{left:,} remaining"] if left else []
    return ", ".join(parts) or "none"
