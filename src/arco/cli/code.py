"""`servo code`: the code of an asset, and its SQL as Spark gets it."""

from __future__ import annotations

from typing import Annotated

import typer

from arco.cli import deferral
from arco.cli.options import OnePartition, argument, command, flag

if deferral.LOADED:
    from arco.cli import render
    from arco.cli.live import partition_text
    from arco.cli.session import Session
    from arco.errors import Invalid


def register(app: typer.Typer) -> None:
    command(
        app,
        "code",
        example="servo code shop.daily_totals\n"
        "servo code shop.daily_totals -p date=2026-01-31 > daily_totals.sql\n"
        "servo code shop.daily_totals --as-written",
        takes=["at"],
    )(code)


def code(
    session: Session,
    asset: Annotated[str, argument("ASSET", "The asset: namespace.name.")],
    partition: OnePartition = None,
    as_written: Annotated[
        bool, flag("--as-written", "Show the query with its templates, not with their values.")
    ] = False,
) -> None:
    """Show the code of an asset, and its SQL for a partition.

    The templates of a query are filled in as for a task: a reference to `x` is the view `@x`.
    The default is the last partition. `servo runs task` shows the SQL of a task that was
    planned, with the configuration of its run.
    """
    answer = session.open().answers(session.at()).code(asset, partition or ())
    if session.json:
        render.document(answer)
        return
    is_rendered = answer.kind == "sql" and not as_written
    if is_rendered and answer.sql_problem:
        raise Invalid(answer.sql_problem, hint=f"see `servo code {asset} --as-written`")
    text = answer.sql if is_rendered else answer.code
    if text:
        render.say(text.strip("\n"))
    chosen = f" for {partition_text(answer.partition)}" if is_rendered and answer.partition else ""
    where = f", declared in {answer.place}" if answer.place else ""
    render.note(f"{asset}{chosen}{where}" if text else f"the deployment has no code of {asset}")
