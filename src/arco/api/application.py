"""The Litestar application: a handler for each route of the table, and those beside it."""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
from litestar import Litestar, MediaType, Request, Response
from litestar.exceptions import HTTPException
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp, Method

from arco.api.authentication import COOKIE, LocalAccess
from arco.api.development import PATH as DEVELOPMENT
from arco.api.development import DevelopmentState
from arco.api.edge import Edge
from arco.api.exchange import Answer, RequestHeaders, exchange_of
from arco.api.files import answer_file, answer_object, answer_signed, file_origins
from arco.api.login import Login, LoginRoutes
from arco.api.openapi import document
from arco.api.page import WebPage
from arco.api.problems import (
    MEDIA_TYPE,
    ApiError,
    ProblemDetails,
    ProblemReader,
    encode,
    problem_of,
)
from arco.api.query import answer_query
from arco.api.routes import Route
from arco.api.rows import answer_rows
from arco.api.server import ApiServer
from arco.api.streams import EventStreams
from arco.api.webhooks import WebhookSecrets, receive_event
from arco.api.work import WORK_ROUTES, WorkRoute, answer_work
from arco.api.work_objects import Objects
from arco.errors import Error, NotFound
from arco.plain_json import plain

log = logging.getLogger("arco.api")

PREFIX = "/api/v1/workspaces/{tenant}/{workspace}"
HandleRequest = Callable[[Request[Any, Any, Any]], Awaitable[Answer]]


def make_app(
    server: ApiServer,
    routes: Sequence[Route[Any]],
    ids: Callable[[], str],
    local: LocalAccess | None = None,
    development: Callable[[], DevelopmentState] | None = None,
    objects: Objects | None = None,
    login: Login | None = None,
) -> ASGIApp:
    """Refuses a table with a route that has no permission, or two with one operation."""
    _check(routes)
    handlers = [_handler(server, route) for route in routes]
    app = Litestar(
        [
            *handlers,
            *_files(server),
            _stream(server),
            _query(server),
            _rows(server),
            *[_work(server, each) for each in WORK_ROUTES],
            *_objects(objects or Objects(server)),
            _webhook(server),
            *_beside(server, routes, local),
            *_login_handlers(LoginRoutes(server, login, is_development=development is not None)),
            *_development(server, development),
            *_page_handlers(WebPage(sources=file_origins(server))),
        ],
        exception_handlers={Exception: functools.partial(_on_error, server)},
        openapi_config=None,
        logging_config=None,
        request_max_body_size=None,
        debug=False,
    )
    return Edge(app, server.responses, server.settings, server.clock, ids, server.access)


def _check(routes: Sequence[Route[Any]]) -> None:
    operations: set[str] = set()
    for route in routes:
        if not route.permission:
            raise ValueError(f"{route.operation} has no permission")
        if route.operation in operations:
            raise ValueError(f"two routes are {route.operation}")
        operations.add(route.operation)


def _handler(server: ApiServer, route: Route[Any]) -> HTTPRouteHandler:
    answer = server.write if route.kind == "write" else server.read

    async def handle(request: Request[Any, Any, Any]) -> Answer:
        return await answer(route, request)

    return _http(route.method, f"{PREFIX}{route.path}", handle)


def _files(server: ApiServer) -> list[HTTPRouteHandler]:
    async def file(request: Request[Any, Any, Any]) -> Answer:
        return await answer_file(server, request)

    async def signed(request: Request[Any, Any, Any]) -> Answer:
        return await answer_signed(server, request)

    async def stored_object(request: Request[Any, Any, Any]) -> Answer:
        return await answer_object(server, request)

    return [
        _http("GET", f"{PREFIX}/objects/{{path:path}}", stored_object),
        _http(["GET", "HEAD"], f"{PREFIX}/files/{{path:path}}", file),
        _http(["GET", "OPTIONS"], f"{PREFIX}/signed/{{path:path}}", signed),
    ]


def _http(method: Method | list[Method], path: str, handle: HandleRequest) -> HTTPRouteHandler:
    async def respond(request: Request[Any, Any, Any]) -> Response[bytes]:
        answer = await handle(request)
        return Response(
            answer.body,
            status_code=answer.status,
            media_type=answer.media_type,
            headers=dict(answer.headers),
            cookies=answer.cookies,
        )

    typed = re.sub(r"\{(\w+)\}", r"{\1:str}", path)
    return HTTPRouteHandler(
        typed,
        http_method=method,
        media_type=MediaType.JSON,
        status_code=200,  # an answer has its own
        include_in_schema=False,
    )(respond)


