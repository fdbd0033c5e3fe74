"""`servo gc`: versions that nobody needs, and what attempts and runs left behind."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from arco.cli.failures import DIFFERENT
from arco.cli.options import command
from arco.cli.session import Session

if TYPE_CHECKING:
    from arco.execution.collect import DataGcReport

SHOWN = 40
_PLURALS = {"version": "files of versions", "leftover": "leftover files"}


def register(app: typer.Typer) -> None:
    example = "servo gc\nservo gc --apply --logs-days 7"
    command(app, "gc", example=example, takes=["actor"])(gc)


def gc(
    session: Session,
    apply: Annotated[
        bool, typer.Option("--apply", help="Delete; without it, only show what would go.")
    ] = False,
    keep_days: Annotated[
        float,
        typer.Option(
            min=0, max=36_500, metavar="DAYS", help="Keep what was current in the last days."
        ),
    ] = 7.0,
    keep_at_least: Annotated[
        int, typer.Option(min=1, metavar="N", help="Keep so many generations, however old.")
    ] = 10,
    logs_days: Annotated[
        float, typer.Option(min=0, max=36_500, metavar="DAYS", help="Keep logs of runs so long.")
    ] = 30.0,
    plans_days: Annotated[
        float, typer.Option(min=0, max=36_500, metavar="DAYS", help="Keep plans of runs so long.")
    ] = 30.0,
    everything: Annotated[
        bool, typer.Option("--all", help=f"Name every version, not only {SHOWN}.")
    ] = False,
) -> None:
    """Remove data that nobody can read any more: superseded versions, leftovers, old logs.

    A good version goes when its asset's retention does not keep it; an asset that says
    nothing keeps all. Late and rejected ones go, undecided ones stay. Nothing goes that
    is current, now or in a generation that is kept or pinned, or that a run still reads.
    """
    from arco.cli import render
    from arco.cli.progress import progress
    from arco.execution.expiry import Kept
    from arco.state.gc import Retention

    kept = Kept(
        generations=Retention(timedelta(days=keep_days), keep_at_least),
        logs=timedelta(days=logs_days),
        plans=timedelta(days=plans_days),
    )
    workspace = session.open()
    with progress() as report:
        found = workspace.collect_data(kept, dry_run=not apply, progress=report)
    if session.json:
        kinds, assets = summed(found, "why"), summed(found, "asset")
        sums = {"bytes": found.bytes, "kinds": kinds, "assets": assets}
        render.document(render.plain(found) | sums)
    else:
        _show(found, everything)
    if found.failed:
        raise typer.Exit(DIFFERENT)


def summed(found: DataGcReport, by: str) -> list[dict[str, Any]]:
    """Files and bytes by `why` they go, or by `asset`."""
    sums: dict[str, dict[str, Any]] = {}
    for doomed in found.doomed:
        name = getattr(doomed, by)
        if name:
            line = sums.setdefault(name, {by: name, "count": 0, "bytes": 0})
            line["count"] += 1
            line["bytes"] += doomed.bytes
    return sorted(sums.values(), key=lambda line: (-line["bytes"], line[by]))


def _show(found: DataGcReport, everything: bool) -> None:
    from arco.cli import render

    if not found.given_up and not found.doomed and not found.failed:
        render.say("nothing to remove", "green")
        return
    _show_versions(found, everything)
    if found.doomed:
        _show_sums("what", _kinds(found))
    assets = [(line["asset"], line["count"], line["bytes"]) for line in summed(found, "asset")]
    if len(assets) > 1:
        _show_sums("asset", assets)
    total = (
        f"{render.count(len(found.given_up), 'version')}, "
        f"{render.count(len(found.doomed), 'file')}, {render.size(found.bytes)}"
    )
    if found.dry_run:
        render.say(f"would remove {total}")
        render.say("this was a dry run; --apply removes them")
    else:
        render.say(f"removed {total}")
    if found.failed:
        render.say(f"{found.failed:,} could not be removed; run it again", "bold red")


def _kinds(found: DataGcReport) -> list[tuple[str, int, int]]:
    lines = summed(found, "why")
    return [
        (_PLURALS.get(line["why"], f"{line['why']}s"), line["count"], line["bytes"])
        for line in lines
    ]


def _show_sums(what: str, lines: Iterable[tuple[str, int, int]]) -> None:
    from arco.cli import render

    shown = [(name, count, render.size(size)) for name, count, size in lines]
    render.show(render.table((what, "files", "bytes"), shown, right=("files", "bytes")))
    render.say("")


def _show_versions(found: DataGcReport, everything: bool) -> None:
    from arco.cli import render
    from arco.cli.live import partition_text

    if not found.given_up:
        return
    chosen = found.given_up if everything else found.given_up[:SHOWN]
    rows = [
        (
            given.asset,
            partition_text(given.partition) or None,
            given.version or given.status.lower(),
            render.size(given.bytes),
            given.reason,
        )
        for given in chosen
    ]
    headers = ("asset", "partition", "version", "bytes", "why")
    right = ("version", "bytes")
    render.show(render.table(headers, rows, right=right, whole=["asset", "partition"]))
    if len(found.given_up) > len(chosen):
        render.say(f"and {len(found.given_up) - len(chosen):,} more; see --all", "dim")
    render.say("")
