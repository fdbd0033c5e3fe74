"""Objects for workers that have no access to the store: each as far as a token allows.

A slot shows its task token; a supervisor its API key, and for the log of an attempt the claim token
besides (`Arco-Claim`). `arco.transport.work_grants` defines what each may access. Objects in a
cloud are accessed by URLs of that cloud; everything else passes through the server, in parts.
"""

from __future__ import annotations

import asyncio
import functools
import queue
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from typing import Annotated, Any, Final
from urllib.parse import unquote

import msgspec
from litestar import Request, Response
from litestar.response import Stream
from msgspec import Meta

from arco.api.authentication import bearer_token, unauthenticated
from arco.api.exchange import RequestHeaders, exchange_of, raw_rest
from arco.api.parameters import parse
from arco.api.problems import ApiError
from arco.api.routes import Parameters
from arco.api.served import ServedWorkspace
from arco.api.server import ApiServer, check_rate
from arco.api.signature_keys import has_keys
from arco.api.work import PERMISSION, admitted_worker, worker_id
from arco.errors import (
    AlreadyExists,
    Denied,
    Error,
    Invalid,
    NotFound,
    Unauthenticated,
    Unavailable,
)
from arco.security.caller import Caller
from arco.storage.http import MODIFIED, ListedObject, ObjectListing, Upload
from arco.storage.port import Mode, ObjectMeta, Store
from arco.transport.work_grants import ObjectRules, WorkGrant, supervisor_rules

SIGNED_FOR: Final = timedelta(minutes=15)
CHUNK_BYTES: Final = 4 << 20
WHOLE_BYTES: Final = 8 << 20
"""An object up to this size is put at once; a larger one passes through in parts."""
PAGE: Final = 1_000
CLAIM: Final = "arco-claim"
WORKER: Final = "arco-worker"
_ARTIFACT = re.compile(r"artifacts/[0-9a-f]{64}\.zip")
_REDIRECTED: Final = ("data/", "artifacts/", "inputs/")
_RANGE = re.compile(r"bytes=(\d{1,18})-(\d{1,18})", re.ASCII)
_END: Final = object()
_SEGMENTS: Final = 7
"""Of `/api/v1/workspaces/{tenant}/{workspace}/work/objects`, before the path of an object."""

RawResponse = Response[Any]


class ObjectParameters(Parameters, frozen=True, kw_only=True):
    prefix: str = ""
    start_after: str = ""


class VersionsParameters(Parameters, frozen=True, kw_only=True):
    cursor: Annotated[str, Meta(max_length=20, pattern="^[0-9]*$")] = ""


@dataclass(frozen=True)
class ObjectAccess:
    """What a request may use."""

    served: ServedWorkspace
    store: Store
    rules: ObjectRules
    grant: WorkGrant | None = None
    """Of a task, or of the evaluation of a sensor."""

    def refuse(self, what: str, path: str) -> Denied:
        return Denied(
            f"this token does not let you {what} {path}",
            hint="a task reads its planned inputs, and writes its own output",
        )


def raw_path(request: Request[Any, Any, Any]) -> str:
    """The path of an object, decoded once, from what the client sent."""
    try:
        return unquote(raw_rest(request.scope, _SEGMENTS), errors="strict")
    except UnicodeDecodeError:
        raise Invalid("the path is not UTF-8 text") from None