def _stream(server: ApiServer) -> HTTPRouteHandler:
    streams = EventStreams(server)

    async def stream_events(request: Request[Any, Any, Any]) -> Response[bytes]:
        return await streams.open(request)

    typed = f"{PREFIX}/events".replace("}", ":str}")
    return HTTPRouteHandler(
        typed, http_method="GET", media_type="text/event-stream", include_in_schema=False
    )(stream_events)


def _query(server: ApiServer) -> HTTPRouteHandler:
    async def query(request: Request[Any, Any, Any]) -> Answer:
        return await answer_query(server, request)

    return _http("POST", f"{PREFIX}/query", query)


def _rows(server: ApiServer) -> HTTPRouteHandler:
    async def rows(request: Request[Any, Any, Any]) -> Answer:
        return await answer_rows(server, request)

    return _http("POST", f"{PREFIX}/rows", rows)


def _work(server: ApiServer, route: WorkRoute) -> HTTPRouteHandler:
    async def work(request: Request[Any, Any, Any]) -> Answer:
        return await answer_work(server, route, request)

    return _http(route.method, f"{PREFIX}{route.path}", work)


def _objects(objects: Objects) -> list[HTTPRouteHandler]:
    """Objects for workers: bytes, not JSON."""
    table: list[tuple[Method, str, Callable[[Request[Any, Any, Any]], Awaitable[Response[Any]]]]]
    table = [
        ("GET", "/work/objects", objects.list_objects),
        ("GET", "/work/objects/{path:path}", objects.get_object),
        ("PUT", "/work/objects/{path:path}", objects.put_object),
        ("DELETE", "/work/objects/{path:path}", objects.delete_object),
        ("GET", "/work/metadata/{path:path}", objects.object_metadata),
        ("GET", "/work/versions", objects.new_versions),
        ("POST", "/work/uploads/{path:path}", objects.begin_upload),
    ]
    return [_raw(method, path, handle) for method, path, handle in table]


def _raw(
    method: Method, path: str, handle: Callable[[Request[Any, Any, Any]], Awaitable[Response[Any]]]
) -> HTTPRouteHandler:
    async def respond(request: Request[Any, Any, Any]) -> Response[Any]:
        return await handle(request)

    return HTTPRouteHandler(
        f"{PREFIX.replace('}', ':str}')}{path}",
        http_method=method,
        status_code=200,  # an answer has its own
        include_in_schema=False,
    )(respond)


def _webhook(server: ApiServer) -> HTTPRouteHandler:
    secrets = WebhookSecrets(server.settings.webhook_secrets, server.clock)

    async def receive(request: Request[Any, Any, Any]) -> Answer:
        return await receive_event(server, secrets, request)

    return _http("POST", f"{PREFIX}/sensors/{{project}}/{{name}}/events", receive)


def _on_error(
    server: ApiServer, request: Request[Any, Any, Any], error: Exception
) -> Response[bytes]:
    exchange = exchange_of(request.scope)
    server.denied(exchange, error)
    if isinstance(error, HTTPException):
        error = _of_litestar(error)
    if not isinstance(error, Error) or error.kind == "corrupt":
        log.error("request %s failed", exchange.request_id, exc_info=error)
    sent = f"{request.scope['path']} {request.scope['query_string'].decode('latin-1')}"
    reader = ProblemReader(exchange.visible, sent)
    problem = problem_of(error, request_id=exchange.request_id, reader=reader)
    exchange.error_code = problem.code
    headers = dict(error.headers) if isinstance(error, ApiError) else {}
    if problem.status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="arco"'
    if problem.retry_after is not None:
        headers["Retry-After"] = str(problem.retry_after)
    return _problem_response(problem, headers)


def _problem_response(problem: ProblemDetails, headers: dict[str, str]) -> Response[bytes]:
    return Response(
        encode(problem), status_code=problem.status, media_type=MEDIA_TYPE, headers=headers
    )


def _of_litestar(error: HTTPException) -> Error:
    match error.status_code:
        case 404:
            return NotFound("there is no such route")
        case 405:
            return ApiError("method_not_allowed", "this route does not have that method")
        case 413:
            return ApiError("too_large", "the body is too large", code="body_too_large")
        case status if status < 500:
            return ApiError("invalid", "the request cannot be read", code="invalid_request")
    return ApiError("internal", "the server failed")


# -- beside the table ------------------------------------------------------------------------


