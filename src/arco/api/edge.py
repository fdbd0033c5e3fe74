"""The outermost layer: request ids, limits, hosts, security headers, access log, cached answers."""

from __future__ import annotations

from collections.abc import Callable

from litestar.enums import ScopeType
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from arco.api.access_log import AccessLog
from arco.api.api_settings import ApiSettings
from arco.api.exchange import SCOPE_KEY, Exchange, client_address, header
from arco.api.problems import MEDIA_TYPE, ApiError, ProblemReader, encode, problem_of
from arco.api.rendered import RenderedAnswer
from arco.api.response_cache import ResponseCache
from arco.clock import Clock

MAX_HEADER_BYTES = 32 << 10
MAX_TARGET_BYTES = 8 << 10


class Edge:
    def __init__(
        self,
        app: ASGIApp,
        cache: ResponseCache,
        settings: ApiSettings,
        clock: Clock,
        ids: Callable[[], str],
        access: AccessLog,
    ) -> None:
        self._app = app
        self._cache = cache
        self._settings = settings
        self._clock = clock
        self._ids = ids
        self._access = access
        self._headers = _security_headers(settings)
        names = (b"cache-control",)
        self._headers_of_cached = [pair for pair in self._headers if pair[0] not in names]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != ScopeType.HTTP:
            await self._app(scope, receive, send)
            return
        exchange = Exchange(
            request_id=self._ids(),
            address=client_address(scope, self._settings.trusted_proxies),
            method=scope["method"],
        )
        began = self._clock.monotonic()
        try:
            refusal = self._refusal(scope)
            cached = None if refusal is not None else self._cache.answer(scope, exchange)
            if cached is not None:
                await self._send_cached(*cached, exchange, send)
                return
            added = [*self._headers, (b"x-request-id", exchange.request_id.encode())]
            send_on = _observed(send, exchange, added)
            if refusal is not None:
                await _refuse(refusal, exchange, send_on)
            else:
                scope[SCOPE_KEY] = exchange  # type: ignore[literal-required]
                await self._app(scope, receive, send_on)
        finally:
            for end in exchange.on_end:
                end()
            self._access.note(exchange, self._clock.monotonic() - began)

    async def _send_cached(
        self, status: int, answer: RenderedAnswer, exchange: Exchange, send: Send
    ) -> None:
        is_whole = status == 200
        exchange.status = status
        exchange.bytes = len(answer.body) if is_whole else 0
        await send(
            {
                "type": "http.response.start",
                "status": status,
                "headers": [
                    *(answer.headers if is_whole else answer.headers_unchanged),
                    *self._headers_of_cached,
                    (b"x-request-id", exchange.request_id.encode()),
                ],
            }
        )
        body = answer.body if is_whole else b""
        await send({"type": "http.response.body", "body": body, "more_body": False})

    def _refusal(self, scope: Scope) -> ApiError | None:
        if sum([len(name) + len(value) for name, value in scope["headers"]]) > MAX_HEADER_BYTES:
            return ApiError("too_large", "the headers are too large", code="headers_too_large")
        if len(scope["raw_path"]) + len(scope["query_string"]) > MAX_TARGET_BYTES:
            return ApiError("too_large", "the URL is too long", code="url_too_long")
        hosts = self._settings.hosts
        if hosts and (header(scope, b"host") or "").lower() not in hosts:
            return ApiError("invalid", "this server does not have that name", code="unknown_host")
        return None


def _observed(send: Send, exchange: Exchange, added: list[tuple[bytes, bytes]]) -> Send:
    """Adds missing headers to an answer, and records its status and size."""

    async def send_on(message: Message) -> None:
        if message["type"] == "http.response.start":
            exchange.status = message["status"]
            present = {name.lower() for name, _ in message["headers"]}
            extra = [pair for pair in added if pair[0] not in present]
            message["headers"] = [*message["headers"], *extra]
        elif message["type"] == "http.response.body":
            exchange.bytes += len(message.get("body", b""))
        await send(message)

    return send_on


async def _refuse(error: ApiError, exchange: Exchange, send: Send) -> None:
    problem = problem_of(error, request_id=exchange.request_id, reader=ProblemReader())
    exchange.error_code = problem.code
    body = encode(problem)
    await send(
        {
            "type": "http.response.start",
            "status": problem.status,
            "headers": [
                (b"content-type", MEDIA_TYPE.encode()),
                (b"content-length", str(len(body)).encode()),
                (b"connection", b"close"),
            ],
        }
    )
    await send({"type": "http.response.body", "body": body, "more_body": False})


def _security_headers(settings: ApiSettings) -> list[tuple[bytes, bytes]]:
    headers = [
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"no-referrer"),
        (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
        (b"cross-origin-resource-policy", b"same-origin"),
        (b"cache-control", b"no-store"),
        (b"vary", b"Authorization, Cookie, Accept"),
    ]
    if settings.secure:
        headers.append((b"strict-transport-security", b"max-age=31536000"))
    return headers
