"""Answers requests: authenticates, admits, reads or writes, and renders. One for a process.

The order is the same for every route of a workspace: who is it (401), does he see the workspace
(404, as for one that is not there), may he do this anywhere in it (403), what exactly does he ask
for (400), and only then the object, whose namespace he must see (404, as for one that is not
there) and be allowed to change (403).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec
from litestar import Request

from arco.api.api_settings import ApiSettings
from arco.api.authentication import Authenticator, bearer_token, unauthenticated
from arco.api.command_keys import stored_key
from arco.api.etags import etag_of, matched_version
from arco.api.exchange import Answer, Exchange, RequestHeaders, exchange_of
from arco.api.hidden_names import without_hidden_names
from arco.api.page_tokens import Position, list_digest
from arco.api.parameters import parse
from arco.api.problems import ApiError
from arco.api.rate_limits import RateLimits
from arco.api.rendered import RenderedAnswer, RenderedAnswers, RenderedKey
from arco.api.request_bodies import decoded_body
from arco.api.routes import AtParameters, PageParameters, PageWindow, Route
from arco.api.run_visibility import require_run
from arco.api.served import ServedWorkspace
from arco.api.views import View
from arco.api.writing import WriteAnswer, Writing, check_key
from arco.clock import Clock
from arco.errors import Denied, NotFound, Unauthenticated
from arco.plain_json import plain
from arco.security.caller import Caller
from arco.security.permissions import Permission
from arco.security.visibility import Visible

T = TypeVar("T")


class ApiServer:
    def __init__(
        self,
        workspaces: Sequence[ServedWorkspace],
        authenticators: Sequence[Authenticator],
        settings: ApiSettings,
        clock: Clock,
        key_workspaces: Sequence[ServedWorkspace] = (),
    ) -> None:
        """`key_workspaces` are those that authenticators look at."""
        self.key_workspaces = key_workspaces
        self.workspaces: Mapping[tuple[str, str], ServedWorkspace] = {
            (each.tenant, each.name): each for each in workspaces
        }
        self.settings = settings
        self.clock = clock
        self._authenticators = authenticators
        self._rendered = RenderedAnswers(settings.rendered_bytes)
        self._limits = RateLimits(clock, settings.rate_per_s, settings.rate_burst)
        self.work_limits = RateLimits(clock, settings.work_rate_per_s, settings.work_rate_burst)
        self.uploading = asyncio.Semaphore(settings.uploads)
        failures = settings.failed_logins_per_minute
        self._failed_logins = RateLimits(clock, failures / 60, failures)
        self._threads = ThreadPoolExecutor(settings.threads, thread_name_prefix="api")
        self._under_way = 0
        self.draining = asyncio.Event()
        self.querying = asyncio.Semaphore(settings.queries)

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
        self._threads.shutdown(wait=False, cancel_futures=True)
        for served in self.workspaces.values():
            served.close()

    # -- who, and where ------------------------------------------------------------------

    async def authenticate(
        self, request: Request[Any, Any, Any], *, is_read: bool, limits: RateLimits | None = None
    ) -> Caller:
        """Raises if nobody knows the token. Takes from the caller's allowance, or another one."""
        exchange = exchange_of(request.scope)
        if self._failed_logins.is_exhausted(exchange.address):
            raise ApiError(
                "rate_limited", "too many failed logins from this address", retry_after_s=60
            )
        headers = RequestHeaders(request.scope)
        token = bearer_token(headers, is_read=is_read)
        try:
            caller = await self._known(token)
        except Unauthenticated:
            self._failed_logins.take(exchange.address)
            raise
        if caller is None:
            self._failed_logins.take(exchange.address)
            raise unauthenticated("the token is not valid")
        check_rate(limits or self._limits, f"{caller.kind}:{caller.id}")
        exchange.who = msgspec.structs.replace(
            caller,
            request_id=exchange.request_id,
            address=exchange.address,
            user_agent=(headers.get("user-agent") or "")[:200],
        )
        return exchange.who

    async def _known(self, token: str) -> Caller | None:
        """Looks at the store in a thread, if what is known of it is too old."""
        is_of_issuer = token.count(".") == 2  # whose keys may have to be fetched
        if not is_of_issuer and all(each.known() is not None for each in self.key_workspaces):
            return self._asked(token)
        return await self.in_thread(lambda: self._asked(token))

    def _asked(self, token: str) -> Caller | None:
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
        exchange.workspace = f"{tenant}/{name}"
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
        visible = may(caller, route.permission)
        exchange.visible = visible
        parameters = parse(route.parameters, path, scope["query_string"])
        assert isinstance(parameters, AtParameters)
        key = None if route.is_live else self._key(served, scope, parameters, visible)
        answer = None if key is None else self._rendered.get(key)
        if answer is not None and key is not None:
            generation, kept = key.generation, answer
        else:
            generation, kept = await self.in_thread(
                lambda: _render(route, served, parameters, visible, caller)
            )
            if not route.is_live:
                at = (tenant, name, generation, _target(scope), visible.namespaces)
                self._rendered.put(RenderedKey(*at), kept)
        headers = {"Arco-Generation": str(generation)}
        if route.is_live:
            return Answer(200, kept.body, headers=headers)
        headers |= {"ETag": kept.etag, "Cache-Control": "private, no-cache"}
        matches = RequestHeaders(scope).get("if-none-match")
        if matches is not None and kept.etag in [each.strip() for each in matches.split(",")]:
            return Answer(304, b"", headers=headers)
        return Answer(200, kept.body, headers=headers)

    def _key(
        self, served: ServedWorkspace, scope: Any, at: AtParameters, visible: Visible
    ) -> RenderedKey | None:
        """Where the answer is if it was rendered before; None if that takes a look at the store."""
        if at.as_of is not None or at.as_of_run is not None:
            return None
        generation = at.generation
        if generation is None:
            if isinstance(at, PageParameters) and at.page_token:
                return None
            snapshot = served.known()
            if snapshot is None:
                return None
            generation = snapshot.generation
        return RenderedKey(
            served.tenant, served.name, generation, _target(scope), visible.namespaces
        )

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
        visible = caller.visible(tenant, name)
        exchange.visible = visible
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
                if_match=if_match,
            )
            try:
                done: WriteAnswer[Any] = route.call(writing, parameters, body)
            finally:
                served.look_again()
            document = {"generation": done.generation, **plain(done.body)}
            return done, without_hidden_names(served.view(AtParameters()), visible, document)

        done, document = await self.in_thread(call)
        answered = {"Arco-Generation": str(done.generation)}
        if done.location:
            base = f"/api/v1/workspaces/{tenant}/{name}"
            answered["Location"] = quote(f"{base}{done.location}", safe="/?=&%:@~")
        if done.version is not None:
            answered["ETag"] = etag_of(done.generation, done.version, visible)
        return Answer(route.status, msgspec.json.encode(document), headers=answered)

    async def body(self, request: Request[Any, Any, Any], limit: int | None = None) -> bytes:
        """Of a request, up to a limit, within a time."""
        limit = limit or self.settings.body_bytes
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self.settings.body_timeout_s):
                async for part in request.stream():
                    size += len(part)
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

    # -- threads -------------------------------------------------------------------------

    async def in_thread(self, call: Callable[[], T]) -> T:
        """Have a thread call it. Bounded in number, waiting and time."""
        if self._under_way >= self.settings.threads + self.settings.waiting:
            raise ApiError("unavailable", "the server is busy", code="busy", retry_after_s=1)
        self._under_way += 1
        future = asyncio.get_running_loop().run_in_executor(self._threads, call)
        future.add_done_callback(self._one_less)
        try:
            async with asyncio.timeout(self.settings.request_timeout_s):
                return await asyncio.shield(future)
        except TimeoutError:
            raise ApiError(
                "timeout",
                "the store did not answer in time",
                hint="ask again; a write with the same Idempotency-Key has effect once",
                retry_after_s=5,
            ) from None

    def _one_less(self, future: asyncio.Future[Any]) -> None:
        self._under_way -= 1
        if not future.cancelled():
            future.exception()  # it was raised to who waited, or nobody waits any more


