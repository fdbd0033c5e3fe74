"""`servo limits`, `servo pause` and `servo resume`: limits of concurrent work, and pauses."""

from __future__ import annotations

from typing import Annotated

import typer

from arco.cli import deferral
from arco.cli.options import Reason, argument, command, flag, group

if deferral.LOADED:
    from arco.app import Workspace
    from arco.cli import render
    from arco.cli.session import Session
    from arco.errors import Invalid
    from arco.orchestration.limit_report import LimitEntry, limit_entries
    from arco.orchestration.limit_tables import LimitName, pause_text, scope_text
    from arco.orchestration.reader import OrchestrationReader
    from arco.orchestration.states import TaskState

app = group("limits", "Show and set limits on tasks, runs and pools.")

Scope = Annotated[str, argument("SCOPE", "workspace, tenant:NAME, tenant:* or pool:NAME.")]


def register(root: typer.Typer) -> None:
    command(root, "pause", example="servo pause --reason 'database upgrade'", takes=["actor"])(
        pause
    )
    command(root, "resume", example="servo resume", takes=["actor"])(resume)


@command(app, "list", example="servo limits list --json")
def list_(session: Session) -> None:
    """List limits with their values and current use.

    Limits of the workspace are always listed; a pool is listed if it has a size, or if a deployed
    asset uses it. Without a size, a pool has no limit.
    """
    workspace = session.open().of_all_namespaces("limits")
    reader = workspace.read.orchestration()
    entries = _entries(workspace, reader)
    control = reader.limits().control
    if session.json:
        paused = None
        if control.paused_at is not None:
            paused = {
                "at": control.paused_at,
                "by": control.paused_by,
                "reason": control.pause_reason,
            }
        document = {"generation": reader.snapshot.generation, "paused": paused}
        render.document(document | {"limits": entries})
        return
    if control.paused_at is not None:
        render.say(f"{pause_text(control)}; see `servo resume`", "yellow")
    headers = ("scope", "limit", "value", "in use", "changed", "by", "note")
    lines = [
        (e.scope, e.name, e.text, e.use, e.changed_at, e.changed_by or None, e.note or None)
        for e in entries
    ]
    render.show_table(headers, lines, right=("value", "in use"), whole=("scope", "limit"))


@command(
    app,
    "set",
    example="servo limits set pool:jdbc 4\n"
    "servo limits set workspace max_concurrent_runs 10\n"
    "servo limits set workspace max_run_duration 6h\n"
    "servo limits set tenant:acme fairness_weight 3",
    takes=["actor"],
    negatives=True,
)
def set_(
    session: Session,
    scope: Scope,
    limit: Annotated[
        list[str],
        argument(
            "[LIMIT] VALUE",
            "The name of a limit and its value. For a pool only the value: its slots.",
        ),
    ],
    new: Annotated[bool, flag("--new", "Allow a pool that no deployed asset uses yet.")] = False,
    reason: Reason = "",
) -> None:
    """Set a limit. All orchestrators apply it when they next read the store.

    Running tasks continue, even if they exceed the new limit. `servo limits list` shows the names
    of all limits.
    """
    *names, value = limit
    if len(names) > 1 or (not names and not scope.startswith("pool:")):
        raise Invalid(
            f"servo limits set {scope} {' '.join(limit)}: give a scope, a limit and a value",
            hint=f"for example: servo limits set {_example(scope, value)}",
        )
    workspace = session.open()
    name = names[0] if names else ""
    done = workspace.commands.limits.set(scope, name, value, reason=reason, new_pool=new)
    _answer(session, workspace, done.scope, done.name)


@command(
    app,
    "unset",
    example="servo limits unset workspace max_daily_runs\nservo limits unset pool:jdbc",
    takes=["actor"],
)
def unset(
    session: Session,
    scope: Scope,
    limit: Annotated[str, argument("LIMIT", "The name of the limit; not needed for a pool.")] = "",
    reason: Reason = "",
) -> None:
    """Remove a limit. Its default applies, if it has one (see `servo limits list`)."""
    if not limit and not scope.startswith("pool:"):
        raise Invalid("the name of the limit is missing", hint="see `servo limits list`")
    workspace = session.open()
    done = workspace.commands.limits.unset(scope, limit, reason=reason)
    _answer(session, workspace, done.scope, done.name)


def pause(session: Session, reason: Reason = "") -> None:
    """Pause dispatch: no task and no run starts.

    It applies to the whole workspace, until `servo resume`. Running and queued tasks continue.
    Requests wait; `servo run` is refused. Orchestrators and workers keep running.
    """
    workspace = session.open()
    was_paused = workspace.read.orchestration().limits().is_paused
    workspace.commands.limits.pause(reason=reason)
    reader = workspace.read.orchestration()
    control = reader.limits().control
    tasks = reader.tasks_in_flight()
    running = sum(task.state == TaskState.RUNNING for task in tasks)
    if session.json:
        counts = {"running": running, "queued": len(tasks) - running}
        render.document({**render.plain(control), "was_paused": was_paused, **counts})
        return
    if control.paused_at is not None:
        render.say(pause_text(control), "yellow")
    if was_paused:
        change = "; its reason is not changed" if reason != control.pause_reason else ""
        render.note(f"it was already paused{change}")
    if tasks:
        left = render.count(len(tasks), "task")
        render.say(f"{left} that started before continue ({running} running)")


def resume(session: Session, reason: Reason = "") -> None:
    """Resume dispatch after `servo pause`.

    Tasks that are READY start, and waiting requests are planned.
    """
    workspace = session.open()
    workspace.commands.limits.resume(reason=reason)
    if session.json:
        render.document(workspace.read.orchestration().limits().control)
    else:
        render.say("dispatch is running")


def _example(scope: str, value: str) -> str:
    """What may have been meant by a limit without a scope, or by a scope without a limit."""
    if scope in list(LimitName):
        return f"{'tenant:NAME' if scope == LimitName.WEIGHT else 'workspace'} {scope} {value}"
    is_scope = scope == "workspace" or scope.startswith(("tenant:", "pool:"))
    return f"{scope if is_scope else 'workspace'} max_daily_runs 10"


def _entries(workspace: Workspace, reader: OrchestrationReader) -> list[LimitEntry]:
    return limit_entries(reader, workspace.commands.limits.pools(), workspace.clock.now())


def _answer(session: Session, workspace: Workspace, scope: str, name: LimitName) -> None:
    entries = _entries(workspace, workspace.read.orchestration())
    entry = next((e for e in entries if (e.scope, e.name) == (scope, name)), None)
    if session.json:
        render.document(entry or {"scope": scope, "name": name, "value": None})
        return
    text = "no limit" if entry is None else entry.text
    use = "" if entry is None or entry.use is None else f"; {entry.use:,} in use now"
    render.say(f"{name} of {scope_text(scope)}: {text}{use}")
