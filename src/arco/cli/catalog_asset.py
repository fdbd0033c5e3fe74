"""`servo catalog asset`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from arco.cli import catalog_options, deferral
from arco.cli.options import argument, command, group, option

if deferral.LOADED:
    from arco.catalog.reader import AssetDetails
    from arco.catalog.tables import ASSETS, AssetRow
    from arco.cli import render
    from arco.cli.ingest import show_reports
    from arco.cli.session import Session
    from arco.ingest.reader import IngestReader
    from arco.ingest.tables import ReportedOutputRow
    from arco.state.snapshot import Snapshot
    from servo.contract.keys import AssetKey

app = group("asset", "Show and change assets.")

Kind = Annotated[str | None, option("KIND", "table, view, model, ...")]
Format = Annotated[str | None, option("FORMAT", "parquet, delta, csv, ...")]
Location = Annotated[str | None, option("URL", "Location of the data.")]


@command(
    app,
    "create",
    example="servo catalog asset create sales.orders --column id:bigint:not_null "
    "--column email:string --owner ana",
    takes=catalog_options.WRITES,
)
def create(
    session: Session,
    key: catalog_options.AssetArgument,
    *,
    columns: Annotated[
        list[str] | None, option("NAME:TYPE[:not_null]", "A column. Repeatable.", "--column")
    ] = None,
    kind: Kind = "table",
    format: Format = "parquet",
    location: Location = None,
    details: catalog_options.DetailOptions,
) -> None:
    """Create an asset in an existing namespace."""
    outcome = session.open().commands.catalog.create_asset(
        key,
        kind=kind,
        format=format,
        location=location,
        columns=[catalog_options.column(text) for text in columns or ()],
        idempotency_key=session.idempotency_key,
        **details.changes(),
    )
    catalog_options.acknowledge(
        session, outcome, f"created asset {key}", asset=key, asset_id=outcome.event_id
    )


@command(
    app,
    "update",
    example="servo catalog asset update sales.orders --tag pii=yes --expected-version 12",
    takes=catalog_options.WRITES,
)
def update(
    session: Session,
    key: catalog_options.AssetArgument,
    *,
    kind: Kind = None,
    format: Format = None,
    location: Location = None,
    details: catalog_options.DetailOptions,
    clear: catalog_options.Clear = None,
    expected_version: catalog_options.Expected = None,
) -> None:
    """Change the given fields, as a person. Values from code do not change.

    Owners, tags and properties set by people are replaced; `servo catalog set` adds single ones.
    An empty description withdraws it.
    """
    data = {"kind": kind, "format": format, "location": location}
    changes = data | details.changes(clear)
    catalog_options.something(**changes)
    done = session.open().commands.catalog.update_asset(
        key, expected_version=expected_version, idempotency_key=session.idempotency_key, **changes
    )
    catalog_options.acknowledge(session, done, f"updated asset {key}", asset=key)


@command(
    app,
    "rename",
    example="servo catalog asset rename sales.orders purchases",
    takes=catalog_options.WRITES,
)
def rename(
    session: Session,
    key: catalog_options.AssetArgument,
    new_name: Annotated[str, typer.Argument(help="The new name in the same namespace.")],
) -> None:
    """Rename an asset. Its id, versions and history stay."""
    outcome = session.open().commands.catalog.rename_asset(
        key, new_name, idempotency_key=session.idempotency_key
    )
    new = f"{key.partition('.')[0]}.{new_name}"
    catalog_options.acknowledge(session, outcome, f"renamed asset {key} to {new}", asset=new)


@command(app, "drop", example="servo catalog asset drop sales.orders", takes=catalog_options.WRITES)
def drop(session: Session, key: catalog_options.AssetArgument) -> None:
    """Drop an asset from the catalog. Its data files stay where they are."""
    done = session.open().commands.catalog.drop_asset(key, idempotency_key=session.idempotency_key)
    catalog_options.acknowledge(session, done, f"dropped asset {key}", asset=key)


@command(app, "list", example="servo catalog asset list sales", takes=["at"])
def list_(
    session: Session,
    namespace: Annotated[
        str | None, argument("NAMESPACE", "Only assets of this namespace.")
    ] = None,
) -> None:
    """List assets, sorted by name."""
    reader = session.open().read.catalog(session.at())
    if namespace is None:
        rows = reader.snapshot.all(ASSETS)
        rows.sort(key=lambda row: (row.namespace, row.name))
    else:
        reader.namespace(namespace)
        rows = reader.assets(namespace)
    if session.json:
        assets = [_document(row) for row in rows]
        render.document({"generation": reader.snapshot.generation, "assets": assets})
    elif not rows:
        render.say("there are no assets")
    else:
        headers = ("asset", "kind", "project", "owners", "tags", "updated")
        render.show_table(headers, map(_summary, rows), whole=["updated"])


def _summary(row: AssetRow) -> tuple[object, ...]:
    name = f"{row.namespace}.{row.name}{' (deprecated)' if row.deprecated else ''}"
    tags = render.pairs(row.tags) or ""
    return name, row.kind, _state(row), ", ".join(row.owners), tags, row.updated_at


def _state(row: AssetRow) -> str | None:
    """The project or import that has the asset, or that it was removed from one."""
    if row.active:
        return row.project or row.imported_from or None
    return f"removed from {row.project}" if row.project else "removed"


def _document(row: AssetRow) -> dict[str, Any]:
    return {"asset": f"{row.namespace}.{row.name}", **render.plain(row)}


@command(app, "show", example="servo catalog asset show sales.orders --as-of 1d", takes=["at"])
def show(session: Session, key: catalog_options.AssetArgument) -> None:
    """Show one asset, with its columns and newest observation."""
    reader = session.open().read.catalog(session.at())
    asset = reader.asset(AssetKey.parse(key))
    if session.json:
        generation = reader.snapshot.generation
        newest = _newest_report(reader.snapshot, asset.row.asset_id)
        rest = {"columns": asset.columns, "stats": asset.stats, "written_elsewhere": newest}
        head = {"generation": generation, "row_version": asset.version}
        render.document(head | _document(asset.row) | rest)
    else:
        _show(asset)
        if (newest := _newest_report(reader.snapshot, asset.row.asset_id)) is not None:
            show_reports([newest])


def _newest_report(snapshot: Snapshot, asset_id: str) -> ReportedOutputRow | None:
    """Of what others have written."""
    return next(iter(IngestReader(snapshot).outputs(asset_id)), None)


def _show(asset: AssetDetails) -> None:
    row, stats = asset.row, asset.stats
    fields = {
        "asset": f"{row.namespace}.{row.name}",
        "id": row.asset_id,
        "kind": f"{row.kind} ({row.format})" if row.format else row.kind,
        "project": _state(row),
        **({"deprecated": row.deprecated} if row.deprecated else {}),
        "location": row.location or None,
        **catalog_options.described(row),
        "formerly": ", ".join(row.previous_names) or None,
        **catalog_options.authorship(row, asset.version),
    }
    if stats is not None:
        amount = f"{render.count(stats.row_count, 'row')}, {render.size(stats.size_bytes)}"
        fields["observed"] = f"{amount} at {render.cell(stats.observed_at)}"
    render.show_fields(fields)
    if asset.columns:
        headers = ("column", "type", "null", "pii", "sensitivity", "description")
        rows = [
            (c.name, c.type or c.actual_type, c.nullable, c.pii, c.sensitivity, c.description)
            for c in asset.columns
        ]
        render.show_table(headers, rows, title="columns")
