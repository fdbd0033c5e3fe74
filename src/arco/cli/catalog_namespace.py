"""`servo catalog namespace`."""

from __future__ import annotations

from typing import Annotated

import typer

from arco.cli import deferral
from arco.cli.catalog_options import (
    WRITES,
    Clear,
    Description,
    Expected,
    Owners,
    Properties,
    Tags,
    acknowledge,
    entries,
    replacements,
    something,
)
from arco.cli.options import command, group

if deferral.LOADED:
    from arco.cli import render
    from arco.cli.session import Session

app = group("namespace", "Show and change namespaces.")

Name = Annotated[str, typer.Argument(metavar="NAMESPACE", help="The namespace.")]


@command(
    app,
    "create",
    example="servo catalog namespace create sales --owner ana --tag tier=gold",
    takes=WRITES,
)
def create(
    session: Session,
    namespace: Name,
    description: Description = None,
    owner: Owners = None,
    tag: Tags = None,
    property: Properties = None,
) -> None:
    """Create a namespace."""
    done = session.open().commands.catalog.create_namespace(
        namespace,
        description=description or "",
        owners=owner or (),
        tags=entries(tag, "--tag"),
        properties=entries(property, "--property"),
        idempotency_key=session.idempotency_key,
    )
    acknowledge(session, done, f"created namespace {namespace}", namespace=namespace)


@command(
    app,
    "update",
    example="servo catalog namespace update sales --description 'What we sold' --clear tags",
    takes=WRITES,
)
def update(
    session: Session,
    namespace: Name,
    description: Description = None,
    owner: Owners = None,
    tag: Tags = None,
    property: Properties = None,
    clear: Clear = None,
    expected_version: Expected = None,
) -> None:
    """Change the given fields. Owners, tags and properties are replaced as a whole."""
    owners, tags, properties = replacements(owner, tag, property, clear)
    something(description=description, owner=owners, tag=tags, property=properties)
    done = session.open().commands.catalog.update_namespace(
        namespace,
        description=description,
        owners=owners,
        tags=tags,
        properties=properties,
        expected_version=expected_version,
        idempotency_key=session.idempotency_key,
    )
    acknowledge(session, done, f"updated namespace {namespace}", namespace=namespace)


@command(app, "drop", example="servo catalog namespace drop sales", takes=WRITES)
def drop(session: Session, namespace: Name) -> None:
    """Drop a namespace, which must be empty."""
    done = session.open().commands.catalog.drop_namespace(
        namespace, idempotency_key=session.idempotency_key
    )
    acknowledge(session, done, f"dropped namespace {namespace}", namespace=namespace)


@command(app, "list", example="servo catalog namespace list --as-of 1d", takes=["at"])
def list_(session: Session) -> None:
    """List all namespaces."""
    reader = session.open().read.catalog(session.at())
    rows = reader.namespaces()
    if session.json:
        render.document({"generation": reader.snapshot.generation, "namespaces": rows})
    elif not rows:
        render.say("there are no namespaces")
    else:
        lines = [(r.namespace, r.assets, ", ".join(r.owners), r.description) for r in rows]
        headers = ("namespace", "assets", "owners", "description")
        render.show(render.table(headers, lines, right=["assets"]))


@command(app, "show", example="servo catalog namespace show sales", takes=["at"])
def show(session: Session, namespace: Name) -> None:
    """Show one namespace."""
    reader = session.open().read.catalog(session.at())
    row = reader.namespace(namespace)
    version = reader.namespace_version(namespace)
    if session.json:
        generation = reader.snapshot.generation
        render.document({"generation": generation, "version": version} | render.plain(row))
        return
    render.show(
        render.fields(
            {
                "namespace": row.namespace,
                "description": row.description or None,
                "owners": ", ".join(row.owners) or None,
                "tags": render.pairs(row.tags),
                "properties": render.pairs(row.properties),
                "assets": row.assets,
                "version": version,
                "created": f"{render.cell(row.created_at)} by {row.created_by or '–'}",
                "updated": f"{render.cell(row.updated_at)} by {row.updated_by or '–'}",
            }
        )
    )
