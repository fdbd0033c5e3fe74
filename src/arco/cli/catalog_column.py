"""`servo catalog column`."""

from __future__ import annotations

from typing import Annotated

from arco.cli import deferral
from arco.cli.catalog_options import (
    WRITES,
    AssetArgument,
    Description,
    ExpectedColumn,
    acknowledge,
    column,
    something,
)
from arco.cli.options import argument, command, flag, group, option

if deferral.LOADED:
    import msgspec

    from arco.catalog.commands import ColumnChanges
    from arco.cli.session import Session

app = group("column", "Change the columns of assets.")

Name = Annotated[str, argument("COLUMN", "The column.")]
Pii = Annotated[str | None, option("KIND", "Personal data: email, phone, custom:..., ...")]
Sensitivity = Annotated[
    str | None, option("LEVEL", "public, internal, confidential or restricted.")
]


@command(
    app,
    "add",
    example="servo catalog column add sales.orders email:string --pii email",
    takes=WRITES,
)
def add(
    session: Session,
    key: AssetArgument,
    spec: Annotated[str, argument("NAME:TYPE[:not_null]", "The new column.")],
    description: Description = None,
    pii: Pii = None,
    sensitivity: Sensitivity = None,
) -> None:
    """Add a column to an asset."""
    added = msgspec.structs.replace(
        column(spec), description=description or "", pii=pii or "", sensitivity=sensitivity or ""
    )
    catalog = session.open().commands.catalog
    done = catalog.add_column(key, added, idempotency_key=session.idempotency_key)
    acknowledge(session, done, f"added {added.name} to {key}", asset=key, column=added.name)


@command(
    app,
    "update",
    example="servo catalog column update sales.orders email --sensitivity restricted",
    takes=WRITES,
)
def update(
    session: Session,
    key: AssetArgument,
    name: Name,
    new_name: Annotated[
        str | None, option("NAME", "The new name; the column's id stays.", "--name")
    ] = None,
    type_: Annotated[str | None, option("TYPE", "The new type.", "--type")] = None,
    nullable: Annotated[
        bool | None, flag("--nullable/--not-null", "Whether the column may be null.")
    ] = None,
    description: Description = None,
    pii: Pii = None,
    sensitivity: Sensitivity = None,
    expected_version: ExpectedColumn = None,
) -> None:
    """Change the given fields, as a person. Values from code do not change.

    An empty text withdraws the value set by people.
    """
    changes: ColumnChanges = {
        "name": new_name,
        "type": type_,
        "nullable": nullable,
        "description": description,
        "pii": pii,
        "sensitivity": sensitivity,
    }
    something(**changes)
    done = session.open().commands.catalog.update_column(
        key,
        name,
        expected_version=expected_version,
        idempotency_key=session.idempotency_key,
        **changes,
    )
    acknowledge(session, done, f"updated {name} of {key}", asset=key, column=new_name or name)


@command(app, "drop", example="servo catalog column drop sales.orders email", takes=WRITES)
def drop(
    session: Session, key: AssetArgument, name: Name, expected_version: ExpectedColumn = None
) -> None:
    """Drop a column from an asset."""
    done = session.open().commands.catalog.drop_column(
        key, name, expected_version=expected_version, idempotency_key=session.idempotency_key
    )
    acknowledge(session, done, f"dropped {name} of {key}", asset=key, column=name)
