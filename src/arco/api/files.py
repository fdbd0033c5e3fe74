"""`GET` and `HEAD …/files/{path}`, and what answers the server's own signed URLs.

A file of a table is answered with a redirect to a signed URL, which lives for five minutes; the
size is in the manifest. The URL gives access to that file until then: it is never logged.
"""

from __future__ import annotations

import secrets
from typing import Any, Final
from urllib.parse import urlsplit

from litestar import Request

from arco.api.admission import admitted
from arco.api.exchange import Answer, RequestHeaders, exchange_of, raw_rest
from arco.api.file_urls import CACHED_S, LIFE
from arco.api.parameters import parse
from arco.api.reads.files import CHANGES, PERMISSION, require_all, stored_file
from arco.api.reads.objects import PERMISSION as OBJECTS_PERMISSION
from arco.api.reads.objects import part_of
from arco.api.routes import AtParameters, Parameters
from arco.api.row_visibility import RowVisibility
from arco.api.served import ServedWorkspace
from arco.api.server import ApiServer
from arco.api.signature_keys import has_keys
from arco.api.visible_objects import VisibleObjects
from arco.clock import Clock
from arco.errors import Error, Invalid
from arco.storage.signing import Response as SignedAnswer
from arco.storage.signing import Signer, SigningKey, byte_range, plain_range, preflight, respond

OPERATION: Final = "get_file"
OBJECT: Final = "application/octet-stream"
PARQUET: Final = "application/vnd.apache.parquet"
_OF_ANSWER: Final = ("Content-Type", "Content-Length")
"""Headers that the server works out."""
_SEGMENTS: Final = 6
"""Of `/api/v1/workspaces/{tenant}/{workspace}/signed`."""
_CACHED: Final = {"Cache-Control": f"private, max-age={CACHED_S}"}


async def answer_file(server: ApiServer, request: Request[Any, Any, Any]) -> Answer:
    scope, route = request.scope, "/files/{path}"
    served, _, visible = await admitted(server, request, route, OPERATION, PERMISSION, is_read=True)
    require_all(visible)
    parameters = parse(AtParameters, {}, scope["query_string"])
    path = str(scope["path_params"]["path"]).removeprefix("/")
    range_header = RequestHeaders(scope).get("range")
    is_head = scope["method"] == "HEAD"
    return await server.in_thread(
        lambda: _answer(server, served, parameters, path, range_header, is_head=is_head), served
    )


async def answer_object(server: ApiServer, request: Request[Any, Any, Any]) -> Answer:
    """An object of the store, for readers elsewhere."""
    scope, route, operation = request.scope, "/objects/{path}", "get_stored_object"
    served, caller, _ = await admitted(
        server, request, route, operation, OBJECTS_PERMISSION, is_read=True
    )
    parse(Parameters, {}, scope["query_string"])
    path = str(scope["path_params"]["path"]).removeprefix("/")
    range_header = RequestHeaders(scope).get("range")

    def call() -> Answer:
        view = served.view(AtParameters(), caller)
        bounds = None if range_header is None else plain_range(range_header)
        if not view.sees_objects:
            data = VisibleObjects(RowVisibility(view, view.sees_runs_of)).get(path)
            if bounds is None:
                return Answer(200, data, OBJECT)
            data = part_of(path, data, *bounds)
        elif bounds is None:
            return Answer(200, served.objects.get(path, see_all=view.sees_security), OBJECT)
        else:
            data = served.objects.part(path, *bounds, see_all=view.sees_security)
        start, length = bounds
        sent = {"Content-Range": f"bytes {start}-{start + length - 1}/*"}
        return Answer(206, data, OBJECT, sent)

    return await server.in_thread(call, served)


def _answer(
    server: ApiServer,
    served: ServedWorkspace,
    parameters: AtParameters,
    path: str,
    range_header: str | None,
    *,
    is_head: bool,
) -> Answer:
    view = served.view(parameters)
    headers = {"Arco-Generation": str(view.generation), **_CACHED}
    if path.startswith(CHANGES):
        raw = served.change_files.get(view, path)
        if is_head:
            return _size(len(raw), headers)
        answer = byte_range(raw, range_header)
        sent = {name: value for name, value in answer.headers.items() if name not in _OF_ANSWER}
        return Answer(answer.status, answer.body, PARQUET, {**sent, **headers})
    ref = stored_file(view, path)
    if is_head:
        return _size(ref.bytes, headers)
    url = _signed(served, path, by_server=server.settings.sends_files)
    return Answer(307, b"", headers={**headers, "Location": url})


def _size(size: int, headers: dict[str, str]) -> Answer:
    """DuckDB in a browser asks for `bytes=0-` with HEAD, and wants 206."""
    sent = {
        "Accept-Ranges": "bytes",
        "Content-Length": str(size),
        "Content-Range": f"bytes 0-{size - 1}/{size}",
    }
    return Answer(206, b"", PARQUET, headers={**sent, **headers})


def _signed(served: ServedWorkspace, path: str, *, by_server: bool) -> str:
    if not by_server:
        try:
            return served.workspace.store.sign(path, LIFE)
        except Invalid:  # it has no URLs of its own, or none for such a name
            pass
    return served.signer.sign(path, LIFE)


def file_origins(server: ApiServer) -> list[str]:
    """Origins besides the server's own that files of tables are read from."""
    if server.settings.sends_files:
        return []
    origins = set()
    for served in server.workspaces.values():
        try:
            url = urlsplit(served.workspace.store.sign("state/any", LIFE))
        except Error:  # it has no URLs of its own
            continue
        if url.scheme in ("http", "https"):
            origins.add(f"{url.scheme}://{url.netloc}")
    return sorted(origins)


def _nobody(clock: Clock) -> Signer:
    return Signer("", [SigningKey("none", secrets.token_bytes(32))], clock)


async def answer_signed(server: ApiServer, request: Request[Any, Any, Any]) -> Answer:
    """The bytes, for whoever has the URL."""
    scope, exchange = request.scope, exchange_of(request.scope)
    exchange.route = "/signed/{path}"
    headers = RequestHeaders(scope)
    origin = headers.get("origin")
    if scope["method"] == "OPTIONS":
        answer = preflight(origin)
    else:
        served = server.workspaces.get(
            (scope["path_params"]["tenant"], scope["path_params"]["workspace"])
        )
        # Raw, as it was signed.
        rest = raw_rest(scope, _SEGMENTS)
        target = f"/signed/{rest}?{scope['query_string'].decode('latin-1')}"
        signer = _nobody(server.clock)
        if served is not None and await has_keys(server, served):
            signer = served.signer
        # For a missing workspace no signature is valid, and the answer is the same.
        any_served = served or next(iter(server.workspaces.values()))

        def send() -> SignedAnswer:
            return respond(
                any_served.workspace.store,
                signer,
                target,
                range_header=headers.get("range"),
                origin=origin,
                now=server.clock.now(),
            )

        try:
            signer.verify(target, server.clock.now())
        except Error:  # which is told without the store, and without its threads
            answer = send()
        else:
            answer = await server.in_thread(send, served)
    sent = dict(answer.headers)
    media_type = sent.pop("Content-Type", "application/octet-stream")
    sent.pop("Content-Length", None)
    if answer.status in (200, 206):
        sent |= {"Cache-Control": f"private, max-age={CACHED_S}"}
        sent |= {"Cross-Origin-Resource-Policy": "cross-origin"}
    return Answer(answer.status, answer.body, media_type, sent)
