"""Answers requests: authenticates, admits, reads or writes, and renders. One for a process.

The order is the same for every route of a workspace: authenticate the caller (401); check that the
workspace is visible (404, as for a missing one); check the permission anywhere in it (403); parse
the request (400); and only then the object: its namespace must be visible (404, as for a missing
one) and the caller must have the permission there (403).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec
from litestar import Request

from arco.api.access_log import AccessLog
from arco.api.api_settings import ApiSettings
from arco.api.authentication import (
    Authenticator,
    bearer_token,
    unauthenticated,
)
from arco.api.bounded_threads import BoundedThreads
from arco.api.caller_cache import CallerCache, Snapshots
from arco.api.command_keys import stored_key
from arco.api.connections import CONNECTIONS
from arco.api.etags import etag_of, matched_version
from arco.api.exchange import Answer, Exchange, RequestHeaders, exchange_of
from arco.api.fair_shares import CALLER, QueryTurns
from arco.api.hidden_names import without_hidden_names
from arco.api.parameters import parse
from arco.api.problems import ApiError
from arco.api.rate_limits import RateLimits
from arco.api.rendered import RenderedKey, Target, is_unchanged
from arco.api.rendering import page_token_of, render
from arco.api.request_bodies import decoded_body
from arco.api.response_cache import RequestPlace, ResponseCache, credentials_of
from arco.api.routes import AtParameters, Route
from arco.api.served import ServedWorkspace
from arco.api.views import View
from arco.api.writing import WriteAnswer, Writing, check_key
from arco.clock import Clock
from arco.errors import Denied, NotFound, Unauthenticated, Unavailable
from arco.plain_json import plain
from arco.security.caller import Caller
from arco.security.permissions import Permission
from arco.security.visibility import NOTHING, Visible

T = TypeVar("T")


class ApiServer:
    def __init__(
        self,
        workspaces: Sequence[ServedWorkspace],
        authenticators: Sequence[Authenticator],
        settings: ApiSettings,
        clock: Clock,
        key_workspaces: Sequence[ServedWorkspace] = (),
        access: AccessLog | None = None,
    ) -> None:
        """`key_workspaces` are those that authenticators look at."""
        self.access = access or AccessLog(clock)
        self.key_workspaces = key_workspaces
        self.workspaces: Mapping[tuple[str, str], ServedWorkspace] = {
            (each.tenant, each.name): each for each in workspaces
        }
        self.settings = settings
        self.clock = clock
        self._authenticators = authenticators
        self._limits = RateLimits(clock, settings.rate_per_s, settings.rate_burst)
        self.work_limits = RateLimits(clock, settings.work_rate_per_s, settings.work_rate_burst)
        self.uploading = asyncio.Semaphore(settings.uploads)
        self._callers = CallerCache(clock)
        self.responses = ResponseCache(
            tuple(key_workspaces), self._callers, self._limits, settings.rendered_bytes
        )
        failures = settings.failed_logins_per_minute
        self._failed_logins = RateLimits(clock, failures / 60, failures)
        self._room = BoundedThreads(settings)
        # Every connection may wait here: authentication must not depend on other workspaces' load.
        self._key_room = BoundedThreads(settings, CONNECTIONS)
        self._rooms = {each.path: BoundedThreads(settings) for each in workspaces}
        self._body_bytes = 0
        self.draining = asyncio.Event()
        self.queries = QueryTurns(settings)

    def flush(self, *, everything: bool = False) -> None:
        """Append uses of keys and refusals to the logs of their workspaces."""
        for served in {*self.workspaces.values(), *self.key_workspaces}:
            served.security_log.flush(everything=everything)

    def denied(self, exchange: Exchange, error: Exception) -> None:
        tenant, _, name = exchange.workspace.partition("/")
        served = self.workspaces.get((tenant, name))
        if served is not None:
            served.security_log.denied(exchange, error)

    def close(self) -> None:
        for room in (self._room, self._key_room, *self._rooms.values()):
            room.close()
        for served in self.workspaces.values():
            served.close()

    # -- who, and where ------------------------------------------------------------------

    async def authenticate(
        self, request: Request[Any, Any, Any], *, is_read: bool, limits: RateLimits | None = None
    ) -> Caller:
        """Raises for an unknown token. Counts against the rate limit of the caller."""
        exchange = exchange_of(request.scope)
        self.check_address(exchange.address)
        headers = RequestHeaders(request.scope)
        token = bearer_token(headers, is_read=is_read, secure=self.settings.secure)
        try:
            caller = await self._caller_of(token, request)
        except Unauthenticated:
            self.failed_login(exchange.address)
            raise
        if caller is None:
            self.failed_login(exchange.address)
            raise unauthenticated("the token is not valid")
        name = f"{caller.kind}:{caller.id}"
        check_rate(limits or self._limits, name)
        CALLER.set(name)
        exchange.who = msgspec.structs.replace(
            caller,
            request_id=exchange.request_id,
            address=exchange.address,
            user_agent=(headers.get("user-agent") or "")[:200],
        )
        return exchange.who

    def check_address(self, address: str) -> None:
        """Raise for an address from which too many logins or signatures were wrong."""
        if self._failed_logins.is_exhausted(address):
            raise ApiError(
                "rate_limited", "too many failed logins from this address", retry_after_s=60
            )

    def failed_login(self, address: str) -> None:
        self._failed_logins.take(address)

    async def still_sees(
        self, request: Request[Any, Any, Any], at: tuple[str, str], permission: Permission
    ) -> Visible:
        """The namespaces in which the sender of a long request has the permission now: none, if
        its key or role was revoked or has expired."""
        headers = RequestHeaders(request.scope)
        token = bearer_token(headers, is_read=True, secure=self.settings.secure)
        try:
            caller = await self._caller_of(token, request)
        except Unauthenticated:
            caller = None
        return NOTHING if caller is None else caller.at(*at).where(permission)

    async def _caller_of(self, token: str, request: Request[Any, Any, Any]) -> Caller | None:
        """The caller of a token; in a thread, unless cached: keys of an issuer may be fetched.

        The workspace of the request makes no difference: a hidden workspace whose store hangs is
        answered like a missing one.
        """
        credentials = credentials_of(request.scope)
        snapshots = self.responses.snapshots()
        if snapshots is not None and credentials is not None:
            entry = self._callers.get(credentials, snapshots)
            if entry is not None:
                return entry.caller
        await self.wait_for_key_reads(self.key_workspaces)
        verified_at, caller = await self._key_room.run(lambda: self._looked_up(token))
        if caller is not None and credentials is not None and verified_at is not None:
            self._callers.put(credentials, caller, verified_at)
        return caller

    async def wait_for_key_reads(self, workspaces: Sequence[ServedWorkspace]) -> None:
        """Wait for reads of keys and roles, as long as authentication waits for them, without a
        thread: those for authentication are few, and a store that hangs must not block them."""
        reads = [read for each in workspaces if (read := each.key_read()) is not None]
        futures = [asyncio.wrap_future(future) for future, wait_s in reads if wait_s]
        for future in futures:  # errors are raised where the snapshot is used
            future.add_done_callback(lambda done: done.cancelled() or done.exception())
        if futures:
            await asyncio.wait(futures, timeout=max(wait_s for _, wait_s in reads))

    def _looked_up(self, token: str) -> tuple[Snapshots | None, Caller | None]:
        """With snapshots that are not newer than what the caller was verified against; None if
        some cannot be had."""
        snapshots: Snapshots | None
        try:
            snapshots = [each.newest_or_recent() for each in self.key_workspaces]
        except Unavailable:
            snapshots = None
        return snapshots, self._authenticated(token)

    def _authenticated(self, token: str) -> Caller | None:
        for authenticator in self._authenticators:
            caller = authenticator.caller(token)
            if caller is not None:
                return caller
        return None

    def admit(self, caller: Caller, exchange: Exchange, tenant: str, name: str) -> ServedWorkspace:
        """The workspace, if the caller sees anything of it."""
        served = self.workspaces.get((tenant, name))
        if served is None or caller.visible(tenant, name).nothing:
            raise NotFound(f"there is no workspace {tenant}/{name}")
        exchange.workspace = served.path
        return served

    # -- reading -------------------------------------------------------------------------

    async def read(self, route: Route[Any], request: Request[Any, Any, Any]) -> Answer:
        scope, exchange = request.scope, exchange_of(request.scope)
        exchange.route, exchange.operation = route.path, route.operation
        exchange.permission = route.permission.value
        caller = await self.authenticate(request, is_read=True)
        path = dict(scope["path_params"])
        tenant, name = path.pop("tenant"), path.pop("workspace")
        served = self.admit(caller, exchange, tenant, name)
        caller = caller.at(tenant, name)
        visible = exchange.visible = may(caller, route.permission)
        parameters = parse(route.parameters, path, scope["query_string"])
        assert isinstance(parameters, AtParameters)
        if route.is_live:
            answer = await self.in_thread(
                lambda: render(route, served, parameters, visible, caller), served
            )
            return Answer(200, answer.body, headers={"Arco-Generation": str(answer.generation)})
        target = (scope["raw_path"], scope["query_string"])
        key = self._key(served, target, parameters, visible)
        rendered = None if key is None else self.responses.rendered(key)
        if rendered is None:
            rendered = await self.in_thread(
                lambda: render(route, served, parameters, visible, caller), served
            )
            if parameters.as_of is None and parameters.as_of_run is None:
                key = RenderedKey(target, rendered.generation, visible.namespaces)
                pinned = parameters.generation is not None or page_token_of(parameters)
                place = RequestPlace(route, served, rendered.generation if pinned else None)
                self.responses.keep(place, key, rendered)
        headers = {
            "Arco-Generation": str(rendered.generation),
            "ETag": rendered.etag,
            "Cache-Control": "private, no-cache",
        }
        matches = RequestHeaders(scope).get("if-none-match")
        if matches is not None and is_unchanged(rendered.etag, matches):
            return Answer(304, b"", headers=headers)
        return Answer(200, rendered.body, headers=headers)

    def _key(
        self, served: ServedWorkspace, target: Target, at: AtParameters, visible: Visible
    ) -> RenderedKey | None:
        """The cache key of the answer; None if that needs a read of the store."""
        if at.as_of is not None or at.as_of_run is not None:
            return None
        generation = at.generation
        if generation is None:
            snapshot = None if page_token_of(at) else served.recent()
            if snapshot is None:
                return None
            generation = snapshot.generation
        return RenderedKey(target, generation, visible.namespaces)

    # -- writing -------------------------------------------------------------------------

    async def write(self, route: Route[Any], request: Request[Any, Any, Any]) -> Answer:
        scope, exchange = request.scope, exchange_of(request.scope)
        exchange.route, exchange.operation = route.path, route.operation
        exchange.permission = route.permission.value
        headers = RequestHeaders(scope)
        caller = await self.authenticate(request, is_read=False)
        path = dict(scope["path_params"])
        tenant, name = path.pop("tenant"), path.pop("workspace")
        served = self.admit(caller, exchange, tenant, name)
        caller = caller.at(tenant, name)
        visible = exchange.visible = caller.visible(tenant, name)
        may(caller, route.permission)
        parameters = parse(route.parameters, path, scope["query_string"])
        limit = self.settings.deploy_bytes if route.max_body == "deployment" else None
        raw = await self.body(request, limit)
        body = decoded_body(route, raw, headers.get("content-type"))
        key = stored_key(caller, check_key(headers.get("idempotency-key") or ""))
        if_match = matched_version(headers.get("if-match"))

        def call() -> tuple[WriteAnswer[Any], Any]:
            writing = Writing(
                caller=caller,
                permission=route.permission,
                commands=served.commands(caller, key),
                unkeyed=served.commands(caller),
                view=served.view(AtParameters()),
                fresh=lambda: _fresh(served),
                visible=visible,
                key=key,
                dataset_namespaces=self.settings.dataset_namespaces,
                if_match=if_match,
            )
            try:
                outcome: WriteAnswer[Any] = route.call(writing, parameters, body)
            finally:
                served.invalidate()
            document = {"generation": outcome.generation, **plain(outcome.body)}
            if visible.all:
                return outcome, document
            return outcome, without_hidden_names(served.view(AtParameters()), visible, document)

        outcome, document = await self.in_thread(call, served)
        answered = {"Arco-Generation": str(outcome.generation)}
        if outcome.location:
            base = f"/api/v1/workspaces/{tenant}/{name}"
            answered["Location"] = quote(f"{base}{outcome.location}", safe="/?=&%:@~")
        if outcome.version is not None:
            answered["ETag"] = etag_of(outcome.generation, outcome.version, visible)
        return Answer(route.status, msgspec.json.encode(document), headers=answered)

    async def body(self, request: Request[Any, Any, Any], limit: int | None = None) -> bytes:
        """Of a request, with limits of size and time. Counts as used memory until the answer."""
        limit = limit or self.settings.body_bytes
        exchange = exchange_of(request.scope)
        encoding = RequestHeaders(request.scope).get("content-encoding") or "identity"
        if encoding.strip().lower() != "identity":
            raise ApiError(
                "unsupported_media_type",
                "the body must not be compressed",
                hint="send it without Content-Encoding",
            )
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self.settings.body_timeout_s):
                async for part in request.stream():
                    size += len(part)
                    self._take_memory(exchange, len(part))
                    if size > limit:
                        raise ApiError(
                            "too_large",
                            f"the body is larger than {limit:,} bytes",
                            code="body_too_large",
                        )
                    parts.append(part)
        except TimeoutError:
            raise ApiError("invalid", "the body did not arrive in time", code="slow_body") from None
        return b"".join(parts)

    def _take_memory(self, exchange: Exchange, size: int) -> None:
        if self._body_bytes + size > self.settings.bodies_bytes:
            raise ApiError("unavailable", "the server is busy", code="busy", retry_after_s=1)
        if not exchange.body_bytes:
            exchange.on_end.append(lambda: self._give_memory_back(exchange.body_bytes))
        self._body_bytes += size
        exchange.body_bytes += size

    def _give_memory_back(self, size: int) -> None:
        self._body_bytes -= size

    # -- threads -------------------------------------------------------------------------

    async def in_thread(self, call: Callable[[], T], served: ServedWorkspace | None = None) -> T:
        """Call it in a thread of the workspace, with limits on number, queue and time."""
        room = self._room if served is None else self._rooms.get(served.path, self._room)
        return await room.run(call)


def check_rate(limits: RateLimits, who: str) -> None:
    """Count a request against a rate limit. Raises if it is exceeded."""
    allowance = limits.take(who)
    if not allowance.is_allowed:
        raise ApiError(
            "rate_limited",
            "too many requests",
            hint="wait for Retry-After seconds",
            retry_after_s=allowance.retry_after_s,
            headers={
                "X-RateLimit-Limit": str(allowance.limit),
                "X-RateLimit-Remaining": str(allowance.remaining),
                "X-RateLimit-Reset": str(allowance.reset_s),
            },
        )


def _fresh(served: ServedWorkspace) -> View:
    served.invalidate()
    return served.view(AtParameters())


def may(caller: Caller, permission: Permission) -> Visible:
    """Where the caller may do this. Raises Denied if nowhere."""
    visible = caller.where(permission)
    if visible.nothing:
        raise Denied(
            "you have no role here that allows this",
            hint=f"ask an owner for a role that has {permission}",
        )
    return visible
