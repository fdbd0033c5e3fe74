"""`servo runs`: list, show, cancel, retry and resume runs; show logs."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any

import typer

from arco.cli import deferral
from arco.cli.options import (
    Limit,
    Partition,
    Reason,
    Remote,
    Slots,
    argument,
    command,
    flag,
    group,
    option,
)

if deferral.LOADED:
    from arco.app import Workspace
    from arco.cli import render, run_display
    from arco.cli.live import run_state
    from arco.cli.requests import plain_request, show_request
    from arco.cli.run_following import follow_remotely, work_here
    from arco.cli.run_logs import show_logs
    from arco.cli.session import Session
    from arco.cli.short_ids import shorts
    from arco.dispatch.waiting import (
        Occupied,
        has_server,
        older_runs,
        outages,
        read_liveness,
        waiting,
    )
    from arco.errors import Invalid, NotFound
    from arco.orchestration import states
    from arco.orchestration.commands import Triggered
    from arco.orchestration.controllers.cancellation import waits
    from arco.orchestration.reader import OrchestrationReader
    from arco.orchestration.states import RUN_ACTIVE, RunState
    from arco.orchestration.tables import RunRequestRow, RunRow
    from arco.orchestration.triggers import runs_before
    from arco.state.snapshot import Snapshot
    from arco.times import parse_time

LOOKED_BACK = timedelta(days=30)
"""How far back a filtered list goes by default."""

ORCHESTRATOR_WAIT_S = 10.0
"""How long to wait for an orchestrator's liveness record after a cancellation."""

app = group("runs", "List, show, cancel, retry and resume runs.")

Run = Annotated[str, argument("RUN", "The run's id, or its first characters.")]


@command(
    app,
    "list",
    example="servo runs list --state FAILED --since 7d\nservo runs list --asset shop.orders",
    takes=["at"],
)
def list_(
    session: Session,
    limit: Limit = 20,
    state: Annotated[str | None, option("STATE", "Only runs in this state.")] = None,
    asset: Annotated[str, option("NAMESPACE.NAME", "Only runs with a task of this asset.")] = "",
    since: Annotated[
        str | None, option("TIME", "Only runs created since this time: 2026-01-31, or 7d ago.")
    ] = None,
) -> None:
    """List runs, newest first. The first characters of an id name a run; --json shows full ids.

    With --state or --asset, only runs of the last 30 days are searched, unless --since is given.
    """
    if state is not None and state.upper() not in RunState.__members__:
        raise Invalid(f"{state!r} is not a state of a run", hint=f"one of {', '.join(RunState)}")
    reader = session.open().read.orchestration(session.at())
    oldest = _oldest(reader.snapshot, since, filtered=bool(state or asset))
    states = () if state is None else (state.upper(),)
    page = reader.runs(limit=limit, in_states=states, asset_key=asset, since=oldest)
    if session.json:
        render.document(
            {
                "generation": reader.snapshot.generation,
                "since": oldest,
                "runs": [run_display.plain_run(row) for row in page.rows],
            }
        )
        return
    if page.rows:
        _show_list(page.rows)
    else:
        what = (f" in state {state.upper()}" if state else "") + (f" of {asset}" if asset else "")
        render.say(f"there are no runs{what}" + (f" since {oldest:%Y-%m-%d}" if oldest else ""))
    if not page.is_complete:
        render.note("there are older runs; see --limit")
    elif page.rows and oldest is not None and since is None:
        render.note(f"searched runs since {oldest:%Y-%m-%d}; see --since")


def _oldest(snapshot: Snapshot, since: str | None, *, filtered: bool) -> datetime | None:
    """Creation time of the oldest run to search; None for all."""
    if since is not None:
        return parse_time(since, snapshot.published_at)
    return snapshot.published_at - LOOKED_BACK if filtered else None


def _show_list(rows: list[RunRow]) -> None:
    names = shorts(row.run_id for row in rows)
    lines = [
        (
            names[r.run_id],
            run_state(r),
            f"{r.tasks_done:,}/{r.tasks_total:,}",
            r.created_at,
            run_display.duration_text(r),
            run_display.requested(r),
        )
        for r in rows
    ]
    headers = ("run", "state", "tasks", "created", "took", "what")
    whole = ("run", "created")
    render.show_table(headers, lines, right=["tasks", "took"], whole=whole)


@command(app, "show", example="servo runs show 01K…", takes=["at"])
def show(
    session: Session,
    run: Run,
    all_tasks: Annotated[
        bool, flag("--all", "Show every task, not only failed, running and waiting ones.")
    ] = False,
) -> None:
    """Show a run: its state, its tasks and their errors."""
    workspace = session.open()
    snapshot = workspace.read.snapshot(session.at())
    reader = OrchestrationReader(snapshot)
    try:
        row = reader.find_run(run)
    except NotFound:
        request = reader.request_of_run(run)
        if request is None:
            raise
        _show_requested(session, request, reader, workspace.clock.now())
        return
    if session.json:
        document = run_display.document_of(snapshot, row.run_id)
        document["caused_by"] = [each.run_id for each in runs_before(snapshot, row)]
        if session.at() is None:
            document |= _waiting_of(workspace, snapshot, row)
        render.document(document)
        return
    run_display.show_run(row, list(runs_before(snapshot, row)))
    if session.at() is None:
        _show_waiting(_waiting_of(workspace, snapshot, row))
    run_display.show_tasks(workspace, snapshot, row, all_tasks)


