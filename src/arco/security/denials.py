"""Records refused API calls in the audit log, within bounds.

A caller that is refused a million times must not fill the log: equal refusals within a minute are
one fact with a count, and the facts of a minute have a maximum. Refusals above it are counted in
one more fact.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

import msgspec

from arco.errors import Unavailable
from arco.log.append import Ledger
from arco.log.envelope import Event
from arco.security.caller import Caller
from arco.security.events import AccessDenied

WINDOW: Final = timedelta(minutes=1)
MAX_FACTS: Final = 100
"""Of one window."""
MAX_TEXT: Final = 200

_DenialKey = tuple[str, str, str, str, str]
replace = msgspec.structs.replace


class DenialLog:
    """Collects refusals; `flush` appends those of the window that is over."""

    def __init__(self, ledger: Ledger, now: Callable[[], datetime]) -> None:
        self._ledger = ledger
        self._now = now
        self._lock = threading.Lock()
        self._since = now()
        self._facts: dict[_DenialKey, tuple[Caller, AccessDenied]] = {}
        self._overflow = 0

    def note(self, caller: Caller, denied: AccessDenied) -> None:
        """Remember a refusal. Does no I/O."""
        fact = replace(
            denied,
            operation=_cut(denied.operation),
            resource=_cut(denied.resource),
            namespace=_cut(denied.namespace),
        )
        key = (caller.actor, fact.operation, fact.permission, fact.namespace, fact.resource)
        with self._lock:
            before = self._facts.get(key)
            if before is not None:
                count = before[1].count + fact.count
                self._facts[key] = (before[0], replace(before[1], count=count))
            elif len(self._facts) < MAX_FACTS:
                self._facts[key] = (caller, fact)
            else:
                self._overflow += fact.count

    def flush(self, *, everything: bool = False) -> int:
        """Append the facts of a window that is over, as one batch; how many there were.

        Raises Unavailable while the store is away, and keeps them for the next flush.
        """
        with self._lock:
            if not everything and self._now() - self._since < WINDOW:
                return 0
            facts, overflow = list(self._facts.values()), self._overflow
            self._facts, self._overflow, self._since = {}, 0, self._now()
        events: list[Event] = [
            self._ledger.acting(caller.actor, caller.origin).event(fact) for caller, fact in facts
        ]
        if overflow:
            others = AccessDenied(operation="others", code="too_many", count=overflow)
            events.append(self._ledger.event(others))
        if events:
            try:
                self._ledger.append(events)
            except Unavailable:
                for caller, fact in facts:
                    self.note(caller, fact)
                with self._lock:
                    self._overflow += overflow
                raise
        return len(events)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + "…"