class Objects:
    """The objects of all workspaces of a server."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server

    async def access(
        self, request: Request[Any, Any, Any], operation: str, route: str
    ) -> ObjectAccess:
        server, exchange = self._server, exchange_of(request.scope)
        exchange.route, exchange.operation = route, operation
        exchange.permission = PERMISSION.value
        headers = RequestHeaders(request.scope)
        token = bearer_token(headers, is_read=False)
        at = request.scope["path_params"]["tenant"], request.scope["path_params"]["workspace"]
        of_task = server.workspaces.get(at)
        if of_task is not None and await has_keys(server, of_task):
            work = of_task.work
            if work.is_task_token(token):
                server.check_address(exchange.address)
                try:
                    grant = work.task_grant(token)
                except Unauthenticated:  # as for a workspace that is not there
                    server.failed_login(exchange.address)
                    raise unauthenticated("the token is not valid") from None
                exchange.workspace = "/".join(at)
                exchange.who = Caller(kind="worker", id=f"task:{grant.attempt_id}")
                check_rate(server.work_limits, f"task:{grant.attempt_id}")
                rules = await server.in_thread(lambda: work.task_rules(grant), of_task)
                return ObjectAccess(of_task, of_task.workspace.store, rules, grant)
        served, caller = await admitted_worker(server, request, operation, route)
        rules = ObjectRules()
        claim = headers.get(CLAIM)
        if claim is not None:
            worker = worker_id(headers.get(WORKER) or "", caller)
            given = functools.partial(_claim_grant, served, worker, caller, claim)
            grant = await server.in_thread(given, served)
            rules = supervisor_rules(grant)
        path = raw_path(request)
        if _ARTIFACT.fullmatch(path):  # its digest is known to who was given a task of it
            rules = msgspec.structs.replace(rules, objects=rules.objects | {path})
        return ObjectAccess(served, served.workspace.store, rules)

    # -- what sensors look at ------------------------------------------------------------

    async def new_versions(self, request: Request[Any, Any, Any]) -> RawResponse:
        """List versions that a sensor waits for: those after its cursor, a position of the log."""
        access = await self.access(request, "new_versions", "/work/versions")
        cursor = parse(VersionsParameters, {}, request.scope["query_string"]).cursor
        if access.grant is None or not access.grant.sensor_id:
            raise Denied("only a sensor may read new versions", hint="send its task token")
        served, sensor_id = access.served, access.grant.sensor_id
        new = await self._server.in_thread(
            lambda: served.work.new_versions(sensor_id, cursor), served
        )
        return Response(msgspec.json.encode(new), media_type="application/json")

    # -- reading -------------------------------------------------------------------------

    async def get_object(self, request: Request[Any, Any, Any]) -> RawResponse:
        """Read an object, or a range of it. With a cloud store, the response is a redirect."""
        access = await self.access(request, "get_object", "/work/objects/{path}")
        path, store = raw_path(request), access.store
        if not access.rules.may_read(path):
            raise access.refuse("read", path)
        if path.startswith(_REDIRECTED) and store.url.partition("://")[0] in ("s3", "gs", "az"):
            url = await self._server.in_thread(lambda: _signed(store, path), access.served)
            if url:
                return Response(b"", status_code=307, headers={"Location": url})
        meta = await self._server.in_thread(lambda: store.head(path), access.served)
        range_header = RequestHeaders(request.scope).get("range")
        if range_header is None and meta.size <= CHUNK_BYTES:
            # At once: between two calls it may be replaced.
            data, meta = await self._server.in_thread(lambda: store.get(path), access.served)
            return Response(data, headers=_headers(meta, 0, len(data)), media_type=_OCTETS)
        start, end, status = _span(range_header, meta)
        headers = _headers(meta, start, end)
        if end - start <= CHUNK_BYTES:
            read = functools.partial(store.get_range, path, start, end - start)
            data = await self._server.in_thread(read, access.served)
            return Response(data, status_code=status, headers=headers, media_type=_OCTETS)
        parts = self._parts(access, path, start, end)
        return Stream(parts, status_code=status, headers=headers, media_type=_OCTETS)

    async def _parts(
        self, access: ObjectAccess, path: str, start: int, end: int
    ) -> AsyncIterator[bytes]:
        for at in range(start, end, CHUNK_BYTES):
            read = functools.partial(access.store.get_range, path, at, min(CHUNK_BYTES, end - at))
            yield await self._server.in_thread(read, access.served)

    async def object_metadata(self, request: Request[Any, Any, Any]) -> RawResponse:
        """Return the size and the time of an object."""
        access = await self.access(request, "object_metadata", "/work/metadata/{path}")
        path = raw_path(request)
        if not access.rules.may_read(path):
            raise access.refuse("read", path)
        meta = await self._server.in_thread(lambda: access.store.head(path), access.served)
        return _json(ListedObject(path, meta.size, meta.last_modified))

    async def list_objects(self, request: Request[Any, Any, Any]) -> RawResponse:
        """List the objects of a folder, in pages."""
        access = await self.access(request, "list_objects", "/work/objects")
        parameters = parse(ObjectParameters, {}, request.scope["query_string"])
        if not access.rules.may_list(parameters.prefix):
            raise access.refuse("list", parameters.prefix)

        def listed() -> list[ObjectMeta]:
            after = parameters.start_after or None
            return list(islice(access.store.list(parameters.prefix, after), PAGE + 1))

        metas = await self._server.in_thread(listed, access.served)
        items = [ListedObject(*meta) for meta in metas[:PAGE]]
        more = items[-1].path if len(metas) > PAGE else ""
        return _json(ObjectListing(items=items, start_after=more))

    # -- writing -------------------------------------------------------------------------

    async def put_object(self, request: Request[Any, Any, Any]) -> RawResponse:
        """Write an object; with `If-None-Match: *`, only if it is absent."""
        access = await self.access(request, "put_object", "/work/objects/{path}")
        path, rules, store = raw_path(request), access.rules, access.store
        headers = RequestHeaders(request.scope)
        creates = headers.get("if-none-match") == "*"
        if not (rules.may_create(path) if creates else rules.may_write(path)):
            raise access.refuse("create" if creates else "write", path)
        size = _content_length(headers.get("content-length") or "")
        if rules.is_own(path) and (size is None or size > WHOLE_BYTES):
            exists = functools.partial(_exists, store, path)
            if creates and await self._server.in_thread(exists, access.served):
                raise AlreadyExists(f"{path} exists")
            await self._pass_through(request, store, path, size)
            return Response(b"", status_code=204)
        data = await self._server.body(request, WHOLE_BYTES)
        if size is not None and size != len(data):
            raise Unavailable("the body ended before its length")
        mode = Mode.OVERWRITE
        if creates:
            mode = Mode.FRESH if rules.is_own(path) else Mode.CREATE
        await self._server.in_thread(lambda: store.put(path, data, mode), access.served)
        return Response(b"", status_code=204)

    async def _pass_through(
        self, request: Request[Any, Any, Any], store: Store, path: str, length: int | None
    ) -> None:
        """Write a body in parts, without holding all of it in memory. It is visible at the end."""
        passing: queue.Queue[Any] = queue.Queue(maxsize=4)
        loop = asyncio.get_running_loop()

        def parts() -> Iterator[bytes]:
            while (part := passing.get()) is not _END:
                if isinstance(part, BaseException):
                    raise part
                yield part

        async with self._server.uploading:
            writing = loop.run_in_executor(None, lambda: store.put_parts(path, parts()))
            size = 0
            ended: Any = _END
            try:
                async for part in _received(request, self._server.settings.body_timeout_s):
                    size += len(part)
                    await _handed(passing, part, writing)
                if length is not None and size != length:
                    ended = Unavailable(f"{path}: the body ended before its length")
            except BaseException as error:
                ended = error
            await _handed(passing, ended, writing)
            await writing
        if isinstance(ended, BaseException):
            raise ended

    async def delete_object(self, request: Request[Any, Any, Any]) -> RawResponse:
        """Remove an object of the task's own output."""
        access = await self.access(request, "delete_object", "/work/objects/{path}")
        path = raw_path(request)
        if not access.rules.is_own(path):
            raise access.refuse("remove", path)
        await self._server.in_thread(lambda: access.store.delete(path), access.served)
        return Response(b"", status_code=204)

    async def begin_upload(self, request: Request[Any, Any, Any]) -> RawResponse:
        """Return the URL for uploading a large object of the task's own output."""
        access = await self.access(request, "begin_upload", "/work/uploads/{path}")
        path, store = raw_path(request), access.store
        if not access.rules.is_own(path):
            raise access.refuse("write", path)
        upload = await self._server.in_thread(lambda: _upload(store, path), access.served)
        return _json(upload)


