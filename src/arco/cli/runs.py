"""`servo runs`: look at runs, cancel them, try them again, read their logs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from arco.cli.options import command, group
from arco.cli.session import Session
from arco.errors import Invalid, NotFound

if TYPE_CHECKING:
    from arco.app import Workspace
    from arco.orchestration.tables import RunRow, TaskRow
    from arco.state.snapshot import Snapshot

SHORT = 8
"""So much of a run's id, from its end, names it for people."""

ORCHESTRATOR_WAIT_S = 10.0
"""How long an orchestrator has for a sign of life after a cancellation."""

app = group("runs", "Runs: what goes on, and what happened.")

Run = Annotated[str, typer.Argument(metavar="RUN", help="Its id, or the beginning or end of it.")]


@command(app, "list", example="servo runs list --state FAILED", takes=["at"])
def list_(
    session: Session,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="So many at most.")] = 20,
    state: Annotated[
        str | None, typer.Option(metavar="STATE", help="Only runs in this state.")
    ] = None,
) -> None:
    """List runs, the newest first. The end of an id names a run; --json shows it whole."""
    from arco.cli import render
    from arco.cli.live import state_text
    from arco.orchestration.states import RUN_STATES

    if state is not None and state.upper() not in RUN_STATES:
        raise Invalid(f"{state!r} is no state of a run", hint=f"one of {', '.join(RUN_STATES)}")
    found = session.open().read_orchestration(session.at())
    rows = [r for r in found.runs() if state is None or r.state == state.upper()]
    if session.json:
        render.document({"generation": found.snapshot.generation, "runs": rows[:limit]})
        return
    if not rows:
        render.say("there are no runs" + (f" in state {state.upper()}" if state else ""))
        return
    shown = [
        (
            r.run_id[-SHORT:],
            state_text(r.state),
            f"{r.tasks_done:,}/{r.tasks_total:,}",
            r.created_at,
            _took(r),
            " ".join([*r.selection, *r.partitions]),
        )
        for r in rows[:limit]
    ]
    headers = ("run", "state", "tasks", "created", "took", "what")
    whole = ("run", "state", "created")
    render.show(render.table(headers, shown, right=["tasks", "took"], whole=whole))
    if len(rows) > limit:
        render.note(f"{len(rows) - limit:,} older runs; see --limit")


@command(app, "show", example="servo runs show 01K…", takes=["at"])
def show(
    session: Session,
    run: Run,
    all_tasks: Annotated[
        bool, typer.Option("--all", help="Every task, not only what needs attention.")
    ] = False,
) -> None:
    """Show a run: its state, its tasks, and what went wrong."""
    from arco.cli import render
    from arco.orchestration.reader import OrchestrationReader

    workspace = session.open()
    snapshot = workspace.snapshot(session.at())
    row = OrchestrationReader(snapshot).find_run(run)
    if session.json:
        document = document_of(workspace, row.run_id, snapshot)
        if session.at() is None:
            document |= _waiting_of(workspace, snapshot, row)
        render.document(document)
        return
    _show_run(row)
    if session.at() is None:
        _show_waiting(_waiting_of(workspace, snapshot, row))
    _show_tasks(workspace, snapshot, row, all_tasks)


def _waiting_of(workspace: Workspace, snapshot: Snapshot, row: RunRow) -> dict[str, Any]:
    """What an open run waits for now, and during which times the store failed."""
    from arco.dispatch.waiting import look, outages, waiting
    from arco.orchestration import states
    from arco.orchestration.reader import OrchestrationReader

    if row.state not in states.RUN_ACTIVE:
        return {"waiting": [], "outages": []}
    tasks = OrchestrationReader(snapshot).tasks(row.run_id)
    signs = look(workspace.store, row, tasks)
    return {
        "waiting": waiting(row, tasks, signs, workspace.clock.now()),
        "outages": [{"process": name, "outage": past} for name, past in outages(row, signs)],
    }