def check_rate(limits: RateLimits, who: str) -> None:
    """Take one request from somebody's allowance. Raises if it is used up."""
    allowance = limits.take(who)
    if not allowance.is_allowed:
        raise ApiError(
            "rate_limited",
            "you send more requests than you may",
            hint="wait for Retry-After seconds",
            retry_after_s=allowance.retry_after_s,
            headers={
                "X-RateLimit-Limit": str(allowance.limit),
                "X-RateLimit-Remaining": str(allowance.remaining),
                "X-RateLimit-Reset": str(allowance.reset_s),
            },
        )


def _fresh(served: ServedWorkspace) -> View:
    served.look_again()
    return served.view(AtParameters())


def may(caller: Caller, permission: Permission) -> Visible:
    """Where the caller may do this. Raises Denied if nowhere."""
    visible = caller.where(permission)
    if visible.nothing:
        raise Denied(f"you have no role here that has {permission}", hint="ask an owner for a role")
    return visible


def _target(scope: Any) -> str:
    return f"{scope['raw_path'].decode('latin-1')}?{scope['query_string'].decode('latin-1')}"


def _render(
    route: Route[Any],
    served: ServedWorkspace,
    parameters: AtParameters,
    visible: Visible,
    caller: Caller,
) -> tuple[int, RenderedAnswer]:
    if route.kind == "list":
        assert isinstance(parameters, PageParameters)
        view, document = _page(route, served, parameters, visible)
        version = None
    else:
        view = _view(served, parameters, visible, caller)
        result = route.call(view, visible, parameters)
        document = {"generation": view.generation, **plain(result)}
        document = without_hidden_names(view, visible, document)
        version = getattr(result, "row_version", None)
    return view.generation, RenderedAnswer(
        msgspec.json.encode(document), etag_of(view.generation, version, visible)
    )


