"""`servo admin sql`: questions to one generation."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from arco.cli.options import command
from arco.cli.session import Session
from arco.errors import Invalid

if TYPE_CHECKING:
    from arco.app import Workspace
    from arco.state.snapshot import Snapshot
    from arco.state.sql import SqlResult
    from arco.state.sqlprocess import SqlLimits, SqlProcess


def register(app: typer.Typer) -> None:
    command(
        app,
        "sql",
        example='servo admin sql "SELECT namespace, count(*) FROM catalog.assets GROUP BY 1"\n'
        'servo admin sql --as-of 2h "SELECT * FROM catalog.assets"\n'
        "servo admin sql --tables\n"
        "servo admin sql - < question.sql",
        takes=["at"],
    )(sql)


def sql(
    session: Session,
    query: Annotated[
        str | None, typer.Argument(metavar="[SELECT|-]", help="One SELECT; - reads it from stdin.")
    ] = None,
    tables: Annotated[
        bool, typer.Option("--tables", help="List the tables and their columns.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="At most so many rows.")] = 100,
    timeout: Annotated[
        float, typer.Option(min=0.001, metavar="S", help="At most so many seconds.")
    ] = 30.0,
) -> None:
    """Run one SELECT over the tables of one generation.

    DuckDB reads the workspace's own Parquet files. A query can change nothing.
    """
    if tables == (query is not None):
        raise Invalid(
            "give one SELECT, or --tables", hint='servo admin sql "SELECT * FROM catalog.assets"'
        )
    if query is not None:
        query = _text(query)
    if query is None:
        workspace = session.open()
        _list_tables(session, workspace, workspace.snapshot(session.at()))
        return
    from arco.state.sqlprocess import SqlLimits, SqlProcess

    # The process for the query starts while this one imports and opens the workspace.
    with contextlib.closing(SqlProcess()) as process:
        workspace = session.open()
        limits = SqlLimits(timeout_s=timeout, rows=limit)
        result = _run(workspace, workspace.snapshot(session.at()), query, limits, process)
    _show(session, result)


def _text(query: str) -> str:
    text = sys.stdin.read() if query == "-" else query
    if not text.strip():
        raise Invalid("the query is empty", hint='try: "SELECT * FROM catalog.assets"')
    return text


def _run(
    workspace: Workspace, snapshot: Snapshot, query: str, limits: SqlLimits, process: SqlProcess
) -> SqlResult:
    with workspace.sql(limits, process) as engine:
        try:
            return engine.query(snapshot, query)
        except Invalid as error:
            hint = error.hint or "see the tables and columns with: servo admin sql --tables"
            raise Invalid(error.message, hint=hint) from None


def _show(session: Session, result: SqlResult) -> None:
    from arco.cli import render, sqltable

    if session.json:
        render.document(sqltable.document(result))
        return
    shown = sqltable.fitted(result.table, render.console().width)
    render.show(shown.body)
    count = render.count(result.table.num_rows, "row")
    render.say(f"{count} at generation {result.generation}", "dim")
    if result.truncated:
        render.say(f"there are more rows: this is the first {count}; see --limit", "yellow")
    if shown.cut:
        render.say("some values were cut with … to fit; --json has them whole", "yellow")


def _list_tables(session: Session, workspace: Workspace, snapshot: Snapshot) -> None:
    from arco.cli import render

    known = {str(table): table.manifest() for table in workspace.tables} | snapshot.tables()
    present = snapshot.tables()
    if session.json:
        render.document(
            {
                "generation": snapshot.generation,
                "tables": [
                    {
                        "table": name,
                        "present": name in present,
                        "key": table.key,
                        "columns": [{"name": c.name, "type": c.type} for c in table.columns],
                    }
                    for name, table in sorted(known.items())
                ],
            }
        )
        return
    for name, table in sorted(known.items()):
        empty = "" if name in present else "  (nothing in it yet)"
        render.show(render.title(name + empty))
        rows = [(c.name, c.type, "key" if c.name in table.key else "") for c in table.columns]
        render.show(render.columns(rows))
