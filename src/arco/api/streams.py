"""Server-sent events: our own response, with pings, an end, and cleanup when a client leaves.

A stream ends after `stream_age_s`, when the server stops, and when the client has gone; a client
goes on with `Last-Event-ID`, on any server. Closing a stream cancels nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Annotated, Any

import msgspec
from litestar import Request, Response
from litestar.types import Receive, Scope, Send
from msgspec import Meta

from arco.api.admission import admitted
from arco.api.events import (
    KEPT,
    LOOK_S,
    SLICE,
    EventFilter,
    LogEvent,
    Tail,
    read_events,
    seen_events,
)
from arco.api.exchange import RequestHeaders
from arco.api.parameters import parse
from arco.api.problems import ApiError, invalid_field
from arco.api.reads.catalog import AssetName
from arco.api.routes import AtParameters, Parameters
from arco.api.run_visibility import require_run
from arco.api.served import ServedWorkspace
from arco.api.server import ApiServer
from arco.api.views import require_asset
from arco.errors import Error
from arco.plain_json import plain
from arco.security.permissions import Permission
from arco.security.visibility import Visible

PERMISSION = Permission.RUNS_READ
OPERATION = "stream_events"


class StreamParameters(Parameters, frozen=True, kw_only=True):
    type: Annotated[
        list[Annotated[str, Meta(max_length=100)]],
        Meta(max_length=50, description="Types of events, or prefixes that end with a dot."),
    ] = []
    run_id: Annotated[str, Meta(max_length=64, description="Only events of this run.")] = ""
    asset: Annotated[AssetName, Meta(description="Only events of this asset.")] = ""
    after: (
        Annotated[int, Meta(ge=0, le=(1 << 53) - 1, description="Start after this position.")]
        | None
    ) = None


class EventStreams:
    """All streams of a server."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._tails = {each: Tail(served) for each, served in server.workspaces.items()}
        self._of_caller: Counter[str] = Counter()
        self._tailing: dict[tuple[str, str], asyncio.Task[None]] = {}

    async def open(self, request: Request[Any, Any, Any]) -> Response[bytes]:
        scope = request.scope
        served, caller, visible = await admitted(
            self._server, request, "/events", OPERATION, PERMISSION, is_read=True
        )
        at = scope["path_params"]["tenant"], scope["path_params"]["workspace"]
        parameters = parse(StreamParameters, {}, scope["query_string"])
        await self._server.in_thread(lambda: _check(served, visible, parameters), served)
        start = _start(parameters, RequestHeaders(scope).get("last-event-id"))
        name = f"{caller.kind}:{caller.id}"
        self._take(name)
        try:
            snapshot = await self._server.in_thread(served.newest, served)
        except BaseException:
            self.release(name)
            raise
        chosen = EventFilter(
            types=tuple(parameters.type), run_id=parameters.run_id, asset=parameters.asset
        )
        position = snapshot.position if start is None else start

        def now() -> Awaitable[Visible]:
            return self._server.still_sees(request, at, PERMISSION)

        return _StreamResponse(_Listener(self, at, name, visible, now, chosen, position))

    def _take(self, caller: str) -> None:
        """Reserve a place for a stream before waiting for anything, so that the limit also holds
        for streams that are opened concurrently."""
        if self._of_caller[caller] >= self._server.settings.streams_per_caller:
            raise ApiError(
                "rate_limited",
                "too many open streams",
                code="too_many_streams",
                hint="close one; one stream carries all events of a workspace",
                retry_after_s=5,
            )
        self._of_caller[caller] += 1

    def release(self, caller: str) -> None:
        """Release the place of a stream that has ended, or was never sent."""
        self._of_caller[caller] -= 1
        if not self._of_caller[caller]:
            del self._of_caller[caller]

    # -- listeners -----------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def listening(self, at: tuple[str, str]) -> AsyncIterator[Tail]:
        tail = self._tails[at]
        tail.listeners += 1
        try:
            if at not in self._tailing:
                snapshot = await self._server.in_thread(tail.served.newest, tail.served)
                if at not in self._tailing:
                    tail.begin(snapshot.position)
                    self._tailing[at] = asyncio.create_task(self._follow(at, tail))
            yield tail
        finally:
            tail.listeners -= 1
            if not tail.listeners and (task := self._tailing.pop(at, None)) is not None:
                task.cancel()
                tail.events.clear()

    async def _follow(self, at: tuple[str, str], tail: Tail) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            with contextlib.suppress(Error):  # the store fails in passing
                after = tail.position
                events, position = await self.read(tail.served, after)
                if position > after:
                    tail.add(events, position)

    async def read(self, served: ServedWorkspace, after: int) -> tuple[list[LogEvent], int]:
        return await self._server.in_thread(lambda: read_events(served, after, SLICE), served)

    async def seen(
        self, served: ServedWorkspace, events: list[LogEvent], visible: Visible
    ) -> list[LogEvent]:
        if visible.all or not events:
            return events
        return await self._server.in_thread(
            lambda: list(seen_events(served, events, visible)), served
        )

    @property
    def server(self) -> ApiServer:
        return self._server


