"""Plans requests: a request becomes a run, or is refused with the reason.

Several orchestrators may plan the same request. Each appends a trigger under the request's key,
and the first one in the log counts.
"""

from __future__ import annotations

import functools
import hashlib
import logging
from collections.abc import Sequence

from arco.errors import Error, Invalid, NotFound
from arco.log.envelope import MAX_BATCH_BYTES, Event, Payload, encode_payload
from arco.orchestration.events import RefusalCode, RunRequestRefused
from arco.orchestration.limit_tables import DeclaredLimits, LimitReached, Permit
from arco.orchestration.planner import NoPartitions
from arco.orchestration.planning import PlannedRun, RunPlanner, RunSettings
from arco.orchestration.reader import Library
from arco.orchestration.run_requests import decode_request
from arco.orchestration.states import RunTrigger
from arco.orchestration.tables import RunRequestRow
from arco.orchestration.world import World
from arco.state.core import Core
from arco.state.snapshot import Snapshot
from arco.state.writer import LogWriter
from arco.storage.parallel import each

log = logging.getLogger(__name__)

BUDGET_S = 0.5
"""Maximum duration of one round; the rest waits for the next, and tasks are served in between."""
TOGETHER = 64
"""Plans of this many requests are stored together."""
BATCH_BYTES = MAX_BATCH_BYTES // 2
REASON_CHARS = 4_000

Decision = PlannedRun | RunRequestRefused
GONE: RefusalCode = "partitions_gone"


class RequestPlanner:
    def __init__(
        self, core: Core, writer: LogWriter, library: Library, *, repeat_s: float = 10.0
    ) -> None:
        """A request that is still pending `repeat_s` after it was planned is planned again."""
        self._store = core.store
        self._clock = core.clock
        self._ledger = writer.ledger
        self._planner = RunPlanner(core, library, actor="orchestrator")
        self.library = library
        self.world = self._planner.world
        self._repeat_s = repeat_s
        self._planned_at: dict[str, float] = {}
        self.has_more = False
        """Whether the last round had no time for all requests."""
        self._permit: Permit | None = None
        """Of what was planned last, if limits count runs."""
        self._was_paused = False

    def saw_limits(self, declared: DeclaredLimits) -> None:
        """Requests that were refused by a limit or a pause are planned again."""
        permit, control = self._permit, declared.control
        is_decided = permit is not None and control.runs_position > permit.position
        if is_decided or (self._was_paused and not declared.is_paused):
            self._planned_at.clear()
            self._permit = None
        self._was_paused = declared.is_paused

    def plan(
        self,
        requests: Sequence[RunRequestRow],
        snapshot: Snapshot,
        permit: Permit | None = None,
    ) -> int:
        """Plan requests and append the results; returns their number.

        `permit`: limits leave room for all of them. Raises errors of the store: then the requests
        are still pending.
        """
        now = self._clock.monotonic()
        pending = {row.request_key for row in requests}
        self._planned_at = {
            key: at
            for key, at in self._planned_at.items()
            if key in pending and now - at < self._repeat_s
        }
        left = [row for row in requests if row.request_key not in self._planned_at]
        if left:
            self._permit = permit
        world = _World(self._planner, snapshot)
        planned = 0
        while planned < len(left) and (not planned or self._clock.monotonic() - now < BUDGET_S):
            planned += self._plan(left[planned : planned + TOGETHER], world, now)
        self.has_more = planned < len(left)
        return planned

    def _plan(self, requests: Sequence[RunRequestRow], world: _World, since: float) -> int:
        """Plan some of the requests, at least one, and append the results."""
        decided: list[tuple[RunRequestRow, Decision]] = []
        for row in requests:
            if decided and self._clock.monotonic() - since > BUDGET_S:
                break
            decided.append((row, self._decided(row, world)))
        runs = [decision for _, decision in decided if isinstance(decision, PlannedRun)]
        each(self._store, self._planner.store, runs)
        batch: list[tuple[RunRequestRow, Decision]] = []
        size = 0
        for row, decision in decided:
            decision_bytes = _size(decision)
            if batch and size + decision_bytes > BATCH_BYTES:
                self._append(batch)
                batch, size = [], 0
            batch.append((row, decision))
            size += decision_bytes
        self._append(batch)
        now = self._clock.monotonic()
        self._planned_at.update({row.request_key: now for row, _ in decided})
        return len(decided)

    def _append(self, decided: Sequence[tuple[RunRequestRow, Decision]]) -> None:
        """Append one batch. If the log refuses it, append one result at a time, and refuse the
        requests that do not fit."""
        try:
            events = [event for row, decision in decided for event in self._events(row, decision)]
            if events:
                self._ledger.append(events)
        except Invalid as error:
            if len(decided) > 1:
                for one in decided:
                    self._append([one])
                return
            row = decided[0][0]
            log.error("request %s cannot be recorded: %s", row.request_key[:100], error)
            self._ledger.append([_refusal(row, f"its run cannot be recorded: {error.message}", "")])

    def _decided(self, row: RunRequestRow, world: _World) -> Decision:
        try:
            return self._run(row, world)
        except NoPartitions as error:
            code: RefusalCode = "" if decode_request(row.request).chunk is None else GONE
            return _refusal(row, error.message, error.hint, code)
        except (Invalid, NotFound, LimitReached) as error:
            return _refusal(row, error.message, error.hint)
        except Error:
            raise
        except Exception as error:  # it must not stop the others
            log.exception("request %s cannot be planned", row.request_key)
            text = f"planning failed with {type(error).__name__}: {error}"
            return _refusal(row, text, "this is a bug in arco; the orchestrator's log has more")

    def _events(self, row: RunRequestRow, decision: Decision) -> list[Event | Payload]:
        if isinstance(decision, RunRequestRefused):
            return [decision]
        # A run that limits or a pause refuse is planned again, as another command.
        name = f"{row.request_key} {decision.plan.plan_id}"
        key = f"request:{hashlib.sha256(name.encode()).hexdigest()}"
        return [self._ledger.event(decision.event, idempotency_key=key), *decision.along]

    def _run(self, row: RunRequestRow, world: _World) -> PlannedRun:
        settings = RunSettings(
            run_key=row.request_key,
            run_id=row.run_id,
            trigger=row.kind,
            reference=row.reference,
            timeout_s=row.timeout_s,
            priority=row.priority,
            triggered_by=row.requested_by if row.kind == RunTrigger.MANUAL else "",
            permit=self._permit,
        )
        request = decode_request(row.request)
        whole = None if request.deployments else world.whole
        return self._planner.run(world.snapshot, request, settings, row.until, whole)


class _World:
    """What is deployed, read once for all requests of a round."""

    def __init__(self, planner: RunPlanner, snapshot: Snapshot) -> None:
        self._planner = planner
        self.snapshot = snapshot

    @functools.cached_property
    def whole(self) -> World:
        return self._planner.world(self.snapshot)


def _refusal(
    row: RunRequestRow, reason: str, hint: str, code: RefusalCode = ""
) -> RunRequestRefused:
    return RunRequestRefused(
        request_key=row.request_key,
        reason=reason[:REASON_CHARS],
        hint=hint[:REASON_CHARS],
        code=code,
    )


def _size(decision: Decision) -> int:
    """Its approximate size in a batch, in bytes."""
    if isinstance(decision, RunRequestRefused):
        return 3 * REASON_CHARS
    return 20_000 + sum(len(encode_payload(planned)) + 1_000 for planned in decision.along)
