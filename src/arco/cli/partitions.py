"""`servo partitions`: how an asset's partitions are doing, and keys of dynamic dimensions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from arco.cli.options import command, group
from arco.cli.session import Session
from arco.errors import NotFound

if TYPE_CHECKING:
    from rich.text import Text

    from arco.execution.tables import PartitionRow, PartitionStatusRow
    from arco.state.snapshot import Snapshot

app = group("partitions", "Partitions: how they are doing; keys of dynamic dimensions.")

Set = Annotated[str, typer.Argument(metavar="SET", help="The name of the set of keys.")]
Keys = Annotated[list[str], typer.Argument(metavar="KEY...", help="The keys.")]


@command(app, "add", example="servo partitions add customers acme globex", takes=["actor"])
def add(session: Session, keys: Set, key: Keys) -> None:
    """Add keys to a set. Those it has stay as they are."""
    session.open().orchestration.change_partition_keys(keys, add=key)
    _answer(session, keys)


@command(app, "remove", example="servo partitions remove customers globex", takes=["actor"])
def remove(session: Session, keys: Set, key: Keys) -> None:
    """Take keys from a set. What was materialized for them stays."""
    session.open().orchestration.change_partition_keys(keys, remove=key)
    _answer(session, keys)


@command(app, "list", example="servo partitions list customers", takes=["at"])
def list_(session: Session, keys: Set) -> None:
    """List the keys of a set."""
    _answer(session, keys)


@command(app, "status", example="servo partitions status shop.orders", takes=["at"])
def status(
    session: Session,
    asset: Annotated[str, typer.Argument(metavar="ASSET", help="namespace.asset")],
) -> None:
    """Show how each partition of an asset is doing.

    The status is that of the last attempt to make it: GOOD, WARNED, QUARANTINED, BLOCKED,
    REJECTED or FAILED. The version is the current one, which may be older.
    """
    from arco.cli import render
    from arco.execution.reader import ExecutionReader

    snapshot = session.open().snapshot(session.at())
    id = _asset_id(snapshot, asset)
    reader = ExecutionReader(snapshot)
    current = {row.partition_key: row for row in reader.partitions(id)}
    found = [(row, current.get(row.partition_key)) for row in reader.status(id)]
    if session.json:
        rows = [_plain(row, version) for row, version in found]
        render.document({"generation": snapshot.generation, "asset": asset, "partitions": rows})
    elif not found:
        render.say(f"{asset} was never materialized")
    else:
        headers = ("partition", "status", "version", "rows", "size", "when")
        shown = [_shown(row, version) for row, version in found]
        render.show(render.table(headers, shown, right=["rows", "size"], whole=headers))
        for row, _ in found:
            if row.message:
                render.say(f"\n{_partition(row)}: {row.message}")


def _asset_id(snapshot: Snapshot, asset: str) -> str:
    from arco.orchestration.reader import OrchestrationReader
    from servo.suggest import did_you_mean

    deployed = OrchestrationReader(snapshot).deployed_assets()
    if asset not in deployed:
        hint = did_you_mean(asset, deployed) or "run `servo deploy`"
        raise NotFound(f"{asset} is not deployed", hint=hint)
    return deployed[asset].asset_id


def _plain(row: PartitionStatusRow, current: PartitionRow | None) -> dict[str, Any]:
    from arco.cli import render

    return {
        **render.plain(row),
        "version": None if current is None else current.version,
        "rows": None if current is None else current.rows,
        "bytes": None if current is None else current.bytes,
    }


def _shown(row: PartitionStatusRow, current: PartitionRow | None) -> tuple[object, ...]:
    from arco.cli import render
    from servo.contract.identity import version_label

    return (
        _partition(row),
        _status_text(row.status),
        None if current is None else version_label(current.version),
        None if current is None else current.rows,
        None if current is None else render.size(current.bytes),
        row.last_at,
    )


def _partition(row: PartitionStatusRow) -> str:
    from arco.cli.live import partition_text

    return partition_text(row.partition_key) or "(all)"


def _status_text(status: str) -> Text:
    from rich.text import Text

    styles = {"GOOD": "green", "WARNED": "yellow", "QUARANTINED": "yellow"}
    return Text(status, styles.get(status, "bold red"))


def _answer(session: Session, keys: str) -> None:
    from arco.cli import render
    from arco.orchestration.tables import DYNAMIC_KEYS

    rows = session.open().snapshot(session.at()).rows(DYNAMIC_KEYS, keys)
    if session.json:
        render.document({"keys": keys, "values": rows})
    elif not rows:
        render.say(f"{keys} has no keys")
    else:
        shown = [(row.key, row.added_at, row.added_by) for row in rows]
        render.show(render.table(("key", "added", "by"), shown))
