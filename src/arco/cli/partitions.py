"""`servo partitions`: state of partitions, and keys of dynamic dimensions."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from arco.cli import deferral
from arco.cli.options import command, group

if deferral.LOADED:
    from rich.text import Text

    from arco.cli import render
    from arco.cli.live import partition_text
    from arco.cli.session import Session
    from arco.cli.shorts import short, shorts
    from arco.execution.reader import ExecutionReader
    from arco.execution.tables import MaterializationRow, PartitionRow, PartitionStatusRow
    from arco.orchestration.reader import OrchestrationReader
    from arco.orchestration.tables import DYNAMIC_KEYS
    from servo.contract.identity import version_label

app = group("partitions", "Show the state of partitions; manage keys of dynamic ones.")

Set = Annotated[str, typer.Argument(metavar="SET", help="The name of the set of keys.")]
Asset = Annotated[str, typer.Argument(metavar="ASSET", help="The asset: namespace.name.")]
Keys = Annotated[list[str], typer.Argument(metavar="KEY", help="The keys.")]


@command(app, "add", example="servo partitions add customers acme globex", takes=["actor"])
def add(session: Session, keys: Set, key: Keys) -> None:
    """Add keys to a set. Keys that it already has do not change."""
    session.open().commands.orchestration.change_partition_keys(keys, add=key)
    _answer(session, keys)


@command(app, "remove", example="servo partitions remove customers globex", takes=["actor"])
def remove(session: Session, keys: Set, key: Keys) -> None:
    """Remove keys from a set. Versions of their partitions stay."""
    session.open().commands.orchestration.change_partition_keys(keys, remove=key)
    _answer(session, keys)


@command(app, "list", example="servo partitions list customers", takes=["at"])
def list_(session: Session, keys: Set) -> None:
    """List the keys of a set."""
    _answer(session, keys)


@command(app, "status", example="servo partitions status shop.orders", takes=["at"])
def status(session: Session, asset: Asset) -> None:
    """Show the status of each partition of an asset.

    The status is that of the last task: GOOD, WARNED, QUARANTINED, BLOCKED, REJECTED or
    FAILED. The version is the current one, which may be older.
    """
    snapshot = session.open().read.snapshot(session.at())
    id = OrchestrationReader(snapshot).asset_id(asset)
    reader = ExecutionReader(snapshot)
    current = {row.partition_key: row for row in reader.partitions(id)}
    pairs = [(row, current.get(row.partition_key)) for row in reader.status(id)]
    if session.json:
        rows = [_plain(row, version) for row, version in pairs]
        render.document({"generation": snapshot.generation, "asset": asset, "partitions": rows})
    elif not pairs:
        render.say(f"{asset} has no versions yet")
    else:
        headers = ("partition", "status", "version", "rows", "size", "when")
        lines = [_shown(row, version) for row, version in pairs]
        whole = ("status", "version", "when")
        render.show(render.table(headers, lines, right=["rows", "size"], whole=whole))
        for row, _ in pairs:
            if row.message:
                render.say(f"\n{_partition(row)}: {row.message}")


@command(
    app,
    "versions",
    example="servo partitions versions shop.orders -p date=2026-01-31",
    takes=["at"],
)
def versions(
    session: Session,
    asset: Asset,
    partition: Annotated[
        str | None, typer.Option("--partition", "-p", metavar="KEY", help="Only this partition.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="Show at most N.")] = 20,
) -> None:
    """List all versions of an asset's partitions, newest first.

    The files of an EXPIRED version may have been deleted by `servo gc`.
    """
    snapshot = session.open().read.snapshot(session.at())
    id = OrchestrationReader(snapshot).asset_id(asset)
    rows = ExecutionReader(snapshot).versions(
        id, matches=lambda row: _is_wanted(row.partition_key, partition), limit=limit + 1
    )
    if session.json:
        document = {"generation": snapshot.generation, "asset": asset, "versions": rows[:limit]}
        render.document(document)
        return
    if not rows:
        render.say(f"{asset} has no matching versions")
        return
    _show_versions(rows[:limit])
    if len(rows) > limit:
        render.note("there are older versions; see --limit")


def _is_wanted(key: str, partition: str | None) -> bool:
    text = partition_text(key)
    return partition is None or partition in (key, text, *text.split(","))


def _show_versions(rows: list[MaterializationRow]) -> None:
    names = shorts(row.materialization_id for row in rows)
    lines = [
        (
            names[row.materialization_id],
            partition_text(row.partition_key) or "(all)",
            version_label(row.version) if row.version else None,
            _status_text(row.status),
            row.rows,
            render.size(row.bytes),
            row.created_at,
            row.superseded_at,
            short(row.run_id),
        )
        for row in rows
    ]
    headers = ("id", "partition", "version", "status", "rows", "size", "made", "until", "run")
    whole = ("id", "version", "status", "made", "until", "run")
    render.show(render.table(headers, lines, right=["rows", "size"], whole=whole))


def _plain(row: PartitionStatusRow, current: PartitionRow | None) -> dict[str, Any]:
    return {
        **render.plain(row),
        "version": None if current is None else current.version,
        "rows": None if current is None else current.rows,
        "bytes": None if current is None else current.bytes,
    }


def _shown(row: PartitionStatusRow, current: PartitionRow | None) -> tuple[object, ...]:
    return (
        _partition(row),
        _status_text(row.status),
        None if current is None else version_label(current.version),
        None if current is None else current.rows,
        None if current is None else render.size(current.bytes),
        row.last_at,
    )


def _partition(row: PartitionStatusRow) -> str:
    return partition_text(row.partition_key) or "(all)"


def _status_text(status: str) -> Text:
    styles = {"GOOD": "green", "WARNED": "yellow", "QUARANTINED": "yellow"}
    return Text(status, styles.get(status, "bold red"))


def _answer(session: Session, keys: str) -> None:
    rows = session.open().read.snapshot(session.at()).rows(DYNAMIC_KEYS, keys)
    if session.json:
        render.document({"keys": keys, "values": rows})
    elif not rows:
        render.say(f"{keys} has no keys")
    else:
        lines = [(row.key, row.added_at, row.added_by) for row in rows]
        render.show(render.table(("key", "added", "by"), lines))
