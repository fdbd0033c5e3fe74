"""The outermost layer: request ids, bounds on headers, hosts, security headers, the access log.

The log has the route as it is declared, never the path or the query that a client sent: those may
hold tokens, signed URLs, or line breaks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import msgspec
from litestar.enums import ScopeType
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from arco.api.api_settings import ApiSettings
from arco.api.exchange import SCOPE_KEY, Exchange, client_address, header
from arco.api.problems import MEDIA_TYPE, ApiError, Reader, encode, problem_of
from arco.clock import Clock
from arco.times import iso

log = logging.getLogger("arco.api.access")

MAX_HEADER_BYTES = 32 << 10
MAX_TARGET_BYTES = 8 << 10


class Edge:
    def __init__(
        self, app: ASGIApp, settings: ApiSettings, clock: Clock, ids: Callable[[], str]
    ) -> None:
        self._app = app
        self._settings = settings
        self._clock = clock
        self._ids = ids
        self._headers = _security_headers(settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != ScopeType.HTTP:
            await self._app(scope, receive, send)
            return
        exchange = Exchange(
            request_id=self._ids(),
            address=client_address(scope, self._settings.trusted_proxies),
            method=str(scope.get("method", "")),
        )
        scope[SCOPE_KEY] = exchange  # type: ignore[literal-required]
        began = self._clock.monotonic()
        added = [*self._headers, (b"x-request-id", exchange.request_id.encode())]

        async def send_on(message: Message) -> None:
            if message["type"] == "http.response.start":
                exchange.status = message["status"]
                present = {name.lower() for name, _ in message["headers"]}
                extra = [pair for pair in added if pair[0] not in present]
                message["headers"] = [*message["headers"], *extra]
            elif message["type"] == "http.response.body":
                exchange.bytes += len(message.get("body", b""))
            await send(message)

        try:
            refusal = self._refusal(scope)
            if refusal is not None:
                await _refuse(refusal, exchange, send_on)
            else:
                await self._app(scope, receive, send_on)
        finally:
            self._record(exchange, self._clock.monotonic() - began)

    def _refusal(self, scope: Scope) -> ApiError | None:
        if sum(len(name) + len(value) for name, value in scope["headers"]) > MAX_HEADER_BYTES:
            return ApiError("too_large", "the headers are too large", code="headers_too_large")
        if len(scope["raw_path"]) + len(scope["query_string"]) > MAX_TARGET_BYTES:
            return ApiError("too_large", "the URL is too long", code="url_too_long")
        hosts = self._settings.hosts
        if hosts and (header(scope, b"host") or "").lower() not in hosts:
            return ApiError("invalid", "this server does not have that name", code="unknown_host")
        return None

    def _record(self, exchange: Exchange, took_s: float) -> None:
        if not log.isEnabledFor(logging.INFO):
            return
        line = {
            "time": iso(self._clock.now()),
            "request_id": exchange.request_id,
            "method": exchange.method,
            "route": exchange.route or "(none)",
            "workspace": exchange.workspace,
            "caller": "" if exchange.who is None else exchange.who.actor,
            "address": exchange.address,
            "status": exchange.status,
            "code": exchange.error_code,
            "bytes": exchange.bytes,
            "ms": round(took_s * 1000, 1),
        }
        log.info("%s", msgspec.json.encode(line).decode())


async def _refuse(error: ApiError, exchange: Exchange, send: Send) -> None:
    problem = problem_of(error, request_id=exchange.request_id, reader=Reader())
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
