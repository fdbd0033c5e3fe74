"""Requests for runs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from arco.api.page_tokens import PageKey
from arco.api.routes import AtParameters, PageParameters, PageWindow, listing, read
from arco.api.row_visibility import RowVisibility
from arco.api.views import View
from arco.errors import NotFound
from arco.orchestration.plan import PlanRequest
from arco.orchestration.reader import OrchestrationReader
from arco.orchestration.run_requests import decode_request
from arco.orchestration.states import RequestState
from arco.orchestration.tables import RunRequestRow
from arco.security.permissions import Permission
from arco.security.visibility import Visible


class RequestListParameters(PageParameters, frozen=True, kw_only=True):
    state: Annotated[list[RequestState], Meta(max_length=10)] | UnsetType = UNSET


class RequestBody(msgspec.Struct, frozen=True, kw_only=True):
    request_key: str
    state: RequestState
    kind: str
    reference: str
    request: PlanRequest
    run_id: str
    reason: str
    hint: str
    until: datetime | None
    timeout_s: int
    priority: int
    requested_at: datetime
    requested_by: str
    decided_at: datetime | None


def request_body(row: RunRequestRow) -> RequestBody:
    fields = msgspec.structs.asdict(row)
    names = [name for name in RequestBody.__struct_fields__ if name != "request"]
    return RequestBody(
        **{name: fields[name] for name in names}, request=request_without_deployments(row.request)
    )


def request_without_deployments(request: str) -> PlanRequest:
    """What was asked for, without the deployments that it is planned with, of all projects."""
    decoded: PlanRequest = decode_request(request)
    return msgspec.structs.replace(decoded, deployments=())


def list_requests(
    view: View, visible: Visible, parameters: RequestListParameters, window: PageWindow
) -> Iterator[tuple[PageKey, RequestBody]]:
    """List requests for runs, the newest first."""
    in_states = () if parameters.state is UNSET else tuple(parameters.state)
    if parameters.state is not UNSET and not in_states:
        return
    after: Any = window.after
    rows, _ = OrchestrationReader(view.snapshot).run_requests(
        limit=window.limit,
        in_states=in_states,
        after=after,
        matches=None if visible.all else lambda row: sees_request(view, visible, row),
        choose=RowVisibility(view, visible).selected_rows,
    )
    for row in rows:
        yield (row.requested_at, row.request_key), request_body(row)


class RequestParameters(AtParameters, frozen=True, kw_only=True):
    key: Annotated[str, Meta(min_length=1, max_length=600, description="The request's key.")]


def get_request(view: View, visible: Visible, parameters: RequestParameters) -> RequestBody:
    """Show a request by its key: its author, its selection and its outcome."""
    return request_body(require_request(view, visible, parameters.key))


def require_request(view: View, visible: Visible, key: str) -> RunRequestRow:
    row = OrchestrationReader(view.snapshot).run_request(key)
    if not sees_request(view, visible, row):
        raise NotFound(f"there is no request {key}")
    return row


def sees_request(view: View, visible: Visible, row: RunRequestRow) -> bool:
    """Whether all assets that it names are of namespaces that the caller sees."""
    return visible.all or RowVisibility(view, visible).request(row.request)


_READ = Permission.RUNS_READ
ROUTES: tuple[Any, ...] = (
    listing("/requests", _READ, list_requests),
    read("/requests/by-key", _READ, get_request),
)