def _beside(
    server: ApiServer, routes: Sequence[Route[Any]], local: LocalAccess | None
) -> list[HTTPRouteHandler]:
    @functools.cache
    def openapi() -> bytes:
        """Made when somebody asks for it: it takes as long as all else of a start."""
        return msgspec.json.encode(document(routes))

    async def healthz(request: Request[Any, Any, Any]) -> Answer:
        exchange_of(request.scope).route = "/healthz"
        return Answer(200, b'{"status":"ok"}')

    async def readyz(request: Request[Any, Any, Any]) -> Answer:
        exchange_of(request.scope).route = "/readyz"
        if server.draining.is_set():
            raise ApiError("unavailable", "the server is shutting down", code="draining")
        for served in server.workspaces.values():
            await server.in_thread(served.newest, served)
        return Answer(200, b'{"status":"ready"}')

    async def get_openapi(request: Request[Any, Any, Any]) -> Answer:
        exchange_of(request.scope).route = "/api/v1/openapi.json"
        return Answer(200, await server.in_thread(openapi))

    async def me(request: Request[Any, Any, Any]) -> Answer:
        exchange_of(request.scope).route = "/api/v1/me"
        caller = await server.authenticate(request, is_read=True)
        grants = [
            {"role": grant.role, "scope": str(grant.scope)} for grant in sorted(caller.grants)
        ]
        fields = {"kind": caller.kind, "id": caller.id, "name": caller.name, "grants": grants}
        return Answer(200, msgspec.json.encode(plain(fields)))

    async def list_workspaces(request: Request[Any, Any, Any]) -> Answer:
        exchange_of(request.scope).route = "/api/v1/workspaces"
        caller = await server.authenticate(request, is_read=True)
        items = [
            {"tenant": tenant, "workspace": name}
            for tenant, name in sorted(server.workspaces)
            if not caller.visible(tenant, name).nothing
        ]
        return Answer(200, msgspec.json.encode({"items": items}))

    async def open_local(request: Request[Any, Any, Any]) -> Answer:
        exchange_of(request.scope).route = "/local/{code}"
        token = None if local is None else local.redeem(request.path_params["code"])
        if token is None:
            raise NotFound("this link is invalid or was already used")
        cookie = f"{COOKIE}={token}; Path=/; HttpOnly; SameSite=Strict"
        headers = {"Set-Cookie": cookie, "Location": "/"}
        return Answer(303, b"", headers=headers)

    handlers = [
        _http("GET", "/healthz", healthz),
        _http("GET", "/readyz", readyz),
        _http("GET", "/api/v1/openapi.json", get_openapi),
        _http("GET", "/api/v1/me", me),
        _http("GET", "/api/v1/workspaces", list_workspaces),
    ]
    return handlers if local is None else [*handlers, _http("GET", "/local/{code}", open_local)]


def _login_handlers(routes: LoginRoutes) -> list[HTTPRouteHandler]:
    return [
        _http("GET", "/auth/login", routes.begin),
        _http("GET", "/auth/callback", routes.come_back),
        _http("GET", "/auth/session", routes.who),
        _http("POST", "/auth/logout", routes.end),
        _http("GET", "/auth/cli", routes.ask),
        _http("POST", "/auth/cli", routes.allow),
        _http("POST", "/auth/token", routes.exchange),
    ]


def _development(
    server: ApiServer, state: Callable[[], DevelopmentState] | None
) -> list[HTTPRouteHandler]:
    """What became of the last save; only `servo dev` has this, and only for who started it."""
    if state is None:
        return []

    async def get_development(request: Request[Any, Any, Any]) -> Answer:
        exchange_of(request.scope).route = DEVELOPMENT
        caller = await server.authenticate(request, is_read=True)
        if caller.kind != "local":
            raise NotFound("there is no such route")
        return Answer(200, msgspec.json.encode(plain(state())))

    return [_http("GET", DEVELOPMENT, get_development)]


def _page_handlers(page: WebPage) -> list[HTTPRouteHandler]:
    async def get_page(request: Request[Any, Any, Any]) -> Answer:
        exchange_of(request.scope).route = "(page)"
        return page.index(RequestHeaders(request.scope))

    async def get_static(request: Request[Any, Any, Any]) -> Answer:
        exchange_of(request.scope).route = "(page)"
        path = request.scope["path"].removeprefix("/")
        return page.static(path, RequestHeaders(request.scope))

    return [
        _http("GET", "/", get_page),
        _http("GET", "/w/{tenant}/{workspace}", get_page),
        _http("GET", "/w/{tenant}/{workspace}/{rest:path}", get_page),
        _http("GET", "/static/{name}", get_static),
        _http("GET", "/duckdb/{version}/{platform}/{name}", get_static),
    ]
