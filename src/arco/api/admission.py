"""The first steps of a request that no route of the tables answers, in the order of `ApiServer`."""

from __future__ import annotations

from typing import Any, NamedTuple

from litestar import Request

from arco.api.exchange import exchange_of
from arco.api.rate_limits import RateLimits
from arco.api.served import ServedWorkspace
from arco.api.server import ApiServer, may
from arco.security.caller import Caller
from arco.security.permissions import Permission
from arco.security.visibility import Visible


class AdmittedRequest(NamedTuple):
    served: ServedWorkspace
    caller: Caller
    """In this workspace."""
    visible: Visible
    """The namespaces in which it has the permission."""


async def admitted(
    server: ApiServer,
    request: Request[Any, Any, Any],
    route: str,
    operation: str,
    permission: Permission,
    *,
    is_read: bool,
    limits: RateLimits | None = None,
) -> AdmittedRequest:
    """Raises unless the caller is authenticated, sees the workspace and has the permission."""
    scope, exchange = request.scope, exchange_of(request.scope)
    exchange.route, exchange.operation = route, operation
    exchange.permission = permission.value
    caller = await server.authenticate(request, is_read=is_read, limits=limits)
    at = scope["path_params"]["tenant"], scope["path_params"]["workspace"]
    served = server.admit(caller, exchange, *at)
    caller = caller.at(*at)
    visible = exchange.visible = may(caller, permission)
    return AdmittedRequest(served, caller, visible)
