"""`servo show`: rows of a version, in the terminal."""

from __future__ import annotations

from typing import Annotated

import typer

from arco.cli import deferral
from arco.cli.options import OnePartition, argument, command, option
from arco.cli.version_history import Reveal, Version

if deferral.LOADED:
    from arco.answers.version_data import first_rows
    from arco.cli import render, sqltable
    from arco.cli.session import Session
    from arco.cli.version_history import hidden_columns
    from arco.execution.states import VersionStatus
    from arco.execution.version_lookup import VersionLookup
    from arco.orchestration.reader import OrchestrationReader
    from arco.remote.data_answers import RemoteAsset, remote_rows


def register(app: typer.Typer) -> None:
    command(
        app,
        "show",
        example="servo show shop.orders\n"
        "servo show shop.orders -p date=2026-01-31 --columns id,amount --limit 5\n"
        "servo show shop.orders -p date=2026-01-31 --version 3",
        takes=["at"],
    )(show)


def show(
    session: Session,
    asset: Annotated[str, argument("ASSET", "The asset: namespace.name.")],
    partition: OnePartition = None,
    version: Version = None,
    limit: Annotated[int, option("N", "Show at most N rows.", min=1, max=10_000)] = 20,
    columns: Annotated[
        list[str] | None, option("NAME,…", "Only these columns, in this order.")
    ] = None,
    reveal: Reveal = False,
) -> None:
    """Show the first rows of an asset's partition.

    The default is the partition that was written last. Only the beginning of the shown columns is
    read. Values of personal and restricted columns are masked, unless --reveal is given. With
    --as-of, --as-of-run or --generation: the version that was current then.
    """
    workspace = session.open()
    snapshot = workspace.read.snapshot(session.at())
    id = OrchestrationReader(snapshot).asset_id(asset)
    lookup = VersionLookup(snapshot, asset, id)
    row = lookup.version(partition or (), version)
    if session.api:
        remote = RemoteAsset(workspace, asset, snapshot.generation)
        rows = remote_rows(remote, row, limit, columns or (), reveal=reveal)
    else:
        hidden = hidden_columns(session, workspace, snapshot, id, reveal)
        rows = first_rows(workspace.store, row, limit, columns or (), hidden)
    if session.json:
        render.document(
            {
                "generation": snapshot.generation,
                "asset": asset,
                "partition": row.partition_key,
                "version": row.version,
                "materialization_id": row.materialization_id,
                "status": row.status,
                **sqltable.plain(rows.table),
                "masked": rows.masked,
                "total_rows": row.rows,
            }
        )
        return
    fitted = sqltable.fitted(rows.table, render.width())
    render.show(fitted.body)
    count = render.count(rows.table.num_rows, "row")
    number = f"version {row.version}" if row.version else f"version {row.materialization_id}"
    render.note(f"{count} of {row.rows:,} of {lookup.name(row.partition_key)}, {number}")
    if row.status != VersionStatus.GOOD:
        render.note(f"this version is {row.status}: {row.reason}")
    if rows.masked:
        render.note(f"masked: {', '.join(rows.masked)}; see --reveal")
    if fitted.cut:
        render.note("values were cut; see --wide or --json")
