"""`servo status`, `servo logs` and `servo assets`: shortcuts for frequent questions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Any

import typer

from arco.cli import deferral
from arco.cli.options import LineLimit, Partition, argument, command, flag, option

if deferral.LOADED:
    from rich.text import Text

    from arco.answers.asset_health import HealthReader
    from arco.answers.overview import WorkspaceOverview, overview
    from arco.app import Workspace
    from arco.catalog.tables import ASSETS, AssetRow
    from arco.cli import render, run_display
    from arco.cli.live import partition_text, run_state
    from arco.cli.run_logs import show_logs
    from arco.cli.session import Session
    from arco.cli.short_ids import shorts
    from arco.errors import Error, Invalid, NotFound
    from arco.orchestration.reader import OrchestrationReader
    from arco.orchestration.tables import RunRow
    from arco.storage.outage import Outage
    from servo.suggest import did_you_mean

SHOWN = 10
"""Lines of each part, unless --limit says otherwise."""
JUDGED_S = 15.0
"""Interval of updates for what depends on the time."""
HEALTH_STYLES = {"UNHEALTHY": "bold red", "WARNING": "yellow", "HEALTHY": "green"}


def register(app: typer.Typer) -> None:
    command(app, "status", example="servo status\nservo status --watch", takes=["at"])(status)
    command(
        app,
        "logs",
        example="servo logs\nservo logs shop.orders --follow\nservo logs 01K9ZQ3F7M shop.orders",
    )(logs)
    command(app, "assets", example="servo assets\nservo assets 'shop.*'", takes=["at"])(assets)


# -- what needs attention -------------------------------------------------------------------


def status(
    session: Session,
    watch: Annotated[bool, flag("--watch", "Print the status again whenever it changes.")] = False,
    interval: Annotated[
        float, option("S", "With --watch: seconds between reads of the store.", min=0.1)
    ] = 2.0,
    limit: Annotated[int, option("N", "Show at most N lines per section.", min=1)] = SHOWN,
) -> None:
    """Show what failed, is stale, is running, or waits for a decision.

    The next ticks of schedules are shown too. With --json, lists are complete. With --watch and
    --json, each change is one line of JSON.
    """
    workspace = session.open()
    if watch:
        if session.at() is not None:
            raise Invalid(
                "--watch shows the newest generation", hint="leave out --watch or --generation"
            )
        _watch(session, workspace, interval, limit)
        return
    at = session.at()
    snapshot = workspace.read.snapshot(at)
    now = workspace.clock.now() if at is None else snapshot.published_at
    report = overview(snapshot, now)
    if session.json:
        render.document(_document(report))
    else:
        _show(report, limit)


def _watch(session: Session, workspace: Workspace, interval: float, limit: int) -> None:
    """Until Ctrl-C. While the store fails, the last state stays on the screen."""
    generation, judged_at = -1, float("-inf")
    printed: dict[str, Any] = {}
    outage = Outage(workspace.clock, "status")
    while True:
        pause_s = interval
        try:
            snapshot = workspace.read.snapshot()
            monotonic = workspace.clock.monotonic()
            if snapshot.generation != generation or monotonic - judged_at >= JUDGED_S:
                report = overview(snapshot, workspace.clock.now())
                generation, judged_at = snapshot.generation, monotonic
                document = render.plain(_document(report))
                content = {k: v for k, v in document.items() if k not in ("generation", "at")}
                if content != printed:
                    printed = content
                    _show_again(session, report, limit)
            outage.passed()
        except Error as error:
            pause_s = max(interval, outage.failed(error))
        workspace.clock.sleep(pause_s)


def _show_again(session: Session, report: WorkspaceOverview, limit: int) -> None:
    if session.json:
        render.line(_document(report))
        return
    if render.console().is_terminal:
        render.console().clear()
    else:
        render.say("")
    _show(report, limit)


def _document(report: WorkspaceOverview) -> dict[str, Any]:
    running = [run_display.plain_run(row) for row in report.running]
    return {**render.plain(report), "running": running}


def _show(report: WorkspaceOverview, limit: int) -> None:
    assets = render.count(report.assets, "asset")
    render.say(f"{assets}, generation {report.generation}, {render.cell(report.at)}", "dim")
    if report.paused is not None:
        reason = f": {report.paused.reason}" if report.paused.reason else ""
        render.say(
            f"dispatch is paused by {report.paused.by}{reason}; see `servo resume`", "bold yellow"
        )
    if not report.assets and not report.running:
        render.say("nothing is deployed; run `servo deploy`, or `servo init` for a new project")
    _show_failed(report, limit)
    _show_stale(report, limit)
    _show_held(report, limit)
    _show_running(report, limit)
    _show_next(report, limit)


def _show_failed(report: WorkspaceOverview, limit: int) -> None:
    total = len(report.failed) + len(report.sensors)
    if not total:
        render.say("failed: none", "green")
        return
    names = shorts(each.run_id for each in report.failed)
    lines = [
        (
            each.asset,
            partition_text(each.partition) or None,
            names[each.run_id],
            each.failed_at,
            each.message.split("\n")[0][:300] or each.error_code,
        )
        for each in report.failed[:limit]
    ]
    title = f"failed: {render.count(len(report.failed), 'asset')}"
    if lines:
        headers = ("asset", "partition", "run", "when", "why")
        render.show_table(headers, lines, whole=("asset", "run", "when"), title=title)
        _more(len(report.failed), limit, "servo health")
    for sensor in report.sensors[:limit]:
        failures = render.count(sensor.failures, "evaluation")
        render.say(f"sensor {sensor.sensor} failed: {failures} in a row: {sensor.message}", "red")
    render.say("see `servo logs ASSET` and `servo explain ASSET`", "dim")


def _show_stale(report: WorkspaceOverview, limit: int) -> None:
    if not report.stale:
        render.say("stale: none", "green")
        return
    lines = [
        (each.asset, partition_text(each.partition) or None, each.due_at, each.reason)
        for each in report.stale[:limit]
    ]
    title = f"stale: {len(report.stale):,}"
    headers = ("asset", "partition", "due", "why")
    render.show_table(headers, lines, whole=("asset", "due"), title=title)
    _more(len(report.stale), limit, "servo freshness --stale")


def _show_held(report: WorkspaceOverview, limit: int) -> None:
    if not report.held:
        render.say("waiting for a decision: none", "green")
        return
    names = shorts(each.materialization_id for each in report.held)
    lines = [
        (
            names[each.materialization_id],
            each.asset_key,
            partition_text(each.partition_key) or None,
            each.held_at,
            each.reason,
        )
        for each in report.held[:limit]
    ]
    title = f"waiting for a decision: {render.count(len(report.held), 'output')} in quarantine"
    headers = ("id", "asset", "partition", "held", "why")
    render.show_table(headers, lines, whole=("id", "asset", "held"), title=title)
    _more(len(report.held), limit, "servo quarantine list")
    render.say("see `servo quarantine show ID`, then approve or reject it", "dim")


def _show_running(report: WorkspaceOverview, limit: int) -> None:
    if not report.running:
        render.say("running: none")
    else:
        names = shorts(row.run_id for row in report.running)
        lines = [
            (
                names[row.run_id],
                run_state(row),
                f"{row.tasks_done:,}/{row.tasks_total:,}",
                row.created_at,
                run_display.requested(row),
            )
            for row in report.running[:limit]
        ]
        headers = ("run", "state", "tasks", "created", "what")
        title = f"running: {render.count(len(report.running), 'run')}"
        render.show_table(headers, lines, right=["tasks"], whole=("run", "created"), title=title)
        _more(len(report.running), limit, "servo runs list")
    if report.requested:
        requests = render.count(report.requested, "request")
        render.say(f"{requests} for runs not planned yet; see `servo requests list`", "yellow")


def _show_next(report: WorkspaceOverview, limit: int) -> None:
    if not report.next:
        render.say("next: no schedule")
        return
    lines = [(each.at, each.schedule, " ".join(each.selection)) for each in report.next[:limit]]
    headers = ("at", "schedule", "what")
    render.show_table(headers, lines, whole=("at", "schedule"), title="next")
    _more(len(report.next), limit, "servo schedules list")


def _more(total: int, limit: int, where: str) -> None:
    if total > limit:
        render.note(f"{total - limit:,} more; see `{where}`")


# -- logs -----------------------------------------------------------------------------------


def logs(
    session: Session,
    run: Annotated[
        str | None,
        argument("RUN", "The run's id or first characters, or an asset; default: the newest run."),
    ] = None,
    asset: Annotated[str | None, argument("ASSET", "Only this asset, or this task's id.")] = None,
    partition: Partition = None,
    attempt: Annotated[int | None, option("N", "Only this attempt.", min=1)] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Show new lines until the run has ended.")
    ] = False,
) -> None:
    """Show the logs of the newest run.

    RUN selects another run. With only an asset, its newest run is shown. The same as `servo runs
    logs`.
    """
    workspace = session.open()
    if run is not None and "." in run:  # an id has no dot, and a key has one
        if asset is not None:
            raise Invalid(f"{run!r} is not a run", hint="write servo logs RUN ASSET")
        run, asset = None, run
    reader = workspace.read.orchestration()
    row = _newest_run(reader, run, asset)
    if not session.json:
        render.say(f"run {row.run_id} {run_state(row).plain}, {render.cell(row.created_at)}", "dim")
    show_logs(session, workspace, reader, row, asset, partition, attempt, follow=follow)


def _newest_run(reader: OrchestrationReader, run: str | None, asset: str | None) -> RunRow:
    if run is not None:
        return reader.find_run(run)
    key = (asset or "").partition("[")[0]
    rows = reader.runs(limit=1, asset_key=key).rows
    if not rows:
        of = f" of {key}" if key else ""
        raise NotFound(f"there are no runs{of}", hint="start one with `servo run`")
    return rows[0]


# -- assets ---------------------------------------------------------------------------------


def assets(
    session: Session,
    pattern: Annotated[
        str | None, argument("PATTERN", "A part of the name, or a pattern: 'shop.*'.")
    ] = None,
    limit: LineLimit = 100,
) -> None:
    """List assets with their health and newest data.

    Assets are sorted by name. `servo catalog asset show` shows one asset; `servo search` finds
    assets by columns, owners and tags.
    """
    workspace = session.open()
    at = session.at()
    snapshot = workspace.read.snapshot(at)
    everything = {f"{row.namespace}.{row.name}": row for row in snapshot.all(ASSETS)}
    keys = sorted(key for key in everything if _matches(key, pattern))
    page = {key: everything[key] for key in keys[:limit]}
    now = workspace.clock.now() if at is None else snapshot.published_at
    healths = HealthReader(snapshot, now).all({key: row.asset_id for key, row in page.items()})
    entries = [_asset_entry(page[each.asset], each) for each in healths]
    if session.json:
        render.document({"generation": snapshot.generation, "total": len(keys), "assets": entries})
        return
    if not entries:
        hint = did_you_mean(pattern or "", everything)
        what = f"no asset matches {pattern!r}" if pattern else "there are no assets"
        render.say(f"{what}; {hint}" if hint and pattern else what)
        return
    headers = ("asset", "health", "materialized", "project", "owners")
    render.show_table(headers, map(_asset_line, entries), whole=("asset", "materialized"))
    if len(keys) > limit:
        render.note(f"{len(keys) - limit:,} more; see PATTERN and --limit")


def _matches(key: str, pattern: str | None) -> bool:
    if pattern is None:
        return True
    text = pattern.lower()
    return fnmatchcase(key, text) if set("*?[") & set(text) else text in key


def _asset_entry(row: AssetRow, health: Any) -> dict[str, Any]:
    return {
        "asset": health.asset,
        "asset_id": row.asset_id,
        "kind": row.kind,
        "project": row.project or row.imported_from or None,
        "active": row.active,
        "owners": row.owners,
        "tags": row.tags,
        "description": row.description,
        "deprecated": row.deprecated or None,
        "health": health.status,
        "reasons": health.reasons,
        "materialized_at": health.freshness.last_materialized_at,
    }


def _asset_line(entry: dict[str, Any]) -> Sequence[object]:
    status = entry["health"] if entry["active"] else "removed"
    deprecated = " (deprecated)" if entry["deprecated"] else ""
    return (
        f"{entry['asset']}{deprecated}",
        Text(status, HEALTH_STYLES.get(status, "dim")),
        entry["materialized_at"],
        entry["project"],
        ", ".join(_texts(entry["owners"])) or None,
    )


def _texts(values: Iterable[object]) -> list[str]:
    return [str(value) for value in values]
