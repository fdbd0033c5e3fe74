"""What became of a command, by the idempotency key that its caller gave."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from arco.api.routes import AtParameters, read
from arco.api.views import View
from arco.automation.tables import BACKFILLS
from arco.errors import NotFound
from arco.orchestration.reader import OrchestrationReader
from arco.orchestration.states import RequestState
from arco.orchestration.tables import RUN_KEYS, RUN_REQUESTS
from arco.security.permissions import Permission
from arco.security.visibility import Visible
from arco.state.system import OUTCOMES


class CommandParameters(AtParameters, frozen=True, kw_only=True):
    key: Annotated[str, Meta(min_length=1, max_length=200, description="The Idempotency-Key.")]


class CommandBody(msgspec.Struct, frozen=True, kw_only=True):
    key: str
    type: str
    status: Literal["applied", "refused", "pending"]
    code: str = ""
    message: str = ""
    decided_at: datetime | None = None
    event_id: str = ""
    """Of the event that it is in the log; the id of what it has created, if that has one."""
    location: str = ""
    """Of what it has created, below the workspace."""


def get_command(view: View, visible: Visible, parameters: CommandParameters) -> CommandBody:
    """Show the outcome of a command of the caller, by its idempotency key."""
    body = _outcome(view, parameters.key) or _run(view, parameters.key)
    body = body or _created(view, parameters.key)
    if body is None:
        raise NotFound(f"you have sent no command with the key {parameters.key!r}")
    return body


def _outcome(view: View, key: str) -> CommandBody | None:
    row = view.snapshot.get(OUTCOMES, view.stored_key(key))
    if row is None:
        return None
    return CommandBody(
        key=key,
        type=row.type,
        status=row.status,
        code=row.code,
        message=row.message,
        decided_at=row.decided_at,
        event_id=row.event_id,
    )


def _run(view: View, key: str) -> CommandBody | None:
    stored = view.stored_key(key)
    request = view.snapshot.get(RUN_REQUESTS, stored)
    if request is not None:
        statuses: dict[RequestState, Literal["applied", "refused", "pending"]] = {
            RequestState.PENDING: "pending",
            RequestState.REFUSED: "refused",
        }
        return CommandBody(
            key=key,
            type="orchestration.run_requested",
            status=statuses.get(request.state, "applied"),
            message=request.reason,
            decided_at=request.decided_at,
            location=f"/runs/{request.run_id}",
        )
    started = view.snapshot.get(RUN_KEYS, stored)
    if started is None:
        return None
    return CommandBody(
        key=key,
        type="orchestration.run_triggered",
        status="applied" if started.run_id else "refused",
        decided_at=started.received_at,
        location=f"/runs/{started.run_id}" if started.run_id else "",
    )


def _created(view: View, key: str) -> CommandBody | None:
    id = view.id_of_key(key)
    backfill = view.snapshot.get(BACKFILLS, id)
    if backfill is not None:
        return CommandBody(
            key=key,
            type="automation.backfill_created",
            status="applied",
            decided_at=backfill.created_at,
            location=f"/backfills/{id}",
        )
    rows = OrchestrationReader(view.snapshot).deployments()
    deployment = next((row for row in rows if row.deployment_id == id), None)
    if deployment is None:
        return None
    return CommandBody(
        key=key,
        type="orchestration.deployment_created",
        status="applied",
        decided_at=deployment.created_at,
        location=f"/deployments/{id}",
    )


ROUTES: tuple[Any, ...] = (read("/commands/{key}", Permission.RUNS_READ, get_command, live=True),)