_OCTETS: Final = "application/octet-stream"


def _claim_grant(served: ServedWorkspace, worker: str, caller: Caller, claim: str) -> WorkGrant:
    return served.work.claim_grant(worker, f"{caller.kind}:{caller.id}", claim)


def _json(body: msgspec.Struct) -> RawResponse:
    return Response(msgspec.json.encode(body), media_type="application/json")


def _headers(meta: ObjectMeta, start: int, end: int) -> dict[str, str]:
    headers = {
        MODIFIED: meta.last_modified.isoformat(),
        "Content-Length": str(end - start),
        "Accept-Ranges": "bytes",
    }
    if end - start != meta.size:
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{meta.size}"
    return headers


def _span(header: str | None, meta: ObjectMeta) -> tuple[int, int, int]:
    """Begin, end and status of what is asked for."""
    match = _RANGE.fullmatch(header.strip()) if header else None
    if match is None:
        return 0, meta.size, 200
    start, end = int(match[1]), min(int(match[2]) + 1, meta.size)
    if start >= end:
        raise ApiError("invalid", f"the object has {meta.size} bytes", code="invalid_range")
    return start, end, 206


def _content_length(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < 19 else None


def _exists(store: Store, path: str) -> bool:
    try:
        store.head(path)
    except NotFound:
        return False
    return True


def _signed(store: Store, path: str) -> str:
    """A URL of the cloud; empty where it cannot make one."""
    store.head(path)  # a redirect to a missing object would have another answer
    try:
        return store.sign(path, SIGNED_FOR)
    except Error:  # it may lack a key to sign with: the bytes go through the server
        return ""


def _upload(store: Store, path: str) -> Upload:
    sign_put = getattr(store, "sign_put", None)
    try:
        signed = None if sign_put is None else sign_put(path, SIGNED_FOR)
    except Error:
        signed = None
    return Upload() if signed is None else Upload(url=signed.url, headers=signed.headers)


async def _received(request: Request[Any, Any, Any], timeout_s: float) -> AsyncIterator[bytes]:
    """The parts of a body. Raises if the client leaves before its end."""
    stream = request.stream()
    while True:
        try:
            async with asyncio.timeout(timeout_s):
                yield await anext(stream)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise ApiError("invalid", "the body did not arrive in time", code="slow_body") from None


async def _handed(passing: queue.Queue[Any], part: Any, writing: asyncio.Future[None]) -> None:
    """Pass a part on; drop it if the reader has ended."""
    while not writing.done():
        try:
            passing.put_nowait(part)
            return
        except queue.Full:
            await asyncio.sleep(0.005)