def _show_waiting(found: dict[str, Any]) -> None:
    from arco.cli import render

    for reason in found["waiting"]:
        render.say(f"waiting: {reason.text}", "yellow")
    for entry in found["outages"]:
        past = entry["outage"]
        times = f"from {render.cell(past.began)} to {render.cell(past.ended)}"
        render.say(f"the store failed for {entry['process']} {times}: {past.message}", "yellow")


def _show_run(row: RunRow) -> None:
    from arco.cli import render
    from arco.cli.live import state_text

    render.show(
        render.fields(
            {
                "run": row.run_id,
                "state": state_text(row.state),
                "selection": " ".join(row.selection),
                "partitions": " ".join(row.partitions) or None,
                "trigger": f"{row.trigger} by {row.triggered_by or '–'}",
                "run key": row.run_key or None,
                "retry of": row.retry_of or None,
                "deployment": row.deployment_id,
                "plan": row.plan_id,
                "created": row.created_at,
                "finished": row.finished_at,
                "took": _took(row),
                "cancelled": _cancelled(row),
                "tasks": _counts(row),
            }
        )
    )


def _cancelled(row: RunRow) -> str | None:
    if row.cancel_requested_at is None:
        return None
    who = f" (by {row.cancelled_by})" if row.cancelled_by else ""
    return f"{row.cancel_reason or 'yes'}{who}"


