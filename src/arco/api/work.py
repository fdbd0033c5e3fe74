"""Routes for workers that have no access to the store: claims, heartbeats, reports.

All of them need `workers.work` in the whole workspace. A worker's name ends with that of its key,
so that a worker cannot act for one of another key. See `arco.app.remote_work`.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

import msgspec
from litestar import Request

from arco.api.admission import admitted
from arco.api.exchange import Answer, RequestHeaders
from arco.api.parameters import parse
from arco.api.problems import ApiError, invalid_body, invalid_field
from arco.api.routes import Parameters
from arco.api.served import ServedWorkspace
from arco.api.server import ApiServer
from arco.app.remote_work import RemoteWork
from arco.security.caller import Caller
from arco.security.permissions import Permission
from arco.transport.work_messages import (
    ClaimAnswer,
    ClaimedTask,
    ClaimRequest,
    ClaimsRequest,
    HeartbeatAnswer,
    HeartbeatRequest,
    ReportRequest,
    WorkDone,
    WorkSettings,
)

PERMISSION: Final = Permission.WORKERS_WORK
FIRST_LOOK_S: Final = 0.1
LONGEST_LOOK_S: Final = 1.0
"""Pause between two reads of the queue while a request waits for tasks."""
REPORT_BYTES: Final = 16 << 20

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
B = TypeVar("B", bound=msgspec.Struct)
T = TypeVar("T")


@dataclass(frozen=True)
class WorkerCall:
    """A request of a worker, admitted."""

    server: ApiServer
    request: Request[Any, Any, Any]
    served: ServedWorkspace
    caller: str
    worker: str

    async def have_done(self, act: Callable[[RemoteWork], T]) -> T:
        """In a thread: also the first read of the workspace's keys reads the store."""
        return await self.server.in_thread(lambda: act(self.served.work), self.served)


def worker_id(name: str, caller: Caller) -> str:
    """The worker's name for everybody else. Raises for a name that cannot be one."""
    if _NAME.fullmatch(name) is None:
        raise invalid_field("worker", "is not 1 to 100 of A-Z, a-z, 0-9, '.', '_' and '-'")
    key = re.sub(r"[^A-Za-z0-9_-]", "-", caller.id)[:64]
    if key != caller.id:  # two may look alike now
        key = f"{key[:40]}-{hashlib.sha256(caller.id.encode()).hexdigest()[:8]}"
    return f"{name}@{key}"


async def admitted_worker(
    server: ApiServer, request: Request[Any, Any, Any], operation: str, route: str
) -> tuple[ServedWorkspace, Caller]:
    """The workspace and the caller. Raises unless the caller has the permission for workers."""
    limits = server.work_limits
    served, caller, _ = await admitted(
        server, request, route, operation, PERMISSION, is_read=False, limits=limits
    )
    return served, caller


# -- the operations -----------------------------------------------------------------------


async def worker_settings(call: WorkerCall, body: None) -> WorkSettings:
    """Return the settings that a worker needs to start."""
    runtime, served = call.served.workspace.runtime, call.served

    def read(work: RemoteWork) -> WorkSettings:
        return WorkSettings(
            tenant=served.tenant,
            workspace=served.name,
            worker_id=call.worker,
            claim_s=work.claim_s,
            secret_variables=sorted(runtime.secret_variables()),
            needs_spark=runtime.needs_spark(),
            store=served.workspace.store.url,
        )

    return await call.have_done(read)


