"""`servo gc`: deletes old versions, leftover files, logs and plans."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Annotated, Any

import typer

from arco.cli import deferral
from arco.cli.options import command, days, flag, option

if deferral.LOADED:
    from arco.cli import render
    from arco.cli.exit_codes import DIFFERENT
    from arco.cli.live import partition_text
    from arco.cli.progress import progress
    from arco.cli.session import Session
    from arco.execution.collect import DataGcReport
    from arco.execution.expiry import KeepFor
    from arco.state.gc import GenerationRetention

SHOWN = 40
_PLURALS = {"version": "files of versions", "leftover": "leftover files"}


def register(app: typer.Typer) -> None:
    example = "servo gc\nservo gc --apply --logs-days 7"
    command(app, "gc", example=example, takes=["actor"])(gc)


def gc(
    session: Session,
    apply: Annotated[
        bool, flag("--apply", "Delete; without it, only show what would be deleted.")
    ] = False,
    keep_days: Annotated[
        float, days("Keep versions that were current within this many days.")
    ] = 1.0,
    hourly_days: Annotated[
        float, days("Keep versions that were current at the end of an hour, for this many days.")
    ] = 3.0,
    daily_days: Annotated[
        float, days("Keep versions that were current at the end of a day, for this many days.")
    ] = 30.0,
    keep_at_least: Annotated[
        int, option("N", "Minimum number of generations whose versions are kept.", min=1)
    ] = 10,
    logs_days: Annotated[float, days("Keep logs of runs for this many days.")] = 30.0,
    plans_days: Annotated[float, days("Keep plans of runs for this many days.")] = 30.0,
    everything: Annotated[bool, flag("--all", f"List every version, not only {SHOWN}.")] = False,
) -> None:
    """Delete old versions, leftover files, logs and plans.

    A good version is deleted when its asset's retention does not keep it; an asset without
    retention keeps all. Late and rejected versions are deleted, held ones are kept. A
    version is always kept while it is current, now or in a kept or pinned generation, or
    while a run reads it.
    """
    keep = KeepFor(
        generations=GenerationRetention.of_days(keep_days, hourly_days, daily_days, keep_at_least),
        logs=timedelta(days=logs_days),
        plans=timedelta(days=plans_days),
    )
    workspace = session.open()
    with progress() as report:
        result = workspace.upkeep.collect_data(keep, dry_run=not apply, progress=report)
    if session.json:
        kinds, assets = summed_by(result, "why"), summed_by(result, "asset")
        files = {"given_up": result.expired, "doomed": result.deletable, "failed": result.failed}
        sums = {"bytes": result.bytes, "kinds": kinds, "assets": assets}
        render.document(render.picked(result, "dry_run", "floor", "head") | files | sums)
    else:
        _show(result, everything)
    if result.failed:
        raise typer.Exit(DIFFERENT)


def summed(files: Iterable[tuple[str, int]]) -> dict[str, tuple[int, int]]:
    """How many files there are of each kind, and their bytes."""
    sums: dict[str, tuple[int, int]] = {}
    for kind, size in files:
        count, total = sums.get(kind, (0, 0))
        sums[kind] = (count + 1, total + size)
    return sums


def summed_by(result: DataGcReport, by: str) -> list[dict[str, Any]]:
    """Files and bytes by reason (`why`), or by `asset`."""
    sums = summed((name, d.bytes) for d in result.deletable if (name := getattr(d, by)))
    lines = [{by: name, "count": n, "bytes": size} for name, (n, size) in sums.items()]
    return sorted(lines, key=lambda line: (-line["bytes"], line[by]))


def _show(result: DataGcReport, everything: bool) -> None:
    if not result.expired and not result.deletable and not result.failed:
        render.say("nothing to remove", "green")
        return
    _show_versions(result, everything)
    if result.deletable:
        _show_sums("what", _kinds(result))
    assets = [(line["asset"], line["count"], line["bytes"]) for line in summed_by(result, "asset")]
    if len(assets) > 1:
        _show_sums("asset", assets)
    total = (
        f"{render.count(len(result.expired), 'version')}, "
        f"{render.count(len(result.deletable), 'file')}, {render.size(result.bytes)}"
    )
    if result.dry_run:
        render.say(f"would remove {total}")
        render.say("this was a dry run; run with --apply to delete them")
    else:
        render.say(f"removed {total}")
    if result.failed:
        render.say(f"{result.failed:,} could not be deleted; run it again", "bold red")


def _kinds(result: DataGcReport) -> list[tuple[str, int, int]]:
    return [
        (_PLURALS.get(line["why"], f"{line['why']}s"), line["count"], line["bytes"])
        for line in summed_by(result, "why")
    ]


def _show_sums(what: str, lines: Iterable[tuple[str, int, int]]) -> None:
    rows = [(name, count, render.size(size)) for name, count, size in lines]
    render.show_table((what, "files", "bytes"), rows, right=("files", "bytes"))
    render.say("")


def _show_versions(result: DataGcReport, everything: bool) -> None:
    if not result.expired:
        return
    chosen = result.expired if everything else result.expired[:SHOWN]
    rows = [
        (
            expired.asset,
            partition_text(expired.partition) or None,
            expired.version or expired.status.lower(),
            render.size(expired.bytes),
            expired.reason,
        )
        for expired in chosen
    ]
    headers = ("asset", "partition", "version", "bytes", "why")
    right = ("version", "bytes")
    render.show_table(headers, rows, right=right, whole=["asset", "partition"])
    if len(result.expired) > len(chosen):
        render.say(f"and {len(result.expired) - len(chosen):,} more; see --all", "dim")
    render.say("")