def _show_tasks(workspace: Workspace, snapshot: Snapshot, row: RunRow, everything: bool) -> None:
    from arco.cli import render
    from arco.cli.live import HELD, partition_text, task_state
    from arco.orchestration import states
    from arco.orchestration.reader import OrchestrationReader

    tasks = OrchestrationReader(snapshot).tasks(row.run_id)
    unremarkable = states.GOOD | {states.SKIPPED, states.BLOCKED, states.CANCELLED}
    chosen = [t for t in tasks if everything or t.state not in unremarkable or t.gate in HELD]
    if len(tasks) <= 20:
        chosen = tasks
    if not chosen:
        return
    progress = _progress(workspace) if row.state in states.RUN_ACTIVE else {}
    shown = [
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
    render.show(render.table(headers, shown, right=["attempt", "took"], whole=["asset"]))
    for task in chosen:
        if task.state == states.FAILED and task.error_hint:
            render.say(f"{task.asset_key}: {task.error_hint}", "cyan")


def _progress(workspace: Workspace) -> dict[str, str]:
    from arco.dispatch.liveness import records

    return {
        id: f"{p.percent}% {p.message} on {record.worker_id}"
        for record in records(workspace.store)
        for id, p in record.attempts.items()
    }


def document_of(
    workspace: Workspace, run_id: str, snapshot: Snapshot | None = None
) -> dict[str, Any]:
    """A run with its tasks, for machines."""
    from arco.cli import render
    from arco.orchestration.reader import OrchestrationReader

    reader = OrchestrationReader(snapshot or workspace.snapshot())
    row = reader.run(run_id)
    hidden = {"downstream", "upstream"}
    tasks = [
        {k: v for k, v in render.plain(task).items() if k not in hidden}
        for task in reader.tasks(run_id)
    ]
    generation = reader.snapshot.generation
    return {"generation": generation, **render.plain(row), "tasks": tasks}


def show_end(workspace: Workspace, row: RunRow) -> None:
    """The last words about a run that was followed."""
    from arco.cli import render
    from arco.cli.live import STYLES, name_of
    from arco.orchestration import states

    if row.tasks_failed:
        tasks = workspace.read_orchestration().tasks(row.run_id)
        alike: dict[tuple[str, str], list[TaskRow]] = {}
        for task in tasks:
            if task.state == states.FAILED:
                alike.setdefault((task.asset_key, task.error_message), []).append(task)
        for failed in list(alike.values())[:10]:
            more = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
            _explain(failed[0], name_of(failed[0]) + more, row)
        if len(alike) > 10:
            render.say(f"\n{len(alike) - 10} more kinds of failures", "red")
    if row.tasks_held:
        held = render.count(row.tasks_held, "output")
        render.say(f"\n{held} held back by checks: see `servo quarantine list`", "bold yellow")
    render.say(
        f"run {row.run_id} {row.state} in {_took(row) or '0 s'}: {_counts(row)}",
        STYLES.get(row.state, ""),
    )


def _explain(task: TaskRow, name: str, run: RunRow) -> None:
    from arco.cli import render

    place = f" at {task.error_place}" if task.error_place else ""
    render.say(f"\n{name} failed{place} ({task.error_code}):", "bold red")
    render.say(f"  {task.error_message}")
    if task.error_hint:
        render.say(f"  {task.error_hint}", "cyan")
    render.say(f"  servo runs logs {run.run_id} --task {task.asset_key}", "dim")


@command(app, "cancel", example="servo runs cancel 01K… --force", takes=["actor"])
def cancel(
    session: Session,
    run: Run,
    force: Annotated[
        bool, typer.Option("--force", help="Do not wait for running tasks to stop.")
    ] = False,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Say why.")] = "",
) -> None:
    """Cancel a run: what waits does not start, what runs is told to stop.

    A large run is CANCELLING until an orchestrator has ended all of its tasks.

    What a task puts out after this never becomes current.
    """
    from arco.cli import render

    workspace = session.open()
    run_id = workspace.read_orchestration().find_active_run(run).run_id
    workspace.orchestration.cancel(run_id, force=force, reason=reason)
    row = _settled(workspace, run_id)
    if session.json:
        render.document(row)
    else:
        render.say(f"run {row.run_id} is {row.state}: {_counts(row)}")


def _settled(workspace: Workspace, run_id: str) -> RunRow:
    """A run that was cancelled; without an orchestrator, this process ends what waits in it."""
    from arco.dispatch.waiting import has_server
    from arco.orchestration.controllers.cancellation import waits
    from arco.orchestration.states import RUN_CANCELLING

    reader, clock = workspace.read_orchestration(), workspace.clock
    row = reader.run(run_id)
    if row.state != RUN_CANCELLING or not any(map(waits, reader.tasks(run_id))):
        return row
    until = clock.monotonic() + ORCHESTRATOR_WAIT_S
    while clock.monotonic() < until:
        clock.sleep(0.1)
        row = workspace.read_orchestration().run(run_id)
        if row.state != RUN_CANCELLING or has_server(workspace.store, row, row.cancel_requested_at):
            return row
    workspace.orchestration.finish_cancel(run_id)
    return workspace.read_orchestration().run(run_id)


@command(app, "retry", example="servo runs retry 01K…", takes=["actor"])
def retry(
    session: Session,
    run: Run,
    remote: Annotated[
        bool, typer.Option("--remote", help="Leave the work to `servo orchestrator` and `worker`.")
    ] = False,
    slots: Annotated[int, typer.Option(min=1, metavar="N", help="Tasks at a time.")] = 4,
) -> None:
    """Ask for the same again, in a new run. What succeeded is up to date, and is reused."""
    from arco.cli.run import follow_remotely, work_here

    workspace = session.open()
    if remote:
        follow_remotely(session, workspace, workspace.orchestration.retry(run), detach=False)
        return
    work_here(session, workspace, lambda pool: workspace.orchestration.retry(run, pool=pool), slots)


@command(app, "resume", example="servo runs resume 01K…", takes=["actor"])
def resume(
    session: Session,
    run: Run,
    slots: Annotated[int, typer.Option(min=1, metavar="N", help="Tasks at a time.")] = 4,
) -> None:
    """Go on, in this process, with a run whose own process is gone."""
    from arco.cli.run import work_here
    from arco.orchestration.commands import Triggered
    from arco.orchestration.states import RUN_ACTIVE

    workspace = session.open()
    row = workspace.read_orchestration().find_run(run)
    if row.state not in RUN_ACTIVE:
        raise Invalid(f"run {row.run_id} is {row.state}", hint="see `servo runs retry`")
    generation = workspace.snapshot().generation
    found = Triggered(
        row.run_id, row.plan_id, generation, row.tasks_total, row.tasks_reused, replayed=True
    )
    work_here(session, workspace, lambda pool: found, slots)


@command(app, "logs", example="servo runs logs 01K… --task shop.orders --follow")
def logs(
    session: Session,
    run: Run,
    task: Annotated[
        str | None, typer.Option(metavar="ASSET", help="Only this asset, or this task's id.")
    ] = None,
    partition: Annotated[
        str | None, typer.Option("--partition", "-p", metavar="KEY", help="Only this partition.")
    ] = None,
    attempt: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Only this attempt.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the run has ended.")
    ] = False,
) -> None:
    """Show what tasks have printed and logged."""
    from arco.cli import render
    from arco.orchestration.states import RUN_ACTIVE

    workspace = session.open()
    row = workspace.read_orchestration().find_run(run)
    seen: dict[str, int] = {}
    while True:
        reader = workspace.read_orchestration()
        tasks = _wanted(reader.tasks(row.run_id), task, partition)
        if not tasks:
            raise NotFound(f"run {row.run_id} has no such task", hint="see `servo runs show --all`")
        found = _read_logs(workspace, row.run_id, tasks, attempt)
        if session.json:
            render.document({"run_id": row.run_id, "logs": found})
            return
        _print_logs(found, seen)
        row = reader.run(row.run_id)
        if not follow or row.state not in RUN_ACTIVE:
            break
        workspace.clock.sleep(1.0)
    if not seen:
        render.say("nothing was printed or logged")


