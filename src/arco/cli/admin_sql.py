"""`servo admin sql`: queries one generation."""

from __future__ import annotations

import contextlib
import sys
from typing import Annotated

import typer

from arco.cli import deferral
from arco.cli.options import argument, command, flag, option

if deferral.LOADED:
    from arco.app import Workspace
    from arco.cli import render, sqltable
    from arco.cli.session import Session
    from arco.errors import Invalid
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
    query: Annotated[str | None, argument("SELECT", "One SELECT; - reads it from stdin.")] = None,
    tables: Annotated[bool, flag("--tables", "List the tables and their columns.")] = False,
    limit: Annotated[int, option("N", "Maximum number of rows.", min=1)] = 100,
    timeout: Annotated[float, option("S", "Timeout in seconds.", min=0.001)] = 30.0,
) -> None:
    """Run one SELECT over the tables of one generation.

    DuckDB reads the workspace's Parquet files. Queries are read-only.
    """
    if tables == (query is not None):
        raise Invalid(
            "give one SELECT, or --tables", hint='servo admin sql "SELECT * FROM catalog.assets"'
        )
    if query is not None:
        query = _text(query)
    if query is None:
        workspace = session.open()
        _list_tables(session, workspace, workspace.read.snapshot(session.at()))
        return
    # The process for the query starts while this one imports and opens the workspace.
    with contextlib.closing(SqlProcess()) as process:
        workspace = session.open()
        limits = SqlLimits(timeout_s=timeout, rows=limit)
        result = _run(workspace, workspace.read.snapshot(session.at()), query, limits, process)
    _show(session, result)


def _text(query: str) -> str:
    text = sys.stdin.read() if query == "-" else query
    if not text.strip():
        raise Invalid("the query is empty", hint='try: "SELECT * FROM catalog.assets"')
    return text


def _run(
    workspace: Workspace, snapshot: Snapshot, query: str, limits: SqlLimits, process: SqlProcess
) -> SqlResult:
    with workspace.read.sql(limits, process) as engine:
        try:
            return engine.query(snapshot, query)
        except Invalid as error:
            hint = error.hint or "see the tables and columns with: servo admin sql --tables"
            raise Invalid(error.message, hint=hint) from None


def _show(session: Session, result: SqlResult) -> None:
    if session.json:
        render.document(sqltable.document(result))
        return
    fitted = sqltable.fitted(result.table, render.width())
    render.show(fitted.body)
    count = render.count(result.table.num_rows, "row")
    render.say(f"{count} at generation {result.generation}", "dim")
    if result.truncated:
        render.say(f"there are more rows; this is the first {count}. See --limit", "yellow")
    if fitted.cut:
        render.say("some values were shortened with … to fit; --json shows them in full", "yellow")


def _list_tables(session: Session, workspace: Workspace, snapshot: Snapshot) -> None:
    present = set(snapshot.contents.names())
    tables = {str(table): snapshot.manifest(table) for table in workspace.tables}
    tables |= {name: snapshot.contents.table(name) for name in present - tables.keys()}
    columns = {
        name: [(c.name, c.type, "key" if c.name in table.key else "") for c in table.columns]
        for name, table in tables.items()
    }
    for table in workspace.tables:
        columns[str(table)] += [(name, "string", "computed") for name in table.computed]
    if session.json:
        render.document(
            {
                "generation": snapshot.generation,
                "tables": [
                    {
                        "table": name,
                        "present": name in present,
                        "key": files.key,
                        "columns": [{"name": c, "type": type} for c, type, _ in columns[name]],
                    }
                    for name, files in sorted(tables.items())
                ],
            }
        )
        return
    for name in sorted(tables):
        empty = "" if name in present else "  (no rows yet)"
        render.show_title(name + empty)
        render.show(render.columns(columns[name]))
