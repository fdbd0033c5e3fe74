"""`servo schema`: current, earlier and declared columns of assets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

from arco.cli import deferral
from arco.cli.catalog_options import WRITES, AssetArgument, ExpectedColumn, acknowledge
from arco.cli.options import StatedReason, argument, command, group, option, stated

if deferral.LOADED:
    from rich.text import Text

    from arco.catalog.reader import CatalogReader
    from arco.catalog.schema_diff import schema_difference, schema_version
    from arco.catalog.schema_reader import AssetSchema, SchemaReader
    from arco.catalog.schema_tables import SchemaVersionRow
    from arco.catalog.tables import ColumnRow
    from arco.cli import render
    from arco.cli.session import Session
    from arco.cli.short_ids import short
    from arco.cli.version_changes import show_version_changes
    from arco.columns.compatibility import SchemaChange, broken_modes
    from arco.state.snapshot import Snapshot
    from servo.contract.keys import AssetKey

SHOWN = 8

app = group("schema", "Show the schemas of assets, and how they changed.")


def _schema(snapshot: Snapshot, key: str) -> AssetSchema:
    asset_id = CatalogReader(snapshot).asset_id(AssetKey.parse(key))
    return SchemaReader(snapshot).schema(asset_id, key)


# -- one schema -----------------------------------------------------------------------------


@command(
    app,
    "show",
    example="servo schema show sales.orders\nservo schema show sales.orders --version 2",
    takes=["at"],
)
def show(
    session: Session,
    key: AssetArgument,
    version: Annotated[
        str, option("VERSION", "A number, current or declared; default: all columns.")
    ] = "",
) -> None:
    """Show an asset's columns: declared in code, found in the data, and differences."""
    snapshot = session.open().read.snapshot(session.at())
    schema = _schema(snapshot, key)
    head = {"generation": snapshot.generation, "asset": key}
    if version:
        row = schema_version(schema, key, version)
        columns = row.decoded_columns()
        if session.json:
            render.document(head | _plain(row))
            return
        _show_version(key, row)
        lines = [(c.name, c.type_text or None, c.nullable, c.column_id) for c in columns]
        render.show_table(("column", "type", "null", "id"), lines)
        return
    registry = schema.registry
    if session.json:
        numbers = render.picked(registry, "current", "declared", "versions")
        render.document(head | numbers | {"columns": schema.columns, "renames": schema.renames})
        return
    _show_columns(key, schema)


def _plain(row: SchemaVersionRow) -> dict[str, object]:
    plain: dict[str, object] = render.plain(row)
    return plain | {
        "columns": [
            render.plain(each) | {"type_text": each.type_text} for each in row.decoded_columns()
        ],
        "changes": [_change(each) for each in row.decoded_changes()],
    }


def _change(change: SchemaChange) -> dict[str, object]:
    plain: dict[str, object] = render.plain(change)
    return plain | {"text": str(change), "breaks": broken_modes(change)}


def _show_version(key: str, row: SchemaVersionRow) -> None:
    marks = [mark for mark in ("current", "declared") if getattr(row, mark)]
    render.show_fields(
        {
            "asset": key,
            "version": " ".join([str(row.version), *(f"({mark})" for mark in marks)]),
            "hash": row.schema_hash,
            "first seen in": f"{row.source} at {render.cell(row.registered_at)}",
            "first run": row.run_id or None,
        }
    )


def _show_columns(key: str, schema: AssetSchema) -> None:
    registry = schema.registry
    render.show_fields(
        {
            "asset": key,
            "current version": registry.current or "none: no output yet",
            "declared version": registry.declared or None,
            "versions": registry.versions,
        }
    )
    names: dict[str, list[str]] = {}
    for rename in schema.renames:
        names.setdefault(rename.column_id, []).append(rename.old_name)
    declares = any(column.declared_by == "code" for column in schema.columns)
    lines = [_column_line(column, names, declares) for column in schema.columns]
    headers = ("column", "declared", "in the data", "null", "state", "formerly")
    render.show_table(headers, lines, whole=headers[:1])


def _column_line(
    column: ColumnRow, names: dict[str, list[str]], declares: bool
) -> tuple[object, ...]:
    state: str | Text = ""
    if column.status == "Inactive":
        state = Text(f"inactive since version {column.last_version + 1}", "dim")
        if not column.last_version:
            state = Text("inactive", "dim")
    elif column.renaming_to:
        state = Text(f"becomes {column.renaming_to}", "yellow")
    elif column.difference and (declares or column.difference != "undeclared"):
        state = Text(_STATES[column.difference], "yellow")
    former = [name for name in names.get(column.column_id, ()) if name != column.name]
    return (
        column.name,
        (column.type or "any type") if column.declared_by else None,
        column.actual_type or None,
        column.nullable,
        state,
        ", ".join(dict.fromkeys(former)) or None,
    )


