"""`servo admin log`: the events, in their order."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Annotated, Any

import typer

from arco.cli import deferral
from arco.cli.options import argument, command, group, option

if deferral.LOADED:
    from arco.app import Workspace
    from arco.cli import log_entries, render
    from arco.cli.log_entries import LogEntry
    from arco.cli.session import Session
    from arco.errors import NotFound
    from arco.state.snapshot import Snapshot

app = group("log", "Show the events of a workspace.")


@command(
    app,
    "tail",
    example="servo admin log tail -n 5\n"
    "servo admin log tail --follow --type 'catalog.asset_*'\n"
    "servo admin log tail --from 1 -n 100 --json",
)
def tail(
    session: Session,
    n: Annotated[int, option("N", "Number of events to show.", "-n", min=0)] = 20,
    follow: Annotated[
        bool,
        typer.Option("--follow", "-f", help="Show new events as they are committed, until Ctrl-C."),
    ] = False,
    first: Annotated[
        int | None, option("POSITION", "Start at this position.", "--from", min=1)
    ] = None,
    type_: Annotated[
        list[str] | None,
        option("TYPE", "Only events of this type; * is a wildcard. Repeatable.", "--type"),
    ] = None,
    interval: Annotated[
        float, option("S", "With --follow: seconds between reads of the log.", min=0.05)
    ] = 1.0,
) -> None:
    """Show the newest events, or the events from a position.

    Events that a rollback undid stay in the log; they are marked with ~.
    """
    session.require_store()
    workspace = session.open()
    snapshot = workspace.read.snapshot()
    matches = log_entries.of_types(type_ or ())
    entries: Iterable[LogEntry]
    if first is None:
        entries = log_entries.newest(snapshot, n, matches)
    else:
        entries = log_entries.since(snapshot, first, matches, None if follow else n)
    for entry in entries:
        _print(session, entry)
    if follow:
        start = max(first or 1, snapshot.position + 1)
        with contextlib.suppress(KeyboardInterrupt):
            _follow(session, workspace, snapshot, matches, start, interval)


def _follow(
    session: Session,
    workspace: Workspace,
    snapshot: Snapshot,
    matches: Any,
    first: int,
    interval: float,
) -> None:
    while True:
        newer = snapshot.refresh()
        if newer.position > snapshot.position:
            for entry in log_entries.since(newer, max(first, snapshot.position + 1), matches):
                _print(session, entry)
        snapshot = newer
        workspace.clock.sleep(interval)


def _print(session: Session, entry: LogEntry) -> None:
    if session.json:
        render.line(log_entries.document(entry))
    else:
        render.out(log_entries.one_line(entry))


@command(app, "show", example="servo admin log show 42")
def show(
    session: Session,
    position: Annotated[int, argument("POSITION", "The event's position in the log.", min=1)],
) -> None:
    """Show one event in full, and the outcome if it is a command."""
    session.require_store()
    workspace = session.open()
    snapshot = workspace.read.snapshot()
    entry = next(iter(log_entries.since(snapshot, position, limit=1)), None)
    if entry is None:
        raise NotFound(
            f"the log has no position {position}", hint=f"the log ends at {snapshot.position}"
        )
    outcome = log_entries.outcome(snapshot, entry)
    if session.json:
        render.document(log_entries.document(entry) | {"outcome": outcome})
    else:
        render.show(*log_entries.whole(entry, outcome))
