"""`servo admin compact`: the process that commits and merges."""

from __future__ import annotations

import threading
from typing import Annotated

import typer

from arco.cli import deferral
from arco.cli.allocator import CACHED_BYTES, use_little_memory
from arco.cli.options import command, flag, option
from arco.cli.stop_signal import stop_on_signal

if deferral.LOADED:
    from rich.text import Text

    from arco.app import Workspace
    from arco.cli import render
    from arco.cli.session import Session
    from arco.log.head import Head


def register(app: typer.Typer) -> None:
    example = "servo admin compact\nservo admin compact --once"
    command(app, "compact", example=example, before=use_little_memory)(compact)


def compact(
    session: Session,
    once: Annotated[
        bool, flag("--once", "Commit the whole inbox, merge what is due, and exit.")
    ] = False,
    interval: Annotated[float, option("S", "Seconds between reads of the inbox.", min=0.01)] = 1.0,
) -> None:
    """Commit the events of the inbox, until it is stopped.

    It also merges table files. After SIGTERM or Ctrl-C it commits what was appended before, and
    exits. Any number of these processes may run on one workspace; each may be killed at any time.
    """
    workspace = session.open(cache_budget_bytes=CACHED_BYTES)
    stop = threading.Event()
    compactor = workspace.upkeep.compactor(
        stop,
        interval_s=interval,
        merge_interval_s=interval,
        announce=lambda head, events: _announce(session, head, events),
    )
    if once:
        compactor.drain()
        if (merged := workspace.upkeep.merger.merge()) is not None:
            _announce(session, merged, 0)
        _end(session, workspace)
        return
    stop_on_signal(stop)
    _begin(session, workspace)
    compactor.run()
    _end(session, workspace)


def _begin(session: Session, workspace: Workspace) -> None:
    generation = workspace.read.snapshot().generation
    if session.json:
        render.line({"state": "started", "generation": generation})
    else:
        render.say(
            f"compacting {workspace.store.url} from generation {generation}; press Ctrl-C to stop"
        )


def _end(session: Session, workspace: Workspace) -> None:
    generation = workspace.read.snapshot().generation
    if session.json:
        render.line({"state": "stopped", "generation": generation})
    else:
        render.say(f"the inbox is empty; stopped at generation {generation}")


def _announce(session: Session, head: Head, events: int) -> None:
    manifest = head.manifest
    if session.json:
        first = render.picked(manifest, "generation", "kind", "published_at")
        rest = render.picked(manifest, "position", "rejected", "skipped")
        render.line({"state": "published", **first, "events": events, **rest})
        return
    text = Text(f"{manifest.generation:>6}  ", "bold")
    text.append(f"{render.cell(manifest.published_at)}  ", "dim")
    if events or manifest.rejected:
        text.append(f"{render.count(events, 'event')}, to position {manifest.position:,}")
    else:
        text.append(manifest.kind)
    if manifest.rejected:
        text.append(f", {render.count(len(manifest.rejected), 'batch', 'batches')} rejected", "red")
    if manifest.skipped:
        text.append(f", {sum(manifest.skipped.values())} skipped", "yellow")
    render.out(text)
