"""A log whose events have fixed ids and times."""

from __future__ import annotations

from arco.log.envelope import Payload, Recorded, make_event
from tests.kit.runs import Folding


class Log(Folding):
    """A log whose events have fixed ids and times."""

    def record(self, payload: Payload, *, key: str = "", actor: str = "") -> Recorded:
        self.position += 1
        event = make_event(
            payload,
            id=f"01K0NEWEST{self.position:016d}",
            time=self.now,
            source="golden",
            tenant="acme",
            workspace="prod",
            idempotency_key=key,
            actor=actor,
        )
        recorded = Recorded(self.position, self.now, event, payload)
        self.log.append(recorded)
        return recorded

    def do(self, payload: Payload, *, key: str = "", actor: str = "ana") -> str:
        """Append and fold, a minute later; the event's id."""
        recorded = self.wait(60).record(payload, key=key, actor=actor)
        self.fold([recorded])
        return recorded.event.id
