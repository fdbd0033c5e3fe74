"""Runs a triggered run in this process, or watches it, and shows how it ends."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable

import typer

from arco.app import Workspace
from arco.cli import render
from arco.cli.exit_codes import DIFFERENT, INTERRUPTED
from arco.cli.live import follow, follow_remote, limits_of
from arco.cli.run_display import document_of, show_end
from arco.cli.session import Session
from arco.engine import LocalEngine
from arco.orchestration.commands import Requested, Triggered
from arco.orchestration.plan_defaults import DefaultRange
from arco.orchestration.planning import Review, ReviewedPlan
from arco.orchestration.states import RequestState, RunState
from arco.orchestration.tables import RunRow


def work_here(
    session: Session,
    workspace: Workspace,
    trigger: Callable[[str, Review], Triggered],
    slots: int,
    *,
    announced: bool = False,
) -> None:
    """Trigger a run for a local engine of this process, and show it until it has ended."""
    engine = LocalEngine(workspace, slots=slots, private=True)
    interrupts: list[int] = []

    def interrupted(*_: object) -> None:
        interrupts.append(1)
        if len(interrupts) > 1:
            os._exit(INTERRUPTED)  # nothing is lost: an orchestrator adopts the run

    before = signal.signal(signal.SIGINT, interrupted)
    try:
        with engine.running():
            triggered = trigger(engine.id, reviewed(session, workspace, is_local=True))
            if not announced:
                announce(session, triggered)
            row = _follow_here(session, engine, triggered, interrupts)
    finally:
        signal.signal(signal.SIGINT, before)
    end(session, workspace, row)


def reviewed(session: Session, workspace: Workspace, *, is_local: bool) -> Review:
    """Refuses a plan that this process cannot run, and shows which partitions are defaults."""

    def review(run: ReviewedPlan) -> None:
        if is_local:
            workspace.runtime.require_engines(run.manifest, run.spec)
        if not session.json:
            show_defaults(run.defaults())

    return review


def show_defaults(defaults: Iterable[DefaultRange]) -> None:
    for default in defaults:
        render.say(default.text, "dim")


def _follow_here(
    session: Session, engine: LocalEngine, triggered: Triggered, interrupts: list[int]
) -> RunRow:
    if triggered.replayed:  # it may belong to an engine that has ended
        engine.orchestrator.adopt(triggered.run_id)
    return follow(
        engine.workspace,
        triggered.run_id,
        progress=engine.worker.progress,
        wait=engine.wait_for_change,
        quiet=session.json,
        interrupted=lambda: bool(interrupts),
        waiting=limits_of(engine.workspace),
    )


def follow_remotely(session: Session, workspace: Workspace, triggered: Triggered) -> None:
    announce(session, triggered)
    row = follow_remote(workspace, triggered.run_id, quiet=session.json)
    end(session, workspace, row)


def leave_request(session: Session, requested: Requested) -> None:
    if session.json:
        render.document(requested)
    elif requested.state == RequestState.PENDING:
        render.say(f"run {requested.run_id} is requested; see servo runs show {requested.run_id}")
    elif requested.state == RequestState.TRIGGERED:
        render.say(f"run {requested.run_id} was started; see servo runs show {requested.run_id}")
    else:
        render.say(
            f"the request is {requested.state}; see servo requests show {requested.request_key}"
        )


def announce(session: Session, triggered: Triggered) -> None:
    if session.json:
        return
    if triggered.replayed:
        render.say(f"this run key already has a run: {triggered.run_id}")
        return
    runs = triggered.tasks - triggered.reused
    parts = f"{render.count(runs, 'task')} to run, {triggered.reused:,} up to date"
    render.say(f"run {triggered.run_id}: {parts}", "bold")


def end(session: Session, workspace: Workspace, row: RunRow) -> None:
    """Show how a run ended; exit with 1 if it did not succeed or outputs are held."""
    if session.json:
        render.document(document_of(workspace.read.snapshot(), row.run_id))
    else:
        show_end(workspace, row)
    if row.state != RunState.SUCCEEDED or row.tasks_held:
        raise typer.Exit(DIFFERENT)