_STATES = {
    "missing": "declared, and not in the data",
    "undeclared": "not declared",
    "type": "other type than declared",
}


# -- versions -------------------------------------------------------------------------------


@command(app, "history", example="servo schema history sales.orders", takes=["at"])
def history(session: Session, key: AssetArgument) -> None:
    """List the versions of an asset's schema, renamed columns and accepted breaks."""
    snapshot = session.open().read.snapshot(session.at())
    schema = _schema(snapshot, key)
    if session.json:
        render.document(
            {
                "generation": snapshot.generation,
                "asset": key,
                "versions": [_plain(row) for row in schema.versions],
                "renames": schema.renames,
                "accepted_breaks": schema.accepted,
            }
        )
        return
    lines = [
        (
            row.version,
            ", ".join(mark for mark in ("current", "declared") if getattr(row, mark)),
            row.registered_at,
            short(row.run_id) if row.run_id else None,
            len(row.decoded_columns()),
            render.lines(_few(row.decoded_changes())) or ("first" if row.version == 1 else None),
        )
        for row in schema.versions
    ]
    headers = ("version", "is", "registered", "first run", "columns", "changes")
    render.show_table(headers, lines, right=["version", "columns"], whole=headers[:4])
    if schema.renames:
        newest = {each.column_id: each.number for each in schema.renames}
        renames = [
            (
                f"{each.old_name} -> {each.new_name}",
                "governed" if each.change_type == "GovernedRename" else "inferred",
                each.changed_in_version
                or ("next output" if each.number == newest[each.column_id] else "superseded"),
                each.renamed_by or None,
                each.reason or None,
            )
            for each in schema.renames
        ]
        titles = ("column", "rename", "version", "by", "reason")
        render.show_table(titles, renames, title="renamed columns")
    if schema.accepted:
        accepted = [
            (each.column, each.up_to_version, each.source, each.accepted_by or None, each.reason)
            for each in schema.accepted
        ]
        titles = ("column", "up to version", "by", "who", "reason")
        render.show_table(titles, accepted, title="accepted breaks")


def _few(changes: Sequence[SchemaChange]) -> Iterator[str]:
    yield from map(str, changes[:SHOWN])
    if len(changes) > SHOWN:
        yield f"and {len(changes) - SHOWN} more; see --json"


@command(
    app,
    "diff",
    example="servo schema diff sales.orders\nservo schema diff sales.orders 1 current",
    takes=["at"],
)
def diff(
    session: Session,
    key: AssetArgument,
    old: Annotated[
        str, argument("FROM", "A version, current or declared; default: the one before TO.")
    ] = "",
    new: Annotated[str, argument("TO", "The same; default: the newest.")] = "",
) -> None:
    """Compare two versions of an asset's schema, and mark changes that may break readers."""
    snapshot = session.open().read.snapshot(session.at())
    schema = _schema(snapshot, key)
    before, after, changes = schema_difference(schema, key, old, new)
    versions = before.version, after.version
    show_version_changes(session, snapshot.generation, key, versions, changes, _change, _breaks)


def _breaks(change: SchemaChange) -> Text:
    modes = broken_modes(change)
    return Text(", ".join(modes) or "nothing", "red" if "backward" in modes else "green")


# -- renaming -------------------------------------------------------------------------------


@command(
    app,
    "rename-column",
    example='servo schema rename-column sales.orders amt amount --reason "one word for it"',
    takes=WRITES,
)
def rename_column(
    session: Session,
    key: AssetArgument,
    column: Annotated[str, argument("COLUMN", "The old name of the column.")],
    new_name: Annotated[str, argument("NEW", "The new name of the column.")],
    reason: StatedReason = None,
    expected_version: ExpectedColumn = None,
) -> None:
    """Rename a column; its id, history and description stay.

    Use it before or after the first output with the new name: the removed and the added column
    become one. With --reason, the rename is accepted as a change that may break readers, and the
    output is not held. Columns that code declares are renamed in code, with renamed_from.
    """
    outcome = session.open().commands.catalog.rename_column(
        key,
        column,
        new_name,
        reason=stated(reason),
        expected_version=expected_version,
        idempotency_key=session.idempotency_key,
    )
    acknowledge(
        session, outcome, f"renamed {column} of {key} to {new_name}", asset=key, column=new_name
    )
