"""`servo automation`: which assets run by themselves, and why a partition runs or waits."""

from __future__ import annotations

from typing import Annotated, Any

from arco.cli import deferral
from arco.cli.options import Reason, argument, command, flag, group, option

if deferral.LOADED:
    from arco.app import Workspace
    from arco.automation.asset_commands import ExplainedAsset, ExplainedPartition, upcoming
    from arco.automation.asset_events import ResumeCatchup
    from arco.automation.asset_tables import AutomationRow, AutomationState
    from arco.cli import render
    from arco.cli.deprecated import note_deprecated
    from arco.cli.live import partition_text
    from arco.cli.session import Session
    from servo.errors import Invalid

app = group("automation", "Show, pause and resume asset automation.")

Key = Annotated[str, argument("ASSET", "The asset: namespace.name, or its name if that is unique.")]


@command(app, "list", example="servo automation list", takes=["at"])
def list_(
    session: Session,
    removed: Annotated[
        bool, flag("--removed", "Include assets whose automation was removed.")
    ] = False,
) -> None:
    """List assets with automation, and when each last requested a run."""
    workspace = session.open()
    reader = workspace.read.automation(session.at())
    rows = reader.automations(removed=removed)
    if session.json:
        assets = [_plain(row, workspace) for row in rows]
        render.document({"generation": reader.snapshot.generation, "assets": assets})
        return
    if not rows:
        render.say("no asset has automation; declare it with automation=eager(), and deploy it")
        return
    headers = ("asset", "state", "automation", "last request", "cause")
    lines = [
        (row.asset_key, row.state, _when(row), row.requested_at, row.cause or None) for row in rows
    ]
    render.show_table(headers, lines, whole=("asset", "state", "last request"))
    note_deprecated(reader.snapshot, [row.asset_key for row in rows])


@command(
    app, "explain", example="servo automation explain sales.totals -p date=2026-01-05", takes=[]
)
def explain(
    session: Session,
    asset: Key,
    partition: Annotated[
        list[str] | None,
        option("RANGE", "Partitions, as in servo run.", "--partition", "-p"),
    ] = None,
) -> None:
    """Show why partitions of an asset would run now, or what they wait for.

    The default is the newest period. `runs`: an orchestrator requests it now, or with on_cron at
    the next tick. `waits`: there is or may be a cause, but an input is not ready. `idle`: there
    is no cause.
    """
    workspace = session.open()
    explained = workspace.commands.asset_automation.explain(asset, partition or ())
    if session.json:
        render.document(_plain_explained(explained, workspace))
        return
    row = explained.automation
    render.show_fields(
        {
            "asset": row.asset_key,
            "automation": _when(row),
            "state": _state(row),
            "since": row.since_at,
            "next tick": explained.next_tick,
            "last request": row.requested_at,
            "request": row.request_key or None,
            "cause": row.cause or None,
        }
    )
    if not explained.partitions:
        render.say("it has no partition whose period is over")
        return
    lines = [
        (partition_text(each.partition) or "–", each.outcome, _why(each))
        for each in explained.partitions
    ]
    render.show_table(("partition", "now", "why"), lines, whole=("partition", "now"))


@command(
    app,
    "pause",
    example="servo automation pause sales.totals --reason 'source is down'",
    takes=["actor"],
)
def pause(session: Session, asset: Key, reason: Reason = "") -> None:
    """Pause the automation of an asset until it is resumed. A deployment does not resume it.

    Other runs of the asset are not affected.
    """
    workspace = session.open()
    workspace.commands.asset_automation.pause(asset, reason=reason)
    _answer(session, workspace, asset)


@command(
    app, "resume", example="servo automation resume sales.totals --catchup all", takes=["actor"]
)
def resume(
    session: Session,
    asset: Key,
    catchup: Annotated[
        str, option("WHICH", "Which input versions replaced during the pause count: none or all.")
    ] = "none",
) -> None:
    """Resume the automation of an asset."""
    workspace = session.open()
    workspace.commands.asset_automation.resume(asset, catchup=_catchup(catchup))
    _answer(session, workspace, asset)


def _why(explained: ExplainedPartition) -> str:
    reasons = "; ".join(explained.reasons)
    if explained.outcome == "waits" and explained.cause:
        return f"{explained.cause}, but {reasons}"
    return reasons


def _answer(session: Session, workspace: Workspace, asset: str) -> None:
    row = workspace.read.automation().automation(asset)
    if session.json:
        render.document(_plain(row, workspace))
    else:
        render.say(f"the automation of {row.asset_key} is {_state(row)}")


def _catchup(text: str) -> ResumeCatchup:
    match text:
        case "none" | "all":
            return text
    raise Invalid(f"{text!r} is not a valid value of --catchup", hint="one of none, all")


def _when(row: AutomationRow) -> str:
    return f"on_cron {row.cron} ({row.timezone})" if row.cron else row.when


def _state(row: AutomationRow) -> str:
    if row.state != AutomationState.PAUSED:
        return str(row.state)
    reason = f": {row.pause_reason}" if row.pause_reason else ""
    return f"{row.state} by {row.paused_by or '–'}{reason}"


def _plain(row: AutomationRow, workspace: Workspace) -> dict[str, Any]:
    fields: dict[str, Any] = render.plain(row)
    del fields["scope"]
    return {**fields, "next_tick": upcoming(row, workspace.clock.now())}


def _plain_explained(explained: ExplainedAsset, workspace: Workspace) -> dict[str, Any]:
    partitions = [render.plain(each) for each in explained.partitions]
    return {**_plain(explained.automation, workspace), "partitions": partitions}