def _check(served: ServedWorkspace, visible: Visible, parameters: StreamParameters) -> None:
    if parameters.asset:
        require_asset(visible, parameters.asset)
    if parameters.run_id:
        require_run(served.view(AtParameters()), visible, parameters.run_id)


def _start(parameters: StreamParameters, last_event_id: str | None) -> int | None:
    if last_event_id is None or not last_event_id.strip():
        return parameters.after
    text = last_event_id.strip()
    if not text.isascii() or not text.isdecimal() or len(text) > 16:
        raise invalid_field("Last-Event-ID", "is not a position of the log")
    return int(text)


class _Listener:
    def __init__(
        self,
        streams: EventStreams,
        at: tuple[str, str],
        caller: str,
        visible: Visible,
        visible_now: Callable[[], Awaitable[Visible]],
        chosen: EventFilter,
        position: int,
    ) -> None:
        self.streams = streams
        self._at = at
        self.caller = caller
        self._visible = visible
        self._visible_now = visible_now
        self._chosen = chosen
        self._position = position

    async def texts(self) -> AsyncGenerator[bytes, None]:
        """Parts of the body, until the caller's visible namespaces change: a client that still has
        access reconnects. A ping, where there is nothing else, holds the position, so that a client
        that comes back does not read again what was not for it."""
        settings = self.streams.server.settings
        yield b"retry: 2000\n\n"
        async with self.streams.listening(self._at) as tail:
            while True:
                changed = tail.changed
                part = tail.after(self._position, SLICE)
                if part is None:
                    part = await self.streams.read(tail.served, self._position)
                events, position = part
                if await self._has_changed():
                    return
                moved, self._position = position > self._position, max(position, self._position)
                seen = await self.streams.seen(tail.served, events, self._visible)
                chosen = [event for event in seen if self._chosen.matches(event)]
                if chosen:
                    yield b"".join(map(_text, chosen))
                elif moved and events:
                    yield f"id: {self._position}\n: ping\n\n".encode()
                if len(events) == SLICE:
                    continue
                try:
                    async with asyncio.timeout(settings.ping_s):
                        await changed.wait()
                except TimeoutError:
                    yield f"id: {self._position}\n: ping\n\n".encode()

    async def _has_changed(self) -> bool:
        """Whether the caller's visible namespaces differ from those at the start of the stream."""
        try:
            return await self._visible_now() != self._visible
        except Error:  # a transient error of the store; the next event tries again
            return False


@functools.lru_cache(maxsize=KEPT)
def _text(event: LogEvent) -> bytes:
    """Rendered once for all who listen."""
    data = msgspec.json.encode(plain({k: v for k, v in plain(event).items() if v != ""}))
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (event.position, event.type.encode(), data)


class _StreamResponse(Response[bytes]):
    def __init__(self, listener: _Listener) -> None:
        super().__init__(b"", media_type="text/event-stream")
        self._listener = listener

    def to_asgi_response(self, *_: Any, **__: Any) -> Any:
        return _Stream(self._listener)


class _Stream:
    def __init__(self, listener: _Listener) -> None:
        self._listener = listener

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._stream(receive, send)
        finally:
            self._listener.streams.release(self._listener.caller)

    async def _stream(self, receive: Receive, send: Send) -> None:
        await send(
            {
                "type": "http.response.start",
                "status": 200,
                "headers": [
                    (b"content-type", b"text/event-stream; charset=utf-8"),
                    (b"cache-control", b"no-store"),
                    (b"x-accel-buffering", b"no"),
                ],
            }
        )
        streams = self._listener.streams
        sending = asyncio.create_task(self._send(send))
        leaving = asyncio.create_task(_left(receive))
        draining = asyncio.create_task(streams.server.draining.wait())
        tasks = {sending, leaving, draining}
        try:
            await asyncio.wait(
                tasks,
                timeout=streams.server.settings.stream_age_s,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        with contextlib.suppress(Exception):  # the client may have gone
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send(self, send: Send) -> None:
        async with contextlib.aclosing(self._listener.texts()) as texts:
            async for text in texts:
                await send({"type": "http.response.body", "body": text, "more_body": True})


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
