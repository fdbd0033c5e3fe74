"""`servo schedules`: schedules and their ticks."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from arco.cli import deferral
from arco.cli.options import Reason, argument, command, flag, group, option

if deferral.LOADED:
    from arco.app import Workspace
    from arco.automation.reader import TickEntry, next_tick_text
    from arco.automation.tables import ScheduleRow, ScheduleState
    from arco.automation.ticks import (
        Tick,
        next_clock_change,
        ticks_after,
        ticks_around,
    )
    from arco.cli import render
    from arco.cli.live import partition_text
    from arco.cli.session import Session
    from arco.cli.short_ids import short
    from arco.errors import Error
    from arco.orchestration.plan import PlanSpec
    from arco.times import parse_time
    from servo.contract.manifest import Catchup
    from servo.errors import Invalid

app = group("schedules", "Show, preview, pause and resume schedules.")

Name = Annotated[str, argument("SCHEDULE", "The name of a schedule, or project/name.")]


@command(app, "list", example="servo schedules list", takes=["at"])
def list_(
    session: Session,
    removed: Annotated[
        bool, flag("--removed", "Include schedules that were removed from their project.")
    ] = False,
) -> None:
    """List schedules with their last and next ticks."""
    workspace = session.open()
    reader = workspace.read.automation(session.at())
    rows = reader.schedules(removed=removed)
    now = workspace.clock.now()
    if session.json:
        schedules = [_plain(row, now) for row in rows]
        render.document({"generation": reader.snapshot.generation, "schedules": schedules})
        return
    if not rows:
        render.say("there are no schedules; declare one with servo.schedule(), and deploy it")
        return
    headers = ("schedule", "state", "cron", "last tick", "next tick", "what")
    lines = [
        (
            r.schedule_id,
            r.state,
            _cron(r),
            r.last_tick or None,
            next_tick_text(r, now),
            _selected(r),
        )
        for r in rows
    ]
    render.show_table(headers, lines, whole=("schedule", "state", "last tick", "next tick"))


@command(app, "show", example="servo schedules show nightly --limit 50", takes=["at"])
def show(
    session: Session,
    schedule: Name,
    limit: Annotated[int, option("N", "Show at most N ticks.", min=1)] = 20,
) -> None:
    """Show a schedule and the history of its ticks.

    A tick is FIRED (it requested a run), SKIPPED or MISSED (with the reason), or FAILED (its
    request was refused).
    """
    workspace = session.open()
    reader = workspace.read.automation(session.at())
    row = reader.schedule(schedule)
    ticks = reader.ticks(row, limit)
    now = workspace.clock.now()
    if session.json:
        history = [_plain_tick(entry) for entry in ticks]
        document = {"generation": reader.snapshot.generation, **_plain(row, now)}
        render.document(document | {"ticks": history})
        return
    render.show_fields(
        {
            "schedule": row.schedule_id,
            "state": _state(row),
            "cron": _cron(row),
            "selection": _selected(row),
            "partitions": " ".join(row.partitions) or "the newest complete ones",
            "config": None if row.config == "{}" else row.config,
            "catchup": row.catchup,
            "overlap": row.overlap,
            "refresh sources": "yes" if row.refresh_sources else "no",
            "since": row.since,
            "next tick": next_tick_text(row, now),
        }
    )
    if ticks:
        headers = ("tick", "state", "run", "recorded", "why")
        lines = [
            (e.row.tick, e.state, short(_run_of(e)) or None, e.row.recorded_at, _why(e) or None)
            for e in ticks
        ]
        render.show_table(headers, lines, whole=("tick", "state", "run", "recorded"), title="ticks")


@command(
    app, "pause", example="servo schedules pause nightly --reason 'source is down'", takes=["actor"]
)
def pause(session: Session, schedule: Name, reason: Reason = "") -> None:
    """Pause a schedule: no tick fires until it is resumed. A deployment does not resume it."""
    workspace = session.open()
    workspace.commands.automation.pause(schedule, reason=reason)
    _answer(session, workspace, schedule)


@command(app, "resume", example="servo schedules resume nightly --catchup latest", takes=["actor"])
def resume(
    session: Session,
    schedule: Name,
    catchup: Annotated[
        str, option("WHICH", "Ticks during the pause that fire now: none, latest or all.")
    ] = "none",
) -> None:
    """Resume a schedule."""
    workspace = session.open()
    workspace.commands.automation.resume(schedule, catchup=_catchup(catchup))
    _answer(session, workspace, schedule)


@command(app, "tick", example="servo schedules tick nightly", takes=["actor"])
def tick(
    session: Session,
    schedule: Name,
    at: Annotated[str | None, option("TIME", "The time of the tick (UTC); default: now.")] = None,
) -> None:
    """Request the run of a tick now. The schedule's own ticks do not change."""
    workspace = session.open()
    time = None if at is None else parse_time(at, workspace.clock.now())
    requested = workspace.commands.automation.tick(schedule, at=time)
    if session.json:
        render.document(requested)
    else:
        render.say(
            f"requested run {requested.run_id}; see servo requests show {requested.request_key}"
        )