async def claim_tasks(call: WorkerCall, body: ClaimRequest) -> ClaimAnswer:
    """Claim tasks of the queue for a worker; wait for some if there are none.

    Repeating it with the same `token` returns the same tasks.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + body.wait_s
    leaving = asyncio.create_task(_left(call.request))
    draining = asyncio.create_task(call.server.draining.wait())
    pause_s = FIRST_LOOK_S
    tasks: list[ClaimedTask] = []
    try:
        while True:
            tasks = await call.have_done(lambda work: work.claim(call.worker, call.caller, body))
            left = until - loop.time()
            if tasks or left <= 0 or leaving.done() or draining.done():
                break
            await asyncio.wait(
                {leaving, draining},
                timeout=min(pause_s, left),
                return_when=asyncio.FIRST_COMPLETED,
            )
            if leaving.done() or draining.done():
                break
            pause_s = min(1.5 * pause_s, LONGEST_LOOK_S)
        if tasks and leaving.done():  # the worker has disconnected
            claims = [task.claim for task in tasks]
            await call.have_done(lambda work: work.release(call.worker, call.caller, claims))
            tasks = []
    finally:
        leaving.cancel()
        draining.cancel()
    return ClaimAnswer(tasks=tasks)


async def _left(request: Request[Any, Any, Any]) -> None:
    with contextlib.suppress(Exception):
        while (await request.receive())["type"] != "http.disconnect":
            pass


async def send_heartbeat(call: WorkerCall, body: HeartbeatRequest) -> HeartbeatAnswer:
    """Renew the claims and the liveness record of a worker; return cancelled runs."""
    return await call.have_done(lambda work: work.heartbeat(call.worker, call.caller, body))


async def report_events(call: WorkerCall, body: ReportRequest) -> WorkDone:
    """Append events of attempts that the worker was given. The same batch counts once."""
    await call.have_done(lambda work: work.report(call.worker, call.caller, body))
    call.served.invalidate()
    return WorkDone()


async def acknowledge_tasks(call: WorkerCall, body: ClaimsRequest) -> WorkDone:
    """Remove messages from the queue: the results of their tasks are in the log."""
    await call.have_done(lambda work: work.done(call.worker, call.caller, body.claims))
    return WorkDone()


async def release_tasks(call: WorkerCall, body: ClaimsRequest) -> WorkDone:
    """Release claims: other workers may claim the tasks at once."""
    await call.have_done(lambda work: work.release(call.worker, call.caller, body.claims))
    return WorkDone()


@dataclass(frozen=True)
class WorkRoute:
    method: Literal["GET", "POST"]
    path: str
    body: type[msgspec.Struct] | None
    answer: type[msgspec.Struct]
    call: Callable[[WorkerCall, Any], Awaitable[msgspec.Struct]]

    @property
    def operation(self) -> str:
        return self.call.__name__

    @property
    def summary(self) -> str:
        assert self.call.__doc__
        return self.call.__doc__


WORK_ROUTES: Final = (
    WorkRoute("GET", "/work/{worker}/settings", None, WorkSettings, worker_settings),
    WorkRoute("POST", "/work/{worker}/claims", ClaimRequest, ClaimAnswer, claim_tasks),
    WorkRoute(
        "POST", "/work/{worker}/heartbeat", HeartbeatRequest, HeartbeatAnswer, send_heartbeat
    ),
    WorkRoute("POST", "/work/{worker}/reports", ReportRequest, WorkDone, report_events),
    WorkRoute("POST", "/work/{worker}/done", ClaimsRequest, WorkDone, acknowledge_tasks),
    WorkRoute("POST", "/work/{worker}/releases", ClaimsRequest, WorkDone, release_tasks),
)


async def answer_work(
    server: ApiServer, route: WorkRoute, request: Request[Any, Any, Any]
) -> Answer:
    served, caller = await admitted_worker(server, request, route.operation, route.path)
    worker = worker_id(request.scope["path_params"]["worker"], caller)
    parse(Parameters, {}, request.scope["query_string"])
    body = None
    if route.body is not None:
        body = await _body(server, request, route.body)
    call = WorkerCall(server, request, served, f"{caller.kind}:{caller.id}", worker)
    answer = await route.call(call, body)
    return Answer(200, msgspec.json.encode(answer))


async def _body(server: ApiServer, request: Request[Any, Any, Any], type_: type[B]) -> B:
    raw = await server.body(request, REPORT_BYTES)
    content_type = RequestHeaders(request.scope).get("content-type") or ""
    if content_type.partition(";")[0].strip().lower() != "application/json":
        raise ApiError(
            "unsupported_media_type",
            "the body must be application/json",
            hint="send Content-Type: application/json",
        )
    try:
        return msgspec.json.decode(raw, type=type_)
    except msgspec.DecodeError as error:
        raise invalid_body(error, "body") from None
    except (UnicodeDecodeError, RecursionError):
        raise ApiError("invalid", "the body is not JSON in UTF-8", code="invalid_json") from None
