"""`servo runs task`: what was planned for a task."""

from __future__ import annotations

from typing import Annotated

import typer

from arco.cli import deferral
from arco.cli.options import Partition, argument, command, flag

if deferral.LOADED:
    from arco.answers.task_plan import TaskPlanBody
    from arco.cli import render
    from arco.cli.live import name_of, partition_text
    from arco.cli.run_logs import matching_tasks
    from arco.cli.session import Session
    from arco.cli.short_ids import short
    from arco.errors import Invalid, NotFound
    from arco.orchestration.reader import OrchestrationReader
    from arco.orchestration.tables import TaskRow


def register(runs: typer.Typer) -> None:
    command(
        runs,
        "task",
        example="servo runs task 01K… shop.daily_totals -p date=2026-01-31\n"
        "servo runs task 01K… shop.daily_totals -p date=2026-01-31 --sql",
        takes=["at"],
    )(task)


def task(
    session: Session,
    run: Annotated[str, argument("RUN", "The run's id, or its first characters.")],
    task: Annotated[str, argument("TASK", "The asset, or the task's id.")],
    partition: Partition = None,
    sql: Annotated[
        bool, flag("--sql", "Show only the SQL, with its templates filled in, as Spark gets it.")
    ] = False,
) -> None:
    """Show what was planned for a task: its reason, its code, its SQL and its inputs."""
    answers = session.open().answers(session.at())
    reader = OrchestrationReader(answers.snapshot)
    row = reader.find_run(run)
    chosen = _one(matching_tasks(reader.tasks(row.run_id), task, partition), row.run_id, task)
    plan = answers.task_plan(row, chosen)
    if session.json:
        render.document({"run_id": row.run_id, **render.plain(plan)})
    elif sql:
        _show_sql(plan)
    else:
        _show(plan)


def _one(tasks: list[TaskRow], run_id: str, name: str) -> TaskRow:
    if not tasks:
        raise NotFound(
            f"run {run_id} has no matching task", hint=f"see `servo runs show {run_id} --all`"
        )
    if len(tasks) > 1:
        few = "; ".join(name_of(each) for each in tasks[:3])
        raise Invalid(
            f"{name} has {len(tasks):,} matching tasks in run {run_id}",
            hint=f"give its partition with -p, or a task's id: {few}",
        )
    return tasks[0]


def _show_sql(plan: TaskPlanBody) -> None:
    if plan.kind != "sql":
        raise Invalid(f"{plan.asset} is a function: it has no SQL", hint="leave --sql out")
    if plan.sql_problem:
        raise Invalid(plan.sql_problem, hint="leave --sql out to see the query as written")
    render.say(plan.sql.strip("\n"))


def _show(plan: TaskPlanBody) -> None:
    config = ", ".join(f"{name}={value}" for name, value in plan.config.items())
    render.show_fields(
        {
            "task": plan.task_id,
            "asset": plan.asset,
            "partition": partition_text(plan.partition) or None,
            "action": plan.action,
            "why": plan.reason,
            "stage": plan.stage,
            "declared in": plan.place or None,
            "configuration": config or None,
        }
    )
    _show_inputs(plan)
    if plan.sql_problem:
        render.note(plan.sql_problem)
    for heading, text in (("SQL", plan.sql), ("as written", plan.code)):
        if text:
            render.say(f"\n── {heading}", "bold")
            render.say(text.strip("\n"))


def _show_inputs(plan: TaskPlanBody) -> None:
    lines = [
        (
            each.asset,
            each.parameter or None,
            partition_text(version.partition) or None,
            short(version.materialization_id) if version.materialization_id else "not written yet",
            "this run" if version.task_id else "before this run",
        )
        for each in plan.inputs
        for version in each.versions
    ]
    if lines:
        render.say("\n── inputs", "bold")
        headers = ("asset", "name in the code", "partition", "version", "written by")
        render.show_table(headers, lines, whole=["asset", "version"])
    for each in plan.inputs:
        if each.version_count > len(each.versions):
            listed = f"{len(each.versions):,} of {each.version_count:,}"
            render.note(f"these are {listed} versions of {each.asset}; see `servo lineage inputs`")
