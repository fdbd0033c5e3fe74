"""`servo catalog terms`: the glossary."""

from __future__ import annotations

from typing import Annotated

from arco.cli import deferral
from arco.cli.catalog_options import WRITES, Expected, Owners, acknowledge, entries, something
from arco.cli.options import argument, command, flag, group, option

if deferral.LOADED:
    from arco.cli import render
    from arco.cli.session import Session

app = group("terms", "Show and change terms of the glossary, for namespaces, assets and columns.")

Term = Annotated[str, argument("TERM", "The term, as in `active_customer`.")]
Meaning = Annotated[str | None, option("TEXT", "What the term means.", "--description")]
Links = Annotated[list[str] | None, option("NAME=URL", "A link. Repeatable.", "--link")]


@command(
    app,
    "create",
    example="servo catalog terms create active_customer --description "
    "'A customer with an order in the last 90 days'",
    takes=WRITES,
)
def create(
    session: Session,
    term: Term,
    description: Meaning = None,
    owner: Owners = None,
    link: Links = None,
) -> None:
    """Create a term."""
    outcome = session.open().commands.governance.create_term(
        term,
        description=description,
        owners=owner,
        links=entries(link, "--link"),
        idempotency_key=session.idempotency_key,
    )
    acknowledge(session, outcome, f"created term {term}", term=term)


@command(
    app,
    "update",
    example="servo catalog terms update active_customer --owner ana --expected-version 12",
    takes=WRITES,
)
def update(
    session: Session,
    term: Term,
    description: Meaning = None,
    owner: Owners = None,
    link: Links = None,
    expected_version: Expected = None,
) -> None:
    """Change the given fields. Owners and links are replaced."""
    something(description=description, owner=owner, link=link)
    outcome = session.open().commands.governance.update_term(
        term,
        description=description,
        owners=owner,
        links=entries(link, "--link"),
        expected_version=expected_version,
        idempotency_key=session.idempotency_key,
    )
    acknowledge(session, outcome, f"updated term {term}", term=term)


@command(app, "list", example="servo catalog terms list", takes=["at"])
def list_(session: Session) -> None:
    """List all terms."""
    reader = session.open().read.governance(session.at())
    rows = reader.terms()
    if session.json:
        render.document({"generation": reader.snapshot.generation, "terms": rows})
    elif not rows:
        render.say("there are no terms; create one with `servo catalog terms create`")
    else:
        lines = [(row.term, ", ".join(row.owners), row.description) for row in rows]
        render.show_table(("term", "owners", "description"), lines, whole=["term"])


@command(app, "show", example="servo catalog terms show active_customer", takes=["at"])
def show(session: Session, term: Term) -> None:
    """Show a term, and where it is used."""
    reader = session.open().read.governance(session.at())
    view = reader.term_view(term)
    row = view.row
    if session.json:
        head = {"generation": reader.snapshot.generation, "row_version": view.version}
        render.document(head | render.plain(row) | {"used_by": view.used_by})
        return
    fields = {
        "term": row.term,
        "description": row.description,
        "owners": ", ".join(row.owners) or None,
        "links": render.pairs(row.links),
        "version": view.version,
        "created": f"{render.cell(row.created_at)} by {row.created_by or '–'}",
        "updated": f"{render.cell(row.updated_at)} by {row.updated_by or '–'}",
        "used by": "\n".join(view.used_by) or None,
    }
    render.show_fields(fields)


@command(app, "drop", example="servo catalog terms drop active_customer", takes=WRITES)
def drop(
    session: Session,
    term: Term,
    force: Annotated[
        bool, flag("--force", "Drop the term even if it is used; existing references stay.")
    ] = False,
    expected_version: Expected = None,
) -> None:
    """Drop a term. Refused while something uses it."""
    done = session.open().commands.governance.drop_term(
        term,
        force=force,
        expected_version=expected_version,
        idempotency_key=session.idempotency_key,
    )
    acknowledge(session, done, f"dropped term {term}", term=term)
