"""`servo plan` and `servo run`."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from arco.cli import deferral
from arco.cli.options import Remote, Slots, command, flag, option
from arco.cli.run_options import MaxTasks, PlanOptions
from arco.cli.slots import start_slot_host

if deferral.LOADED:
    from rich.text import Text

    from arco.app.findings import planned_sql
    from arco.cli import render, run_following
    from arco.cli.deprecated import note_deprecated
    from arco.cli.live import partition_text
    from arco.cli.packaging import packaged
    from arco.cli.session import Session
    from arco.errors import Invalid
    from arco.orchestration.commands import ExplainedPlan
    from arco.orchestration.plan import spec_fingerprint
    from arco.orchestration.planner_tasks import CHANGED
    from arco.orchestration.states import RunTrigger


def register(app: typer.Typer) -> None:
    command(app, "plan", example="servo plan +shop.daily_totals -p date=2025-01-01..2025-01-31")(
        plan
    )
    command(
        app,
        "run",
        example="servo run '*' -p date=latest\nservo run shop.orders+ -p date=2025-01-15 --force",
        takes=["actor"],
        before=start_slot_host,
    )(run)


def plan(
    session: Session,
    options: PlanOptions,
    max_tasks: MaxTasks = 10_000,
) -> None:
    """Show the tasks of a run and the reason for each. Changes nothing.

    A dimension without -p defaults to its last complete period, or, if it is not a time
    dimension, to all its values. The plan shows the default.
    """
    request = options.request(max_tasks)
    workspace = session.open()
    plan = workspace.commands.orchestration.explain(request)
    warnings = planned_sql(workspace, {t.asset for t in plan.spec.tasks if t.action == "run"})
    held = workspace.commands.limits.held(RunTrigger.MANUAL)
    if session.json:
        fields = {"defaults": plan.defaults, "changed": plan.changed, "warnings": warnings}
        fields["waiting"] = [] if held is None else [held.message]
        render.document({"fingerprint": spec_fingerprint(plan.spec), **fields, "spec": plan.spec})
    else:
        _show_plan(plan)
        note_deprecated(workspace.read.snapshot(), [task.asset for task in plan.spec.tasks])
        for warning in warnings:
            render.note(str(warning))
        if held is not None:
            render.note(f"a run would not start now: {held.message} ({held.hint})")


def _show_plan(plan: ExplainedPlan) -> None:
    spec = plan.spec
    changes = {t.task_id: ", ".join(change.text for change in t.changes) for t in plan.changed}
    styles = {"run": "bold", "reuse": "dim"}
    lines = [
        (
            t.stage,
            t.asset,
            partition_text(t.partition) or None,
            Text(t.action, styles[t.action]),
            t.reason.replace(CHANGED, changes.get(t.task_id, CHANGED)),
        )
        for t in spec.tasks
    ]
    headers = ("stage", "asset", "partition", "action", "why")
    render.show_table(headers, lines, right=["stage"], whole=["asset"])
    runs = sum(task.action == "run" for task in spec.tasks)
    reused = len(spec.tasks) - runs
    parts = f"{render.count(runs, 'task')} to run, {reused:,} up to date"
    render.say(f"{parts}; plan {spec_fingerprint(spec)[:16]}", "bold")
    run_following.show_defaults(plan.defaults)


def run(
    session: Session,
    options: PlanOptions,
    max_tasks: MaxTasks = 10_000,
    deploy: Annotated[bool, flag("--deploy", "Deploy the project in this folder first.")] = False,
    project: Annotated[
        Path, option("DIR", "The folder of the project to deploy.", "--project", show_default=False)
    ] = Path(),
    run_key: Annotated[
        str, option("KEY", "Start at most one run per key; repeating the command returns that run.")
    ] = "",
    timeout: Annotated[int | None, option("S", "Timeout of the run in seconds.", min=1)] = None,
    priority: Annotated[int, option("N", "Tasks of runs with a higher priority start first.")] = 0,
    slots: Slots = 4,
    dry_run: Annotated[bool, flag("--dry-run", "Dry run: only show the plan.")] = False,
    remote: Remote = False,
    detach: Annotated[
        bool, flag("--detach", "With --remote: do not wait for the run to end.")
    ] = False,
) -> None:
    """Plan a run, run its tasks, and show the progress.

    Tasks run in this process, unless --remote is given. Ctrl-C cancels the run and waits
    for its tasks to stop; a second Ctrl-C exits at once, and `servo runs resume` can
    continue the run. With --remote, Ctrl-C only stops watching. The exit code is 0 if the
    run succeeded and no output is held, and 1 otherwise.

    A dimension without -p defaults to its last complete period, or, if it is not a time
    dimension, to all its values. The output shows the default.
    """
    remote = remote or bool(session.api)
    if detach and not remote:
        raise Invalid(
            "--detach needs --remote", hint="without --remote, this process runs the tasks"
        )
    if deploy and dry_run:
        raise Invalid(
            "--deploy and --dry-run are mutually exclusive", hint="see servo deploy --dry-run"
        )
    if dry_run:
        plan(session, options, max_tasks)
        return
    request = options.request(max_tasks)
    workspace = session.open()
    if deploy:
        package = packaged(session, project, workspace)
        deployed = workspace.commands.orchestration.deploy(
            package.manifest, package.artifact, message="servo run --deploy"
        )
        if deployed.changed and not session.json:
            render.say(f"deployed {deployed.number} ({deployed.deployment_id})", "dim")
            for warning in package.warnings():
                render.note(warning)
    settings: dict[str, Any] = {
        "run_key": run_key,
        "timeout": timedelta(seconds=timeout) if timeout else None,
        "priority": priority,
    }
    if remote and detach:
        run_following.leave_request(
            session, workspace.commands.orchestration.request(request, **settings)
        )
        return
    if remote:
        review = run_following.reviewed(session, workspace, is_local=False)
        triggered = workspace.commands.orchestration.trigger(request, review=review, **settings)
        run_following.follow_remotely(session, workspace, triggered)
        return
    run_following.work_here(
        session,
        workspace,
        lambda engine_id, review: workspace.commands.orchestration.trigger(
            request, engine_id=engine_id, review=review, **settings
        ),
        slots,
    )