def _wanted(tasks: list[TaskRow], wanted: str | None, partition: str | None) -> list[TaskRow]:
    from arco.cli.live import name_of, partition_text

    def fits(task: TaskRow) -> bool:
        text = partition_text(task.partition_key)
        named = wanted is None or wanted in (task.asset_key, task.task_id, name_of(task))
        parts = (task.partition_key, text, *text.split(","))
        return named and (partition is None or partition in parts)

    return [task for task in tasks if fits(task)]


def _read_logs(
    workspace: Workspace, run_id: str, tasks: list[TaskRow], attempt: int | None
) -> list[dict[str, Any]]:
    from arco.cli.live import name_of
    from arco.errors import NotFound as Missing
    from arco.storage import paths

    found = []
    for task in tasks:
        for number in range(1, task.attempt + 1):
            if attempt is not None and number != attempt:
                continue
            try:
                raw = workspace.store.get(paths.attempt_log(run_id, task.task_id, number)).data
            except Missing:
                continue
            text = raw.decode("utf-8", "replace")
            found.append({"task": name_of(task), "attempt": number, "text": text})
    return found


def _print_logs(found: list[dict[str, Any]], seen: dict[str, int]) -> None:
    from arco.cli import render

    for log in found:
        name = f"{log['task']} attempt {log['attempt']}"
        text = log["text"]
        start = seen.get(name, -1)
        if len(text) <= start:
            continue
        if start < 0 or len(found) > 1:
            render.say(f"── {name}", "bold")
        for line in text[max(start, 0) :].splitlines():
            render.say(line)
        seen[name] = len(text)


def _took(row: RunRow) -> str | None:
    if row.finished_at is None:
        return None
    seconds = (row.finished_at - row.created_at).total_seconds()
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _counts(row: RunRow) -> str:
    counts = Counter(
        succeeded=row.tasks_succeeded,
        reused=row.tasks_reused,
        failed=row.tasks_failed,
        skipped=row.tasks_skipped,
        cancelled=row.tasks_cancelled,
    )
    left = row.tasks_total - row.tasks_done
    parts = [f"{n:,} {what}" for what, n in counts.items() if n]
    parts += [f"{left:,} to go"] if left else []
    return ", ".join(parts) or "none"
