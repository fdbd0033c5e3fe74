"""Events of the log for streams: what happened, to what, and at which position.

There is one tail for each workspace: it reads new generations while there are listeners, and keeps
the newest events. A listener has only a position, so a slow one costs no memory: when it has fallen
behind the tail, it reads the log itself, a bounded number of events at a time.

An event shows what it is about, not its content: that needs another request, with all checks.
Events about keys and roles are only in the audit log.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Final

import msgspec

from arco.api.routes import AtParameters
from arco.api.run_visibility import sees_whole_run
from arco.api.served import ServedWorkspace
from arco.api.views import View
from arco.log.envelope import Recorded
from arco.orchestration.tables import RUNS
from arco.security.visibility import Visible
from arco.state.replay import read_log

KEPT: Final = 5_000
SLICE: Final = 500
LOOK_S: Final = 0.5
_HIDDEN: Final = ("security.",)
_ASSETS: Final = ("asset_key", "asset", "key", "target")


class LogEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    position: int
    type: str
    received_at: datetime
    event_id: str
    actor: str = ""
    run_id: str = ""
    task_id: str = ""
    asset: str = ""
    namespace: str = ""
    project: str = ""
    backfill_id: str = ""


class EventFilter(msgspec.Struct, frozen=True, kw_only=True):
    types: tuple[str, ...] = ()
    """Types, or beginnings of them that end with a dot: `orchestration.`."""
    run_id: str = ""
    asset: str = ""

    def matches(self, event: LogEvent) -> bool:
        if self.run_id and event.run_id != self.run_id:
            return False
        if self.asset and event.asset != self.asset:
            return False
        return not self.types or any(
            event.type == each or (each.endswith(".") and event.type.startswith(each))
            for each in self.types
        )


def read_events(served: ServedWorkspace, after: int, limit: int) -> tuple[list[LogEvent], int]:
    """Events after a position, and the position up to which they are complete. Reads the store."""
    snapshot = served.newest()
    types = served.workspace.core.types
    if after >= snapshot.position:
        return [], after
    recorded = list(islice(read_log(snapshot, types, first=after + 1), limit))
    events = [event for each in recorded if (event := _event(each)) is not None]
    done = recorded[-1].position if len(recorded) == limit else snapshot.position
    return events, done


def _event(recorded: Recorded) -> LogEvent | None:
    event, payload = recorded.event, recorded.payload
    if payload is None or event.type.startswith(_HIDDEN):
        return None
    asset = next((text for name in _ASSETS if "." in (text := _text(payload, name))), "")
    namespace = _text(payload, "namespace") or asset.partition(".")[0]
    if not asset and namespace and (name := _text(payload, "name")):
        asset = f"{namespace}.{name}"
    return LogEvent(
        position=recorded.position,
        type=event.type,
        received_at=recorded.received_at,
        event_id=event.id,
        actor=event.actor,
        run_id=_text(payload, "run_id"),
        task_id=_text(payload, "task_id"),
        asset=asset,
        namespace=namespace,
        project=_text(payload, "project"),
        backfill_id=_text(payload, "backfill_id"),
    )


def _text(payload: object, name: str) -> str:
    value = getattr(payload, name, "")
    return value if isinstance(value, str) else ""


def seen_events(
    served: ServedWorkspace, events: Sequence[LogEvent], visible: Visible
) -> Iterator[LogEvent]:
    """Events of visible namespaces. Events whose namespace is unknown are left out."""
    if visible.all:
        yield from events
        return
    view = served.view(AtParameters())
    for event in events:
        if _is_seen(view, event, visible):
            yield event


def _is_seen(view: View, event: LogEvent, visible: Visible) -> bool:
    if event.namespace:
        return visible.sees(event.namespace)
    if not event.run_id:
        return False
    row = view.snapshot.get(RUNS, event.run_id)
    return row is not None and sees_whole_run(view, visible, row)


class Tail:
    """The newest events of a workspace, for all who listen. Used by the event loop alone."""

    def __init__(self, served: ServedWorkspace) -> None:
        self.served = served
        self.events: deque[LogEvent] = deque(maxlen=KEPT)
        self.first = 0
        """Events after this position are all here."""
        self.position = 0
        self.changed = asyncio.Event()
        self.listeners = 0

    def begin(self, position: int) -> None:
        self.first = self.position = position

    def add(self, events: Sequence[LogEvent], position: int) -> None:
        for event in events:
            if len(self.events) == KEPT:
                self.first = self.events[0].position
            self.events.append(event)
        self.position = position
        self.changed.set()
        self.changed = asyncio.Event()

    def after(self, position: int, limit: int) -> tuple[list[LogEvent], int] | None:
        """Events after a position; None if some of them are not kept any more."""
        if position < self.first:
            return None
        # The newest are at the end; most listeners need only those.
        newer = itertools.takewhile(lambda event: event.position > position, reversed(self.events))
        events = list(newer)[::-1][:limit]
        return events, events[-1].position if len(events) == limit else self.position
