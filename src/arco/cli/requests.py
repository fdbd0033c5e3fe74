"""`servo requests`: what was asked for, and what became of it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec
import typer

from arco.cli import deferral
from arco.cli.options import command, group

if deferral.LOADED:
    from arco.cli import render
    from arco.cli.session import Session
    from arco.cli.shorts import short
    from arco.errors import Invalid
    from arco.orchestration.limit_tables import pause_text
    from arco.orchestration.limit_usage import run_limit_reached
    from arco.orchestration.reader import OrchestrationReader
    from arco.orchestration.states import RequestState
    from arco.orchestration.tables import RunRequestRow

app = group("requests", "Show requests for runs, and what became of them.")


@command(app, "list", example="servo requests list --state REFUSED", takes=["at"])
def list_(
    session: Session,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="Show at most N.")] = 20,
    state: Annotated[
        str | None, typer.Option(metavar="STATE", help="Only requests in this state.")
    ] = None,
) -> None:
    """List requests for runs, newest first.

    Schedules and `servo run --remote --detach` leave requests, which an orchestrator plans.
    A request is PENDING until then, and TRIGGERED, REFUSED or MERGED after it.
    """
    if state is not None and state.upper() not in RequestState.__members__:
        states = ", ".join(RequestState)
        raise Invalid(f"{state!r} is not a state of a request", hint=f"one of {states}")
    reader = session.open().read.orchestration(session.at())
    in_states = () if state is None else (state.upper(),)
    rows, is_complete = reader.run_requests(limit=limit, in_states=in_states)
    if session.json:
        requests = [plain_request(row) for row in rows]
        render.document({"generation": reader.snapshot.generation, "requests": requests})
        return
    if not rows:
        render.say("there are no requests" + (f" in state {state.upper()}" if state else ""))
    else:
        headers = ("request", "state", "run", "requested", "what")
        lines = [
            (r.request_key, r.state, short(r.run_id) or None, r.requested_at, _asked(r))
            for r in rows
        ]
        render.show(render.table(headers, lines, whole=("state", "run", "requested")))
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
    request: Annotated[str, typer.Argument(metavar="REQUEST", help="The key of a request.")],
) -> None:
    """Show a request: who asked for what, and what became of it."""
    workspace = session.open()
    reader = workspace.read.orchestration(session.at())
    row = reader.run_request(request)
    now = workspace.clock.now()
    if session.json:
        waits = row.state == RequestState.PENDING
        waiting = {"waiting": pending_text(row, reader, now) if waits else None}
        render.document(plain_request(row) | waiting)
    else:
        show_request(row, reader, now)


@command(
    app,
    "cancel",
    example="servo requests cancel schedule:main/nightly@2026-01-31T02:30",
    takes=["actor"],
)
def cancel(
    session: Session,
    request: Annotated[list[str], typer.Argument(metavar="REQUEST...", help="Keys of requests.")],
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Reason, stored in the log.")] = "",
) -> None:
    """Cancel requests that no orchestrator has planned yet. Their keys start no run after this."""
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


def show_request(row: RunRequestRow, reader: OrchestrationReader, now: datetime) -> None:
    render.show(
        render.fields(
            {
                "request": row.request_key,
                "state": row.state,
                "cause": cause_of(row.kind, row.reference, row.requested_by),
                "selection": " ".join(row.selection),
                "partitions": " ".join(row.partitions) or None,
                "requested": row.requested_at,
                "decided": row.decided_at,
                "run": row.run_id or None,
                "reason": row.reason or None,
                "hint": row.hint or None,
            }
        )
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


def cause_of(kind: str, reference: str, by: str) -> str:
    """What caused a request or a run, in words."""
    if kind == "schedule":
        schedule, _, tick = reference.rpartition("@")
        return f"schedule {schedule}, tick {tick}"
    if kind == "backfill":
        backfill, _, chunk = reference.partition(":")
        number, _, round = chunk.partition(":")
        return f"backfill {backfill}, chunk {number}" + (f", round {round}" if round else "")
    if kind in ("sensor", "webhook") and reference:
        sensor, _, number = reference.rpartition("#")
        return f"{kind} {sensor}, evaluation {number}"
    if kind == "materialization":
        return f"automation: {reference}"
    if kind == "freshness":
        subject, _, due = reference.rpartition("@")
        return f"freshness of {subject}, due {due}"
    what = f"{kind} of run {reference}" if kind == "retry" and reference else kind
    return f"{what} by {by or '–'}"


def plain_request(row: RunRequestRow) -> dict[str, Any]:
    fields = render.plain(row)
    return {**fields, "request": msgspec.json.decode(row.request)}


def _asked(row: RunRequestRow) -> str:
    return " ".join([*row.selection[:3], *row.partitions[:3]])