@command(app, "preview", example="servo schedules preview nightly --count 10")
def preview(
    session: Session,
    schedule: Name,
    count: Annotated[int, option("N", "Number of ticks.", min=1, max=100)] = 5,
) -> None:
    """Show the next ticks, those around the next clock change, and the tasks of each.

    The tasks are planned with the current deployment and versions.
    """
    workspace = session.open()
    row = workspace.read.automation().schedule(schedule)
    now = workspace.clock.now()
    change = next_clock_change(row.timezone, now)
    ticks = set(islice(ticks_after(row.cron, row.timezone, now), count))
    if change is not None:
        ticks |= set(ticks_around(row.cron, row.timezone, change))
    previews = [
        (each, _planned(workspace, row, each)) for each in sorted(ticks, key=lambda each: each.at)
    ]
    if session.json:
        render.document(
            {
                "schedule": row.schedule_id,
                "clock_change": change,
                "ticks": [_plain_preview(row, each, plan) for each, plan in previews],
            }
        )
        return
    if row.state != ScheduleState.ACTIVE:
        render.note(f"{row.schedule_id} is {row.state}: none of these fires")
    lines: list[tuple[object, ...]] = [
        (each.name, _offset(row, each), each.at, _would_run(plan)) for each, plan in previews
    ]
    if change is not None:
        before = sum(each.at < change for each, _ in previews)
        lines.insert(before, ("clock change", None, change, None))
    headers = ("tick", "offset", "UTC", "would run")
    render.show_table(headers, lines, whole=("tick", "offset", "UTC"))


def _offset(row: ScheduleRow, tick: Tick) -> str:
    return f"{tick.at.replace(tzinfo=UTC).astimezone(ZoneInfo(row.timezone)):%z}"


def _planned(workspace: Workspace, row: ScheduleRow, tick: Tick) -> PlanSpec | Error | Invalid:
    try:
        return workspace.commands.automation.preview(row, tick.at)
    except (Error, Invalid) as error:
        return error


def _would_run(plan: PlanSpec | Error | Invalid) -> str:
    if not isinstance(plan, PlanSpec):
        return f"refused: {plan.message}"
    partitions = list(dict.fromkeys(partition_text(task.partition) for task in plan.tasks))
    runs = sum(task.action == "run" for task in plan.tasks)
    named = ", ".join(text for text in partitions[:3] if text)
    more = f" and {len(partitions) - 3:,} more" if len(partitions) > 3 else ""
    return f"{render.count(runs, 'task')} of {len(plan.tasks):,}" + (
        f": {named}{more}" if named else ""
    )


def _plain_preview(
    row: ScheduleRow, each: Tick, plan: PlanSpec | Error | Invalid
) -> dict[str, Any]:
    fields: dict[str, Any] = {"tick": each.name, "at": each.at, "offset": _offset(row, each)}
    if not isinstance(plan, PlanSpec):
        return fields | {"refused": plan.message, "hint": plan.hint}
    tasks = [
        {"asset": task.asset, "partition": task.partition, "action": task.action}
        for task in plan.tasks
    ]
    return fields | {"tasks": tasks}


def _answer(session: Session, workspace: Workspace, schedule: str) -> None:
    row = workspace.read.automation().schedule(schedule)
    if session.json:
        render.document(_plain(row, workspace.clock.now()))
    else:
        render.say(f"{row.schedule_id} is {_state(row)}")


def _catchup(text: str) -> Catchup:
    match text:
        case "none" | "latest" | "all":
            return text
    raise Invalid(f"{text!r} is not a valid value of --catchup", hint="one of none, latest, all")


def _state(row: ScheduleRow) -> str:
    if row.state != ScheduleState.PAUSED:
        return str(row.state)
    reason = f": {row.pause_reason}" if row.pause_reason else ""
    return f"{row.state} by {row.paused_by or '–'}{reason}"


def _cron(row: ScheduleRow) -> str:
    return f"{row.cron} ({row.timezone})"


def _selected(row: ScheduleRow) -> str:
    return " ".join(row.selection)


def _run_of(entry: TickEntry) -> str:
    return "" if entry.request is None else entry.request.run_id


def _why(entry: TickEntry) -> str:
    row = entry.row
    at_least = "at least " if row.missed_at_least else ""
    missed = f"{at_least}{row.missed:,} earlier missed" if row.missed else ""
    return "; ".join(text for text in (entry.reason, missed) if text)


def _plain(row: ScheduleRow, now: datetime) -> dict[str, Any]:
    fields: dict[str, Any] = render.plain(row)
    return {**fields, "next_tick": next_tick_text(row, now)}


def _plain_tick(entry: TickEntry) -> dict[str, Any]:
    fields: dict[str, Any] = render.plain(entry.row)
    request = entry.request
    return {
        **fields,
        "state": entry.state,
        "reason": entry.reason,
        "request_state": None if request is None else request.state,
        "run_id": _run_of(entry) or None,
    }
