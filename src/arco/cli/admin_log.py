"""`servo admin log`: the events, in their order."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from arco.cli.options import command, group
from arco.cli.session import Session
from arco.errors import NotFound

if TYPE_CHECKING:
    from arco.app import Workspace
    from arco.cli.events import Entry
    from arco.state.snapshot import Snapshot

app = group("log", "The events of a workspace, in their order.")


@command(
    app,
    "tail",
    example="servo admin log tail -n 5\n"
    "servo admin log tail --follow --type 'catalog.asset_*'\n"
    "servo admin log tail --from 1 -n 100 --json",
)
def tail(
    session: Session,
    n: Annotated[int, typer.Option("-n", min=0, metavar="N", help="How many events.")] = 20,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on as events are committed, until Ctrl-C.")
    ] = False,
    first: Annotated[
        int | None,
        typer.Option("--from", min=1, metavar="POSITION", help="From there on, not the newest."),
    ] = None,
    type_: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="TYPE", help="Only this type; * is a wildcard. Repeatable."),
    ] = None,
    interval: Annotated[
        float, typer.Option(min=0.05, metavar="S", help="How often --follow looks.")
    ] = 1.0,
) -> None:
    """Show the newest events, or those from a position on.

    An event that was rolled back is still in the log; it is marked with a ~.
    """
    from arco.cli import events

    workspace = session.open()
    snapshot = workspace.snapshot()
    wanted = events.of_types(type_ or ())
    shown: Iterable[Entry]
    if first is None:
        shown = events.newest(snapshot, n, wanted)
    else:
        shown = events.since(snapshot, first, wanted, None if follow else n)
    for entry in shown:
        _print(session, entry)
    if follow:
        start = max(first or 1, snapshot.position + 1)
        with contextlib.suppress(KeyboardInterrupt):
            _follow(session, workspace, snapshot, wanted, start, interval)


def _follow(
    session: Session,
    workspace: Workspace,
    snapshot: Snapshot,
    wanted: Any,
    first: int,
    interval: float,
) -> None:
    from arco.cli import events

    while True:
        newer = snapshot.refresh()
        if newer.position > snapshot.position:
            for entry in events.since(newer, max(first, snapshot.position + 1), wanted):
                _print(session, entry)
        snapshot = newer
        workspace.clock.sleep(interval)


def _print(session: Session, entry: Entry) -> None:
    from arco.cli import events, render

    if session.json:
        render.line(events.document(entry))
    else:
        render.out(events.one_line(entry))


@command(app, "show", example="servo admin log show 42")
def show(
    session: Session,
    position: Annotated[
        int, typer.Argument(min=1, metavar="POSITION", help="Its position in the log.")
    ],
) -> None:
    """Show one event whole, and what was decided about it."""
    from arco.cli import events, render

    workspace = session.open()
    snapshot = workspace.snapshot()
    entry = next(iter(events.since(snapshot, position, limit=1)), None)
    if entry is None:
        raise NotFound(
            f"there is no position {position}", hint=f"the log ends at {snapshot.position}"
        )
    outcome = events.outcome(snapshot, entry)
    if session.json:
        render.document(events.document(entry) | {"outcome": outcome})
    else:
        render.show(*events.whole(entry, outcome))
