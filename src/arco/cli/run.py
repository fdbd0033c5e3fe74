"""`servo plan` and `servo run`."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from arco.cli.failures import DIFFERENT, INTERRUPTED
from arco.cli.options import command
from arco.cli.run_options import (
    Config,
    Exclude,
    Force,
    MaxTasks,
    Partitions,
    Selection,
    request_of,
)
from arco.cli.session import Session
from arco.errors import Invalid

if TYPE_CHECKING:
    from arco.app import Workspace
    from arco.engine import Engine
    from arco.orchestration.commands import Triggered
    from arco.orchestration.plan import PlanSpec
    from arco.orchestration.tables import RunRow


def register(app: typer.Typer) -> None:
    command(
        app,
        "plan",
        example="servo plan +shop.daily_totals -p date=2025-01-01..2025-01-31",
    )(plan)
    command(
        app,
        "run",
        example="servo run '*' -p date=latest\nservo run shop.orders+ -p date=2025-01-15 --force",
        takes=["actor"],
    )(run)


def plan(
    session: Session,
    selection: Selection,
    partition: Partitions = None,
    exclude: Exclude = None,
    force: Force = False,
    config: Config = None,
    max_tasks: MaxTasks = 10_000,
) -> None:
    """Show what a run would do, and why. Changes nothing."""
    from arco.cli import render
    from arco.orchestration.plan import spec_fingerprint

    request = request_of(selection, exclude, partition, force, config, max_tasks)
    spec = session.open().orchestration.plan(request)
    if session.json:
        render.document({"fingerprint": spec_fingerprint(spec), "spec": spec})
    else:
        _show_plan(spec)


def _show_plan(spec: PlanSpec) -> None:
    from rich.text import Text

    from arco.cli import render
    from arco.cli.live import partition_text
    from arco.orchestration.plan import spec_fingerprint

    styles = {"run": "bold", "reuse": "dim"}
    shown = [
        (
            t.stage,
            t.asset,
            partition_text(t.partition) or None,
            Text(t.action, styles[t.action]),
            t.reason,
        )
        for t in spec.tasks
    ]
    headers = ("stage", "asset", "partition", "action", "why")
    render.show(render.table(headers, shown, right=["stage"], whole=["asset"]))
    runs = sum(task.action == "run" for task in spec.tasks)
    reused = len(spec.tasks) - runs
    parts = f"{render.count(runs, 'task')} to run, {reused:,} up to date"
    render.say(f"{parts}; plan {spec_fingerprint(spec)[:16]}", "bold")


def run(
    session: Session,
    selection: Selection,
    partition: Partitions = None,
    exclude: Exclude = None,
    force: Force = False,
    config: Config = None,
    max_tasks: MaxTasks = 10_000,
    deploy: Annotated[
        bool, typer.Option("--deploy", help="Deploy the project in this folder first.")
    ] = False,
    project: Annotated[
        Path, typer.Option("--project", metavar="DIR", help="Its folder.", show_default=False)
    ] = Path(),
    run_key: Annotated[
        str, typer.Option(metavar="KEY", help="A run for each key: asking again finds it.")
    ] = "",
    timeout: Annotated[
        int | None, typer.Option(min=1, metavar="S", help="Cancel the run after so many seconds.")
    ] = None,
    priority: Annotated[int, typer.Option(metavar="N", help="Greater goes first.")] = 0,
    slots: Annotated[int, typer.Option(min=1, metavar="N", help="Tasks at a time.")] = 4,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the plan.")] = False,
    remote: Annotated[
        bool,
        typer.Option("--remote", help="Leave the work to `servo orchestrator` and `worker`."),
    ] = False,
    detach: Annotated[
        bool, typer.Option("--detach", help="With --remote: do not wait for the end.")
    ] = False,
) -> None:
    """Plan a run, do it, and show how it goes.

    Everything happens in this process, unless --remote is given: then others work, and
    Ctrl-C only stops watching. Here Ctrl-C cancels the run and waits for it to stop; a
    second one leaves at once, and `servo runs resume` goes on from there. Exits with 0
    if the run succeeded and checks hold no output back, and with 1 if not.
    """
    from arco.cli import render

    if detach and not remote:
        raise Invalid("--detach needs --remote", hint="without it, this process does the work")
    if deploy and dry_run:
        raise Invalid(
            "--deploy and --dry-run exclude each other", hint="see servo deploy --dry-run"
        )
    if dry_run:
        plan(session, selection, partition, exclude, force, config, max_tasks)
        return
    request = request_of(selection, exclude, partition, force, config, max_tasks)
    workspace = session.open()
    if deploy:
        from arco.cli.project import packaged

        manifest, artifact = packaged(session, project)
        done = workspace.orchestration.deploy(manifest, artifact, message="servo run --deploy")
        if done.changed and not session.json:
            render.say(f"deployed {done.number} ({done.deployment_id})", "dim")
    settings: dict[str, Any] = {
        "run_key": run_key,
        "timeout": timedelta(seconds=timeout) if timeout else None,
        "priority": priority,
    }
    if remote:
        follow_remotely(
            session, workspace, workspace.orchestration.trigger(request, **settings), detach
        )
        return
    work_here(
        session,
        workspace,
        lambda pool: workspace.orchestration.trigger(request, pool=pool, **settings),
        slots,
    )


def work_here(
    session: Session, workspace: Workspace, trigger: Callable[[str], Triggered], slots: int
) -> None:
    """Trigger a run for an engine of this process, and show it until it has ended."""
    from arco.engine import Engine

    engine = Engine(workspace, slots=slots, private=True)
    interrupts: list[int] = []

    def interrupted(*_: object) -> None:
        interrupts.append(1)
        if len(interrupts) > 1:
            os._exit(INTERRUPTED)  # nothing is lost: the run goes on where somebody serves it

    before = signal.signal(signal.SIGINT, interrupted)
    try:
        with engine.running():
            row = _follow_here(session, engine, trigger(engine.pool), interrupts)
    finally:
        signal.signal(signal.SIGINT, before)
    end(session, workspace, row)


def _follow_here(
    session: Session, engine: Engine, triggered: Triggered, interrupts: list[int]
) -> RunRow:
    from arco.cli.live import follow

    announce(session, triggered)
    if triggered.replayed:  # it may belong to an engine that is gone
        engine.orchestrator.adopt(triggered.run_id)
    return follow(
        engine.workspace,
        triggered.run_id,
        progress=engine.worker.progress,
        wait=engine.wait_for_change,
        quiet=session.json,
        interrupted=lambda: bool(interrupts),
    )


def follow_remotely(
    session: Session, workspace: Workspace, triggered: Triggered, detach: bool
) -> None:
    from arco.cli import render
    from arco.cli.live import follow_remote

    announce(session, triggered)
    if detach:
        if session.json:
            render.document(triggered)
        return
    row = follow_remote(workspace, triggered.run_id, quiet=session.json)
    end(session, workspace, row)


def announce(session: Session, triggered: Triggered) -> None:
    from arco.cli import render

    if session.json:
        return
    if triggered.replayed:
        render.say(f"this run key has a run already: {triggered.run_id}")
        return
    runs = triggered.tasks - triggered.reused
    parts = f"{render.count(runs, 'task')} to run, {triggered.reused:,} up to date"
    render.say(f"run {triggered.run_id}: {parts}", "bold")


def end(session: Session, workspace: Workspace, row: RunRow) -> None:
    """Show how a run ended; exit with 1 if it did not succeed, or outputs are held back."""
    from arco.cli import render
    from arco.cli.runs import document_of, show_end

    if session.json:
        render.document(document_of(workspace, row.run_id))
    else:
        show_end(workspace, row)
    if row.state != "SUCCEEDED" or row.tasks_held:
        raise typer.Exit(DIFFERENT)
