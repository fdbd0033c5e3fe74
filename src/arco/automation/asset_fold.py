"""The fold of the automation of assets: one key for all of it.

Orchestrators evaluate what changed, and propose partitions to run. A proposal has the number of
decisions before it; of several with the same number the first one counts, and the events of one
proposal count in order. So each change is handled once, and a proposal sees what the one before it
requested.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import msgspec

from arco.automation.asset_events import (
    AutomationAdvanced,
    AutomationPaused,
    AutomationRequest,
    AutomationResumed,
)
from arco.automation.asset_tables import (
    AUTOMATION_CURSOR,
    AUTOMATION_HOLDS,
    AUTOMATIONS,
    SCOPE,
    AutomationCursorRow,
    AutomationHoldRow,
    AutomationRow,
    AutomationState,
)
from arco.orchestration.declarations import AutomationDeclared, AutomationRemoved
from arco.orchestration.plan import PlanRequest
from arco.orchestration.run_requests import RunAsked, packed_request, request_fingerprint
from arco.orchestration.states import RunTrigger
from arco.state.copied_rows import row_from
from arco.state.fold import Change, Delete, Emit, Fact, On, Put, Rows, Stage, always
from arco.state.system import applied, refused

replace = msgspec.structs.replace
AHEAD = timedelta(minutes=5)
"""How far the clock of an orchestrator may be ahead of the store's."""


def request_of(request: AutomationRequest) -> PlanRequest:
    return PlanRequest(selection=request.assets, partitions=request.partitions)


def _declare(rows: Rows, fact: Fact, e: AutomationDeclared) -> Iterator[Change]:
    declared = e.declaration
    row = row_from(
        AutomationRow,
        e,
        declared,
        scope=SCOPE,
        asset_key=declared.name,
        state=AutomationState.ACTIVE,
        since=fact.position,
        since_at=fact.received_at,
        ticked_at=fact.received_at,
        ticked_position=fact.position,
        requested_at=None,
        request_key="",
        cause="",
        paused_at=None,
        paused_by="",
        pause_reason="",
        paused_position=0,
        replay_from=0,
    )
    old = rows.get(AUTOMATIONS, SCOPE, declared.name)
    if old is not None:
        row = replace(
            row,
            state=AutomationState.ACTIVE if old.paused_at is None else AutomationState.PAUSED,
            requested_at=old.requested_at,
            request_key=old.request_key,
            cause=old.cause,
            paused_at=old.paused_at,
            paused_by=old.paused_by,
            pause_reason=old.pause_reason,
            paused_position=fact.position if old.paused_at else 0,
        )
    yield Put(AUTOMATIONS, row)
    if rows.get(AUTOMATION_CURSOR, SCOPE) is None:
        # Before this declaration: it is the first thing to look at.
        cursor = AutomationCursorRow(SCOPE, 0, fact.position - 1, fact.received_at)
        yield Put(AUTOMATION_CURSOR, cursor)


def _remove(rows: Rows, fact: Fact, e: AutomationRemoved) -> Iterator[Change]:
    row = rows.get(AUTOMATIONS, SCOPE, e.name)
    if row is not None:
        removed = replace(row, state=AutomationState.REMOVED, deployment_id=e.deployment_id)
        yield Put(AUTOMATIONS, removed)


def _pause(rows: Rows, fact: Fact, e: AutomationPaused) -> Iterator[Change]:
    row = rows.get(AUTOMATIONS, SCOPE, e.asset)
    if row is None or row.state == AutomationState.REMOVED:
        yield refused(fact, "automation_not_found", f"{e.asset} has no automation")
        return
    if row.state == AutomationState.ACTIVE:
        paused = replace(
            row,
            state=AutomationState.PAUSED,
            paused_at=fact.received_at,
            paused_by=fact.actor,
            pause_reason=e.reason,
            paused_position=fact.position,
        )
        yield Put(AUTOMATIONS, paused)
    yield applied(fact)


def _resume(rows: Rows, fact: Fact, e: AutomationResumed) -> Iterator[Change]:
    row = rows.get(AUTOMATIONS, SCOPE, e.asset)
    if row is None or row.state == AutomationState.REMOVED:
        yield refused(fact, "automation_not_found", f"{e.asset} has no automation")
        return
    if row.state == AutomationState.PAUSED:
        resumed = replace(
            row,
            state=AutomationState.ACTIVE,
            paused_at=None,
            paused_by="",
            pause_reason="",
            paused_position=0,
            replay_from=row.paused_position if e.catchup == "all" else 0,
        )
        if e.catchup == "none":
            now = fact.received_at
            resumed = replace(
                resumed,
                since=fact.position,
                since_at=now,
                ticked_at=now,
                ticked_position=fact.position,
            )
        yield Put(AUTOMATIONS, resumed)
    yield applied(fact)


def _advance(rows: Rows, fact: Fact, e: AutomationAdvanced) -> Iterator[Change]:
    cursor = rows.get(AUTOMATION_CURSOR, SCOPE)
    if cursor is None or cursor.step != e.step or e.position < cursor.position:
        return
    if e.part and e.proposal != cursor.proposal:
        return  # another one came in between
    if max(e.position, e.ticked_position) > fact.position or e.until > fact.received_at + AHEAD:
        return  # this cannot have been evaluated yet
    cursor = replace(cursor, step=e.step + 1, proposal=e.proposal)
    if not e.has_more:
        cursor = replace(cursor, position=e.position, until=max(cursor.until, e.until))
        for held in e.held:
            yield Put(AUTOMATION_HOLDS, AutomationHoldRow(SCOPE, held.asset, held.partition))
        for released in e.released:
            yield Delete(AUTOMATION_HOLDS, (SCOPE, released.asset, released.partition))
    yield Put(AUTOMATION_CURSOR, cursor)
    changed: dict[str, AutomationRow] = {}
    for key in e.ticked:
        row = rows.get(AUTOMATIONS, SCOPE, key)
        if row is not None:
            ticked = max(row.ticked_at, e.until)
            changed[key] = replace(row, ticked_at=ticked, ticked_position=e.ticked_position)
    for number, request in enumerate(e.requests):
        active: list[str] = []
        request_key = f"{RunTrigger.MATERIALIZATION}:{e.step}.{number}"
        for key in request.assets:
            row = changed.get(key) or rows.get(AUTOMATIONS, SCOPE, key)
            if row is not None and row.is_active:
                active.append(key)
                changed[key] = replace(
                    row,
                    requested_at=fact.received_at,
                    request_key=request_key,
                    cause=request.cause,
                )
        if active:
            yield Emit(_run_request(request_key, replace(request, assets=tuple(active)), e))
    for row in changed.values():
        yield Put(AUTOMATIONS, row)


def _run_request(
    request_key: str, automation_request: AutomationRequest, e: AutomationAdvanced
) -> RunAsked:
    request = request_of(automation_request)
    return RunAsked(
        request_key=request_key,
        fingerprint=request_fingerprint(request),
        kind=RunTrigger.MATERIALIZATION,
        reference=automation_request.cause,
        until=e.until,
        **packed_request(request),
    )


_one_key = always(SCOPE)
STAGE = Stage(
    "automations",
    (AUTOMATIONS, AUTOMATION_CURSOR, AUTOMATION_HOLDS),
    (
        On(AutomationDeclared, _one_key, _declare),
        On(AutomationRemoved, _one_key, _remove),
        On(AutomationPaused, _one_key, _pause),
        On(AutomationResumed, _one_key, _resume),
        On(AutomationAdvanced, _one_key, _advance),
    ),
)
