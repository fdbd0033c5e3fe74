"""Planning what was asked for: a request becomes a run, or is refused with the reason.

Several orchestrators may plan the same request. Each appends a trigger under the request's key,
and the first one in the log counts.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from arco.errors import Error, Invalid, NotFound
from arco.log.envelope import Event, Payload
from arco.orchestration.events import RefusalCode, RunRequestRefused
from arco.orchestration.planner import NoPartitions
from arco.orchestration.planning import PlannedRun, RunPlanner, RunSettings
from arco.orchestration.reader import Library
from arco.orchestration.run_requests import decode_request
from arco.orchestration.tables import RunRequestRow
from arco.state.core import Core
from arco.state.snapshot import Snapshot
from arco.state.writer import LogWriter

log = logging.getLogger(__name__)

BUDGET_S = 0.5
"""How long one round plans; what is left waits for the next, and tasks are served in between."""
BATCH_EVENTS = 200
GONE: RefusalCode = "partitions_gone"


class RequestPlanner:
    def __init__(
        self, core: Core, writer: LogWriter, library: Library, *, repeat_s: float = 10.0
    ) -> None:
        """A request that is still pending `repeat_s` after it was planned is planned again."""
        self._clock = core.clock
        self._ledger = writer.ledger
        self._planner = RunPlanner(core, library, actor="orchestrator")
        self._repeat_s = repeat_s
        self._planned_at: dict[str, float] = {}
        self.has_more = False
        """Whether the last round had no time for all requests."""

    def plan(self, requests: Sequence[RunRequestRow], snapshot: Snapshot) -> int:
        """Plan requests and append what comes of them; how many.

        Raises what a store may raise: those requests are still pending.
        """
        now = self._clock.monotonic()
        pending = {row.request_key for row in requests}
        self._planned_at = {
            key: at
            for key, at in self._planned_at.items()
            if key in pending and now - at < self._repeat_s
        }
        events: list[Event | Payload] = []
        keys: list[str] = []
        before, self.has_more = len(self._planned_at), False
        for row in requests:
            if row.request_key in self._planned_at:
                continue
            if events and self._clock.monotonic() - now > BUDGET_S:
                self.has_more = True
                break
            events += self._events(row, snapshot)
            keys.append(row.request_key)
            if len(events) >= BATCH_EVENTS:
                self._append(events, keys)
                events, keys = [], []
        self._append(events, keys)
        return len(self._planned_at) - before

    def _append(self, events: Sequence[Event | Payload], keys: Sequence[str]) -> None:
        if events:
            self._ledger.append(events)
        self._planned_at.update(dict.fromkeys(keys, self._clock.monotonic()))

    def _events(self, row: RunRequestRow, snapshot: Snapshot) -> list[Event | Payload]:
        try:
            planned = self._run(row, snapshot)
        except NoPartitions as error:
            code: RefusalCode = "" if decode_request(row.request).chunk is None else GONE
            return [_refusal(row, error.message, error.hint, code)]
        except (Invalid, NotFound) as error:
            return [_refusal(row, error.message, error.hint)]
        except Error:
            raise
        except Exception as error:  # it must not keep the others from being planned
            log.exception("request %s cannot be planned", row.request_key)
            text = f"planning failed with {type(error).__name__}: {error}"
            return [_refusal(row, text, "this is a bug in arco; the orchestrator's log has more")]
        key = f"request:{row.request_key}"
        return [self._ledger.event(planned.event, idempotency_key=key), *planned.along]

    def _run(self, row: RunRequestRow, snapshot: Snapshot) -> PlannedRun:
        settings = RunSettings(
            run_key=row.request_key,
            run_id=row.run_id,
            trigger=row.kind,
            reference=row.reference,
            timeout_s=row.timeout_s,
            priority=row.priority,
        )
        return self._planner.run(snapshot, decode_request(row.request), settings, row.until)


def _refusal(
    row: RunRequestRow, reason: str, hint: str, code: RefusalCode = ""
) -> RunRequestRefused:
    return RunRequestRefused(request_key=row.request_key, reason=reason, hint=hint, code=code)
