"""`servo catalog namespace`."""

from __future__ import annotations

from typing import Annotated

from arco.cli import catalog_options, deferral
from arco.cli.options import argument, command, group

if deferral.LOADED:
    from arco.cli import render
    from arco.cli.session import Session

app = group("namespace", "Show and change namespaces.")

Name = Annotated[str, argument("NAMESPACE", "The namespace.")]


@command(
    app,
    "create",
    example="servo catalog namespace create sales --owner ana --tag tier=gold",
    takes=catalog_options.WRITES,
)
def create(
    session: Session,
    namespace: Name,
    details: catalog_options.DetailOptions,
) -> None:
    """Create a namespace."""
    outcome = session.open().commands.catalog.create_namespace(
        namespace,
        idempotency_key=session.idempotency_key,
        **details.changes(),
    )
    catalog_options.acknowledge(
        session, outcome, f"created namespace {namespace}", namespace=namespace
    )


@command(
    app,
    "update",
    example="servo catalog namespace update sales --description 'What we sold' --clear tags",
    takes=catalog_options.WRITES,
)
def update(
    session: Session,
    namespace: Name,
    details: catalog_options.DetailOptions,
    clear: catalog_options.Clear = None,
    expected_version: catalog_options.Expected = None,
) -> None:
    """Change the given fields, as a person. Values from code do not change.

    Owners, tags and properties set by people are replaced; `servo catalog set` adds single ones.
    An empty description withdraws it.
    """
    changes = details.changes(clear)
    catalog_options.something(**changes)
    outcome = session.open().commands.catalog.update_namespace(
        namespace,
        expected_version=expected_version,
        idempotency_key=session.idempotency_key,
        **changes,
    )
    catalog_options.acknowledge(
        session, outcome, f"updated namespace {namespace}", namespace=namespace
    )


@command(app, "drop", example="servo catalog namespace drop sales", takes=catalog_options.WRITES)
def drop(session: Session, namespace: Name) -> None:
    """Drop a namespace, which must be empty."""
    outcome = session.open().commands.catalog.drop_namespace(
        namespace, idempotency_key=session.idempotency_key
    )
    catalog_options.acknowledge(
        session, outcome, f"dropped namespace {namespace}", namespace=namespace
    )


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
        render.show_table(headers, lines, right=["assets"])


@command(app, "show", example="servo catalog namespace show sales", takes=["at"])
def show(session: Session, namespace: Name) -> None:
    """Show one namespace."""
    reader = session.open().read.catalog(session.at())
    row = reader.namespace(namespace)
    version = reader.namespace_version(namespace)
    if session.json:
        generation = reader.snapshot.generation
        render.document({"generation": generation, "row_version": version} | render.plain(row))
        return
    fields = {"namespace": row.namespace} | catalog_options.described(row)
    render.show_fields(fields | {"assets": row.assets} | catalog_options.authorship(row, version))