def _show_requested(
    session: Session, request: RunRequestRow, reader: OrchestrationReader, now: datetime
) -> None:
    if session.json:
        render.document({"run": None, "request": plain_request(request)})
    else:
        show_request(request, reader, now)


def _waiting_of(workspace: Workspace, snapshot: Snapshot, row: RunRow) -> dict[str, Any]:
    """What an open run waits for now, and during which times the store failed."""
    if row.state not in states.RUN_ACTIVE:
        return {"waiting": [], "outages": []}
    tasks = OrchestrationReader(snapshot).tasks(row.run_id)
    signs = read_liveness(workspace.store, row, tasks)
    return {
        "waiting": waiting(
            row,
            tasks,
            signs,
            workspace.clock.now(),
            Occupied.read(snapshot),
            older_runs(snapshot, row, tasks),
        ),
        "outages": [{"process": name, "outage": past} for name, past in outages(row, signs)],
    }


def _show_waiting(document: dict[str, Any]) -> None:
    for reason in document["waiting"]:
        render.say(f"waiting: {reason.text}", "yellow")
    for entry in document["outages"]:
        past = entry["outage"]
        times = f"from {render.cell(past.began)} to {render.cell(past.ended)}"
        render.say(f"the store failed for {entry['process']} {times}: {past.message}", "yellow")


@command(app, "cancel", example="servo runs cancel 01K… --force", takes=["actor"])
def cancel(
    session: Session,
    run: Run,
    force: Annotated[bool, flag("--force", "Do not wait for running tasks to stop.")] = False,
    reason: Reason = "",
) -> None:
    """Cancel a run. Waiting tasks do not start; running tasks are stopped.

    The run is CANCELLING until all of its tasks have ended. Outputs written after this never
    become current.
    """
    workspace = session.open()
    reader = workspace.read.orchestration()
    try:
        run_id = reader.find_active_run(run).run_id
    except NotFound:
        request = reader.request_of_run(run)
        if request is None:
            raise
        _withdraw(session, workspace, request.request_key, reason)
        return
    workspace.commands.orchestration.cancel(run_id, force=force, reason=reason)
    row = row_after_cancel(workspace, run_id)
    if session.json:
        render.document(row)
    else:
        render.say(f"run {row.run_id} is {row.state}: {run_display.task_counts(row)}")


def _withdraw(session: Session, workspace: Workspace, request_key: str, reason: str) -> None:
    """Cancel a run that was requested and is not planned yet."""
    workspace.commands.orchestration.withdraw(request_key, reason=reason or "cancelled")
    reader = workspace.read.orchestration()
    _show_requested(session, reader.run_request(request_key), reader, workspace.clock.now())


def row_after_cancel(workspace: Workspace, run_id: str) -> RunRow:
    """The row of a cancelled run. Without an orchestrator, this process ends its waiting tasks."""
    reader, clock = workspace.read.orchestration(), workspace.clock
    row = reader.run(run_id)
    if row.state != RunState.CANCELLING or not any(map(waits, reader.tasks(run_id))):
        return row
    until = clock.monotonic() + ORCHESTRATOR_WAIT_S
    while clock.monotonic() < until:
        clock.sleep(0.1)
        row = workspace.read.orchestration().run(run_id)
        if row.state != RunState.CANCELLING:
            return row
        if has_server(workspace.store, row, row.cancel_requested_at):
            return row
    workspace.commands.orchestration.finish_cancel(run_id)
    return workspace.read.orchestration().run(run_id)


@command(app, "retry", example="servo runs retry 01K…", takes=["actor"])
def retry(session: Session, run: Run, remote: Remote = False, slots: Slots = 4) -> None:
    """Start a new run with the same selection and partitions. Tasks that succeeded are reused."""
    workspace = session.open()
    if remote or session.api:
        follow_remotely(session, workspace, workspace.commands.orchestration.retry(run))
        return
    work_here(
        session,
        workspace,
        lambda engine_id, review: workspace.commands.orchestration.retry(
            run, engine_id=engine_id, review=review
        ),
        slots,
    )


@command(app, "resume", example="servo runs resume 01K…", takes=["actor"])
def resume(session: Session, run: Run, slots: Slots = 4) -> None:
    """Continue a run whose process has died, in this process."""
    session.require_store()
    workspace = session.open()
    reader = workspace.read.orchestration()
    row = reader.find_run(run)
    if row.state not in RUN_ACTIVE:
        good = row.state == RunState.SUCCEEDED
        raise Invalid(
            f"run {row.run_id} has ended: it is {row.state}",
            hint="there is nothing to resume" if good else "see `servo runs retry`",
        )
    generation = reader.snapshot.generation
    triggered = Triggered(
        row.run_id, row.plan_id, generation, row.tasks_total, row.tasks_reused, replayed=True
    )
    if not session.json:
        left = render.count(row.tasks_total - row.tasks_done, "task")
        render.say(f"resuming run {row.run_id}: {left} remaining", "bold")
    work_here(session, workspace, lambda engine_id, review: triggered, slots, announced=True)


@command(app, "logs", example="servo runs logs 01K… --task shop.orders --follow")
def logs(
    session: Session,
    run: Run,
    task: Annotated[str | None, option("ASSET", "Only this asset, or this task's id.")] = None,
    partition: Partition = None,
    attempt: Annotated[int | None, option("N", "Only this attempt.", min=1)] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Show new lines until the run has ended.")
    ] = False,
) -> None:
    """Show the output and log messages of tasks."""
    workspace = session.open()
    reader = workspace.read.orchestration()
    row = reader.find_run(run)
    show_logs(session, workspace, reader, row, task, partition, attempt, follow=follow)
