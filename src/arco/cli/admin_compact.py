"""`servo admin compact`: the process that commits and merges."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from arco.cli.options import command
from arco.cli.session import Session

if TYPE_CHECKING:
    from arco.app import Workspace
    from arco.log.head import Head


def register(app: typer.Typer) -> None:
    command(app, "compact", example="servo admin compact\nservo admin compact --once")(compact)


def compact(
    session: Session,
    once: Annotated[
        bool, typer.Option("--once", help="Empty the inbox, merge what is due, and end.")
    ] = False,
    interval: Annotated[
        float, typer.Option(min=0.01, metavar="S", help="How often to look at the inbox.")
    ] = 1.0,
) -> None:
    """Commit what is in the inbox, and merge beside that, until told to stop.

    SIGTERM and Ctrl-C let it finish: what was appended before is committed. Any
    number of these may run on one workspace, and each may be killed at any time.
    """
    workspace = session.open()
    stop = threading.Event()
    announce(workspace, lambda head: _said(session, head))
    compactor = workspace.compactor(stop, interval_s=interval, merge_interval_s=interval)
    if once:
        compactor.drain()
        workspace.merger.merge()
        return
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    _begin(session, workspace)
    compactor.run()
    _end(session, workspace)


def announce(workspace: Workspace, said: Callable[[Head], None]) -> None:
    """Have each generation that this process commits or merges said."""
    from arco.log.commit import Committed, Committer, Outcome
    from arco.state.merge import Merger

    class Announcing(Committer):
        def __init__(self, inner: Committer) -> None:
            self._inner = inner

        def commit(self, names: Sequence[str] = ()) -> Outcome:
            outcome = self._inner.commit(names)
            if isinstance(outcome, Committed):
                said(outcome.head)
            return outcome

    class AnnouncingMerger(Merger):
        def __init__(self, inner: Merger) -> None:
            self._inner = inner

        def merge(self, *, everything: bool = False) -> Head | None:
            head = self._inner.merge(everything=everything)
            if head is not None:
                said(head)
            return head

    workspace.committer = Announcing(workspace.committer)
    workspace.merger = AnnouncingMerger(workspace.merger)


def _begin(session: Session, workspace: Workspace) -> None:
    from arco.cli import render

    generation = workspace.snapshot().generation
    if session.json:
        render.line({"state": "started", "generation": generation})
    else:
        render.say(f"compacting {workspace.store.url} from generation {generation}; Ctrl-C ends it")


def _end(session: Session, workspace: Workspace) -> None:
    from arco.cli import render

    generation = workspace.snapshot().generation
    if session.json:
        render.line({"state": "stopped", "generation": generation})
    else:
        render.say(f"the inbox is empty; stopped at generation {generation}")


def _said(session: Session, head: Head) -> None:
    from rich.text import Text

    from arco.cli import render

    manifest = head.manifest
    segment = manifest.segment
    events = segment.last - segment.first + 1 if segment else 0
    if session.json:
        render.line(
            {
                "state": "published",
                "generation": manifest.generation,
                "kind": manifest.kind,
                "published_at": manifest.published_at,
                "events": events,
                "position": manifest.position,
                "rejected": manifest.rejected,
                "skipped": manifest.skipped,
            }
        )
        return
    text = Text(f"{manifest.generation:>6}  ", "bold")
    text.append(f"{render.cell(manifest.published_at)}  ", "dim")
    if segment is None:
        text.append(manifest.kind)
    else:
        text.append(f"{render.count(events, 'event')}, to position {segment.last:,}")
    if manifest.rejected:
        text.append(f", {render.count(len(manifest.rejected), 'batch', 'batches')} rejected", "red")
    if manifest.skipped:
        text.append(f", {sum(manifest.skipped.values())} skipped", "yellow")
    render.out(text)