def _view(
    served: ServedWorkspace,
    parameters: AtParameters,
    visible: Visible,
    caller: Caller | None = None,
) -> View:
    if parameters.as_of_run is not None and not visible.all:
        require_run(served.view(AtParameters()), visible, parameters.as_of_run)
    return served.view(parameters, caller)


def _page(
    route: Route[Any], served: ServedWorkspace, parameters: PageParameters, visible: Visible
) -> tuple[View, dict[str, Any]]:
    filters = msgspec.structs.replace(
        parameters, page_token="", page_size=1, generation=None, as_of=None, as_of_run=None
    )
    seen = "*" if visible.namespaces is None else ",".join(sorted(visible.namespaces))
    digest = list_digest(route.operation, filters, seen)
    at: AtParameters = parameters
    after = None
    if parameters.page_token:
        position = served.tokens.decode(parameters.page_token, digest)
        after = position.after
        if parameters.generation not in (None, position.generation):
            raise ApiError(
                "invalid", "the page token is of another generation", code="other_generation"
            )
        at = AtParameters(generation=position.generation)
    view = _view(served, at, visible)
    window = PageWindow(after, parameters.page_size + 1)
    rows = list(islice(route.call(view, visible, parameters, window), window.limit))
    page = rows[: parameters.page_size]
    document: dict[str, Any] = {
        "generation": view.generation,
        "items": without_hidden_names(view, visible, [plain(item) for _, item in page]),
    }
    if len(rows) > len(page):
        last = Position(view.generation, page[-1][0])
        document["next_page_token"] = served.tokens.encode(last, digest)
    return view, document
