"""`servo requests`: requests for runs, and their outcomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

import msgspec

from arco.cli import deferral
from arco.cli.options import Limit, Reason, argument, command, group, option

if deferral.LOADED:
    from arco.cli import render
    from arco.cli.session import Session
    from arco.cli.short_ids import short
    from arco.errors import Invalid
    from arco.orchestration.limit_tables import pause_text
    from arco.orchestration.limit_usage import run_limit_reached
    from arco.orchestration.reader import OrchestrationReader
    from arco.orchestration.states import RequestState
    from arco.orchestration.tables import RunRequestRow
    from arco.orchestration.triggers import trigger_text

app = group("requests", "Show run requests and their outcomes.")


@command(app, "list", example="servo requests list --state REFUSED", takes=["at"])
def list_(
    session: Session,
    limit: Limit = 20,
    state: Annotated[str | None, option("STATE", "Only requests in this state.")] = None,
) -> None:
    """List run requests, newest first.

    Schedules, sensors, automation, backfills, freshness policies and `servo run --remote
    --detach` create requests, which an orchestrator plans. A request is PENDING until then, and
    TRIGGERED, REFUSED or MERGED (its key already has a run) afterwards.
    """
    if state is not None and state.upper() not in RequestState.__members__:
        states = ", ".join(RequestState)
        raise Invalid(f"{state!r} is not a state of a request", hint=f"one of {states}")
    workspace = session.open()
    reader = workspace.read.orchestration(session.at())
    in_states = () if state is None else (state.upper(),)
    rows, is_complete = reader.run_requests(limit=limit, in_states=in_states)
    if session.json:
        requests = [plain_request(row) for row in rows]
        render.document({"generation": reader.snapshot.generation, "requests": requests})
        return
    if not rows:
        render.say("there are no requests" + (f" in state {state.upper()}" if state else ""))
    else:
        headers = ("request", "state", "run", "requested", "cause", "what")
        chunks = workspace.commands.backfills.chunk_texts(reader.snapshot, rows)
        lines = [
            (
                row.request_key,
                row.state,
                short(row.run_id) or None,
                row.requested_at,
                trigger_text(row.kind, row.reference, row.requested_by, row.request_key),
                _requested(row, chunks),
            )
            for row in rows
        ]
        whole = ("request", "state", "run", "requested")
        render.show_table(headers, lines, whole=whole)
    if not is_complete:
        render.note("there are older requests; see --limit")


@command(
    app,
    "show",
    example="servo requests show schedule:default/nightly@2026-01-31T02:30",
    takes=["at"],
)
def show(
    session: Session,
    request: Annotated[str, argument("REQUEST", "The key of a request, or the id of its run.")],
) -> None:
    """Show a request: its author, its selection and its outcome."""
    workspace = session.open()
    reader = workspace.read.orchestration(session.at())
    row = reader.run_request(request)
    now = workspace.clock.now()
    chunks = workspace.commands.backfills.chunk_texts(reader.snapshot, [row])
    if session.json:
        waits = row.state == RequestState.PENDING
        more: dict[str, Any] = {"waiting": pending_text(row, reader, now) if waits else None}
        if row.request_key in chunks:
            more["chunk"] = chunks[row.request_key]
        render.document(plain_request(row) | more)
    else:
        show_request(row, reader, now, chunks)


@command(
    app,
    "cancel",
    example="servo requests cancel schedule:main/nightly@2026-01-31T02:30",
    takes=["actor"],
)
def cancel(
    session: Session,
    request: Annotated[list[str], argument("REQUEST", "Keys of requests.")],
    reason: Reason = "",
) -> None:
    """Cancel requests that no orchestrator has planned yet. Their keys cannot start a run
    afterwards."""
    workspace = session.open()
    for key in request:
        workspace.commands.orchestration.withdraw(key, reason=reason or "cancelled")
    reader = workspace.read.orchestration()
    rows = [reader.run_request(key) for key in request]
    if session.json:
        render.document({"requests": [plain_request(row) for row in rows]})
        return
    for row in rows:
        render.say(f"{row.request_key} is {row.state}: {row.reason}")


def show_request(
    row: RunRequestRow,
    reader: OrchestrationReader,
    now: datetime,
    chunks: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """`chunks` has the partitions of requests for chunks, by their keys."""
    render.show_fields(
        {
            "request": row.request_key,
            "state": row.state,
            "cause": trigger_text(row.kind, row.reference, row.requested_by, row.request_key),
            "selection": " ".join(row.selection),
            "partitions": " ".join((chunks or {}).get(row.request_key, row.partitions)) or None,
            "requested": row.requested_at,
            "decided": row.decided_at,
            "run": row.run_id or None,
            "reason": row.reason or None,
            "hint": row.hint or None,
        }
    )
    if row.state == RequestState.PENDING:
        render.say(f"waiting: {pending_text(row, reader, now)}", "yellow")


def pending_text(row: RunRequestRow, reader: OrchestrationReader, now: datetime) -> str:
    """What a request that is pending waits for."""
    declared = reader.limits()
    if declared.is_paused:
        return f"{pause_text(declared.control)}; see `servo resume`"
    reached = run_limit_reached(declared, reader.run_use(now), row.kind)
    return "an orchestrator plans it (`servo orchestrator`)" if reached is None else str(reached)


def plain_request(row: RunRequestRow) -> dict[str, Any]:
    fields = render.plain(row)
    return {**fields, "request": msgspec.json.decode(row.request)}


def _requested(row: RunRequestRow, chunks: Mapping[str, Sequence[str]]) -> str:
    partitions = chunks.get(row.request_key, row.partitions)
    return " ".join([*row.selection[:3], *partitions[:3]])
