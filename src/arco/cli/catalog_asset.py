"""`servo catalog asset`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from arco.cli.catalog_options import (
    WRITES,
    AssetArgument,
    Clear,
    Description,
    Expected,
    Owners,
    Properties,
    Tags,
    acknowledge,
    column,
    entries,
    replacements,
    something,
)
from arco.cli.options import command, group
from arco.cli.session import Session

if TYPE_CHECKING:
    from arco.catalog.reader import Asset
    from arco.catalog.tables import AssetRow

app = group("asset", "Assets: tables and whatever else has data.")

Kind = Annotated[str | None, typer.Option(metavar="KIND", help="table, view, model, ...")]
Format = Annotated[str | None, typer.Option(metavar="FORMAT", help="parquet, delta, csv, ...")]
Location = Annotated[str | None, typer.Option(metavar="URL", help="Where its data is.")]


@command(
    app,
    "create",
    example="servo catalog asset create sales.orders --column id:bigint:not_null "
    "--column email:string --owner ana",
    takes=WRITES,
)
def create(
    session: Session,
    key: AssetArgument,
    columns: Annotated[
        list[str] | None,
        typer.Option("--column", metavar="NAME:TYPE[:not_null]", help="A column. Repeatable."),
    ] = None,
    kind: Kind = "table",
    format: Format = "parquet",
    location: Location = None,
    description: Description = None,
    owner: Owners = None,
    tag: Tags = None,
    property: Properties = None,
) -> None:
    """Create an asset in a namespace that exists."""
    done = session.open().catalog.create_asset(
        key,
        kind=kind or "",
        format=format or "",
        location=location or "",
        description=description or "",
        owners=owner or (),
        tags=entries(tag, "--tag"),
        properties=entries(property, "--property"),
        columns=[column(text) for text in columns or ()],
        idempotency_key=session.idempotency_key,
    )
    acknowledge(session, done, f"created asset {key}", asset=key, asset_id=done.event_id)


@command(
    app,
    "update",
    example="servo catalog asset update sales.orders --tag pii=yes --expected-version 12",
    takes=WRITES,
)
def update(
    session: Session,
    key: AssetArgument,
    kind: Kind = None,
    format: Format = None,
    location: Location = None,
    description: Description = None,
    owner: Owners = None,
    tag: Tags = None,
    property: Properties = None,
    clear: Clear = None,
    expected_version: Expected = None,
) -> None:
    """Change what is given. Owners, tags and properties are replaced as a whole."""
    owners, tags, properties = replacements(owner, tag, property, clear)
    plain = {"kind": kind, "format": format, "location": location, "description": description}
    something(**plain, owner=owners, tag=tags, property=properties)
    done = session.open().catalog.update_asset(
        key,
        kind=kind,
        format=format,
        location=location,
        description=description,
        owners=owners,
        tags=tags,
        properties=properties,
        expected_version=expected_version,
        idempotency_key=session.idempotency_key,
    )
    acknowledge(session, done, f"updated asset {key}", asset=key)


@command(app, "rename", example="servo catalog asset rename sales.orders purchases", takes=WRITES)
def rename(
    session: Session,
    key: AssetArgument,
    new_name: Annotated[str, typer.Argument(help="Its new name in the same namespace.")],
) -> None:
    """Give an asset another name. Its id, and all it has, stay."""
    done = session.open().catalog.rename_asset(
        key, new_name, idempotency_key=session.idempotency_key
    )
    new = f"{key.partition('.')[0]}.{new_name}"
    acknowledge(session, done, f"renamed asset {key} to {new}", asset=new)


@command(app, "drop", example="servo catalog asset drop sales.orders", takes=WRITES)
def drop(session: Session, key: AssetArgument) -> None:
    """Drop an asset from the catalog. Its data files stay where they are."""
    done = session.open().catalog.drop_asset(key, idempotency_key=session.idempotency_key)
    acknowledge(session, done, f"dropped asset {key}", asset=key)


@command(app, "list", example="servo catalog asset list sales", takes=["at"])
def list_(
    session: Session,
    namespace: Annotated[
        str | None, typer.Argument(metavar="[NAMESPACE]", help="Only its assets.")
    ] = None,
) -> None:
    """List assets, by name."""
    from arco.catalog.tables import ASSETS
    from arco.cli import render

    found = session.open().read_catalog(session.at())
    if namespace is None:
        rows = found.snapshot.all(ASSETS)
        rows.sort(key=lambda row: (row.namespace, row.name))
    else:
        found.namespace(namespace)
        rows = found.assets(namespace)
    if session.json:
        render.document({"generation": found.snapshot.generation, "assets": rows})
    elif not rows:
        render.say("there are no assets")
    else:
        headers = ("asset", "kind", "owners", "tags", "updated")
        render.show(render.table(headers, map(_summary, rows), whole=["updated"]))


def _summary(row: AssetRow) -> tuple[object, ...]:
    from arco.cli import render

    name = f"{row.namespace}.{row.name}"
    return name, row.kind, ", ".join(row.owners), render.pairs(row.tags) or "", row.updated_at


@command(app, "show", example="servo catalog asset show sales.orders --as-of 1d", takes=["at"])
def show(session: Session, key: AssetArgument) -> None:
    """Show one asset: what is known of it, its columns, its newest observation."""
    from arco.cli import render
    from servo.contract.keys import AssetKey

    found = session.open().read_catalog(session.at())
    asset = found.asset(AssetKey.parse(key))
    if session.json:
        generation = found.snapshot.generation
        rest = {"columns": asset.columns, "stats": asset.stats}
        head = {"generation": generation, "version": asset.version}
        render.document(head | render.plain(asset.row) | rest)
    else:
        _show(asset)


def _show(asset: Asset) -> None:
    from arco.cli import render

    row, stats = asset.row, asset.stats
    shown = {
        "asset": f"{row.namespace}.{row.name}",
        "id": row.asset_id,
        "kind": f"{row.kind} ({row.format})" if row.format else row.kind,
        "location": row.location or None,
        "description": row.description or None,
        "owners": ", ".join(row.owners) or None,
        "tags": render.pairs(row.tags),
        "properties": render.pairs(row.properties),
        "formerly": ", ".join(row.previous_names) or None,
        "version": asset.version,
        "created": f"{render.cell(row.created_at)} by {row.created_by or '–'}",
        "updated": f"{render.cell(row.updated_at)} by {row.updated_by or '–'}",
    }
    if stats is not None:
        amount = f"{render.count(stats.row_count, 'row')}, {render.size(stats.size_bytes)}"
        shown["observed"] = f"{amount} at {render.cell(stats.observed_at)}"
    render.show(render.fields(shown))
    if asset.columns:
        headers = ("column", "type", "null", "pii", "sensitivity", "description")
        rows = [
            (c.name, c.type, c.nullable, c.pii, c.sensitivity, c.description) for c in asset.columns
        ]
        render.show(render.title("columns"), render.table(headers, rows))
