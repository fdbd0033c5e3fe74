"""`servo runs outputs`: the versions that a run wrote."""

from __future__ import annotations

from typing import Annotated

import typer

from arco.cli import deferral
from arco.cli.options import Limit, argument, command, flag

if deferral.LOADED:
    from arco.cli import render
    from arco.cli.live import partition_text
    from arco.cli.partitions import state_text
    from arco.cli.session import Session
    from arco.cli.short_ids import shorts
    from arco.orchestration.reader import OrchestrationReader
    from arco.orchestration.run_outputs import run_outputs
    from servo.contract.identity import version_label


def register(runs: typer.Typer) -> None:
    command(
        runs,
        "outputs",
        example="servo runs outputs 01K…\nservo runs outputs 01K… --reused --json",
        takes=["at"],
    )(outputs)


def outputs(
    session: Session,
    run: Annotated[str, argument("RUN", "The run's id, or its first characters.")],
    reused: Annotated[
        bool, flag("--reused", "Include versions that were up to date and reused.")
    ] = False,
    limit: Limit = 100,
) -> None:
    """List the versions that a run wrote, with their status."""
    snapshot = session.open().read.snapshot(session.at())
    row = OrchestrationReader(snapshot).find_run(run)
    listed = run_outputs(snapshot, row.run_id, reused=reused, limit=limit)
    if session.json:
        render.document(
            {
                "generation": snapshot.generation,
                "run_id": row.run_id,
                "materializations": [
                    {**render.plain(each.version), "asset": each.asset, "reused": each.reused}
                    for each in listed.outputs
                ],
                "total": listed.total,
            }
        )
        return
    if not listed.outputs:
        render.say(f"run {row.run_id} has written no versions")
        return
    names = shorts(each.version.materialization_id for each in listed.outputs)
    lines = [
        (
            names[each.version.materialization_id],
            each.asset,
            partition_text(each.version.partition_key) or None,
            version_label(each.version.version) if each.version.version else None,
            state_text(each.version.status),
            each.version.rows,
            render.size(each.version.bytes),
        )
        for each in listed.outputs
    ]
    headers = ("id", "asset", "partition", "version", "status", "rows", "size")
    whole = ("id", "version", "status")
    render.show_table(headers, lines, right=["rows", "size"], whole=whole)
    if listed.total > len(listed.outputs):
        render.note(f"these are {len(listed.outputs):,} of {listed.total:,}; see --limit")
