"""`servo freshness`: which data is fresh, which is stale, and why."""

from __future__ import annotations

from itertools import islice
from typing import Annotated

import typer

from arco.cli import deferral
from arco.cli.options import LineLimit, argument, command, flag

if deferral.LOADED:
    from rich.text import Text

    from arco.automation.freshness_reader import FreshnessReader, SeriesFreshness
    from arco.automation.freshness_tables import FreshnessStatus
    from arco.cli import render
    from arco.cli.deprecated import note_deprecated
    from arco.cli.live import partition_text
    from arco.cli.session import Session
    from arco.orchestration.reader import OrchestrationReader
    from arco.orchestration.selection import Graph, select
    from arco.orchestration.world import World


def register(app: typer.Typer) -> None:
    example = "servo freshness\nservo freshness shop.orders+ --stale"
    command(app, "freshness", example=example, takes=["at"])(freshness)


def freshness(
    session: Session,
    selection: Annotated[
        list[str] | None, argument("SELECTION", "Assets, as in `servo run`; all by default.")
    ] = None,
    stale: Annotated[bool, flag("--stale", "Only stale ones.")] = False,
    limit: LineLimit = 100,
) -> None:
    """Show the status of assets with a freshness policy.

    An asset with a time dimension is STALE when the newest due period is missing. Any other is
    STALE when its version is too old; each of its partitions is shown.
    """
    workspace = session.open()
    at = session.at()
    snapshot = workspace.read.snapshot(at)
    reader = FreshnessReader(snapshot)
    now = workspace.clock.now() if at is None else snapshot.published_at
    keys = {policy.asset_key for policy in reader.policies()}
    if selection:
        world = World.of(OrchestrationReader(snapshot), workspace.library)
        keys &= set(select(Graph(world.manifest), selection))
    lines = (
        line
        for line in reader.series(keys, now)
        if not stale or line.status == FreshnessStatus.STALE
    )
    chosen = list(islice(lines, limit + 1))
    if session.json:
        render.document(
            {
                "generation": snapshot.generation,
                "at": now,
                "freshness": chosen[:limit],
                "more": len(chosen) > limit,
            }
        )
        return
    if not chosen:
        render.say(_nothing(keys, stale=stale))
        return
    headers = ("asset", "partition", "status", "materialized", "due", "reason")
    rows = map(_line, chosen[:limit])
    render.show_table(headers, rows, whole=("status", "materialized", "due"))
    note_deprecated(snapshot, [entry.asset for entry in chosen[:limit]])
    if len(chosen) > limit:
        render.note("there are more; see --limit, --stale and SELECTION")


def _nothing(keys: set[str], *, stale: bool) -> str:
    if not keys:
        return "no such asset has a freshness policy; declare one with freshness=Freshness(…)"
    return "nothing is stale" if stale else "there are no partitions to check yet"


def _line(entry: SeriesFreshness) -> tuple[object, ...]:
    is_stale = entry.status == FreshnessStatus.STALE
    return (
        entry.asset,
        partition_text(entry.partition) or None,
        Text(entry.status, "bold red" if is_stale else "green"),
        entry.materialized_at,
        entry.due_at,
        entry.reason if is_stale or entry.materialized_at is None else None,
    )
