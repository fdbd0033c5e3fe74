"""`servo partitions history` and `servo partitions files`: history and files of versions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import typer

from arco.cli import deferral
from arco.cli.options import Limit, OnePartition, command, flag, option
from arco.cli.partitions import Asset

if deferral.LOADED:
    from arco.answers.version_data import FileEntry, files_of, personal_columns
    from arco.app import Workspace
    from arco.cli import render
    from arco.cli.ingest import show_reports
    from arco.cli.live import partition_text
    from arco.cli.partitions import state_text
    from arco.cli.session import Session
    from arco.cli.short_ids import short, shorts
    from arco.execution.reader import ExecutionReader
    from arco.execution.tables import MaterializationRow, QuarantineRow
    from arco.execution.version_lookup import VersionLookup
    from arco.ingest.reader import IngestReader
    from arco.orchestration.catalog_names import asset_id_of
    from arco.orchestration.reader import OrchestrationReader
    from arco.remote.data_answers import RemoteAsset, remote_files
    from arco.state.snapshot import Snapshot
    from arco.times import short as short_time
    from servo.contract.identity import version_label

Version = Annotated[
    str | None, option("N|ID", "The version's number or id; the current one by default.")
]
Reveal = Annotated[bool, flag("--reveal", "Show values of personal and restricted columns.")]


def register(partitions: typer.Typer) -> None:
    command(
        partitions,
        "history",
        example="servo partitions history shop.orders -p date=2026-01-31",
        takes=["at"],
    )(history)
    command(
        partitions,
        "files",
        example="servo partitions files shop.orders -p date=2026-01-31 --version 3",
        takes=["at"],
    )(files)


class _HistoryEntry(NamedTuple):
    row: MaterializationRow
    is_current: bool
    before: MaterializationRow | None
    """The good version before it, if it is in the list."""
    hold: QuarantineRow | None

    @property
    def rows_change(self) -> int | None:
        return None if self.before is None else self.row.rows - self.before.rows

    @property
    def schema_changed(self) -> bool | None:
        return None if self.before is None else self.row.schema_hash != self.before.schema_hash

    def plain(self) -> dict[str, Any]:
        return {
            **render.plain(self.row),
            "is_current": self.is_current,
            "rows_change": self.rows_change,
            "schema_changed": self.schema_changed,
            "hold": self.hold,
        }


def history(
    session: Session, asset: Asset, partition: OnePartition = None, limit: Limit = 20
) -> None:
    """Show the history of versions, newest first.

    For each version: the change in rows and schema since the previous good version, when it was
    current, and who held, released, approved or rejected it and why. Decisions are shown for 30
    days.
    """
    snapshot = session.open().read.snapshot(session.at())
    id = asset_id_of(snapshot, asset)
    reader = ExecutionReader(snapshot)
    chosen = VersionLookup(snapshot, asset, id).partitions(partition) if partition else None
    rows = reader.versions(
        id,
        partition=chosen[0] if chosen and len(chosen) == 1 else None,
        matches=lambda row: chosen is None or row.partition_key in chosen,
        limit=limit + 1,
    )
    holds = {row.materialization_id: row for row in reader.holds(id)}
    keys = {row.partition_key for row in rows}
    partitions = (reader.partition(id, key) for key in keys)
    current = {each.materialization_id for each in partitions if each is not None}
    entries = [
        _HistoryEntry(
            row,
            row.materialization_id in current,
            _good_before(row, rows[at + 1 :]),
            holds.get(row.materialization_id),
        )
        for at, row in enumerate(rows[:limit])
    ]
    reports = [
        row
        for row in IngestReader(snapshot).outputs(id)[:limit]
        if chosen is None or row.partition_key in chosen
    ]
    if session.json:
        render.document(
            {
                "generation": snapshot.generation,
                "asset": asset,
                "versions": [entry.plain() for entry in entries],
                "more": len(rows) > limit,
                "reported": reports,
            }
        )
        return
    if not entries and not reports:
        render.say(f"{asset} has no matching versions")
        return
    if entries:
        _show_history(entries)
    if reports:
        render.show_title("written elsewhere")
        show_reports(reports)
    if len(rows) > limit:
        render.note("there are older versions; see --limit")


def _good_before(
    row: MaterializationRow, older: Sequence[MaterializationRow]
) -> MaterializationRow | None:
    same = (each for each in older if each.partition_key == row.partition_key and each.version)
    return next(same, None)


def _show_history(entries: Sequence[_HistoryEntry]) -> None:
    names = shorts(entry.row.materialization_id for entry in entries)
    lines = []
    for entry in entries:
        row = entry.row
        change = entry.rows_change
        lines.append(
            (
                names[row.materialization_id],
                partition_text(row.partition_key) or "(all)",
                version_label(row.version) if row.version else None,
                state_text("CURRENT" if entry.is_current else row.status),
                row.rows,
                None if change is None else f"{change:+,}",
                {True: "changed", False: "same", None: None}[entry.schema_changed],
                row.created_at,
                row.superseded_at,
                short(row.run_id),
            )
        )
    headers = (
        *("id", "partition", "version", "status", "rows", "change"),
        *("schema", "made", "until", "run"),
    )
    whole = ("id", "version", "status", "schema", "made", "until", "run")
    render.show_table(headers, lines, right=["rows", "change"], whole=whole)
    for entry in entries:
        for text in _decisions(entry, names[entry.row.materialization_id]):
            render.say(text)


def _decisions(entry: _HistoryEntry, name: str) -> list[str]:
    hold = entry.hold
    if hold is None:
        reason = entry.row.reason
        return [f"\n{name}: {entry.row.status.lower()}: {reason}"] if reason else []
    held_by = hold.held_by or "checks"
    texts = [f"\n{name}: held by {held_by}, {short_time(hold.held_at)}: {hold.reason}"]
    if hold.decided_at is not None:
        word = hold.status.lower()
        if hold.held_by and word == "approved":
            word = "released"
        by = f" by {hold.decided_by}" if hold.decided_by else ""
        why = f": {hold.decision}" if hold.decision else ""
        texts.append(f"{' ' * len(name)}  {word}{by}, {short_time(hold.decided_at)}{why}")
    return texts


def files(
    session: Session,
    asset: Asset,
    partition: OnePartition = None,
    version: Version = None,
    reveal: Reveal = False,
) -> None:
    """List the files of a version; for the first 10 also rows and column statistics.

    Statistics come from the footers of the files. Bounds of personal columns are hidden, unless
    --reveal is given.
    """
    workspace = session.open()
    snapshot = workspace.read.snapshot(session.at())
    id = OrchestrationReader(snapshot).asset_id(asset)
    row = VersionLookup(snapshot, asset, id).version(partition or (), version)
    if session.api:
        remote = RemoteAsset(workspace, asset, snapshot.generation)
        listed = remote_files(remote, row, reveal=reveal)
    else:
        hidden = hidden_columns(session, workspace, snapshot, id, reveal)
        listed = files_of(workspace.store, row, hidden)
    if session.json:
        render.document(
            {
                "generation": snapshot.generation,
                "asset": asset,
                "partition": row.partition_key,
                "version": row.version,
                "materialization_id": row.materialization_id,
                "path": row.path,
                "files": listed.files,
                "total": listed.total,
            }
        )
        return
    headers = ("file", "size", "rows")
    lines = [(each.path, render.size(each.size_bytes), each.row_count) for each in listed.files]
    render.show_table(headers, lines, right=["size", "rows"], whole=["file"])
    for each in listed.files:
        if each.columns:
            _show_columns(each)
    if listed.total > len(listed.files):
        render.note(f"these are the first {len(listed.files):,} of {listed.total:,} files")


def hidden_columns(
    session: Session, workspace: Workspace, snapshot: Snapshot, asset_id: str, reveal: bool
) -> frozenset[str]:
    """What the catalog calls personal, then or now."""
    if reveal:
        return frozenset()
    newest = [] if session.at() is None else [workspace.read.snapshot()]
    return personal_columns(asset_id, snapshot, *newest)


def _show_columns(entry: FileEntry) -> None:
    render.say(f"\n{entry.path}", "bold")
    lines = [
        (column.name, column.type, column.nulls, column.min, column.max) for column in entry.columns
    ]
    headers = ("column", "type", "nulls", "min", "max")
    render.show_table(headers, lines, right=["nulls"])
