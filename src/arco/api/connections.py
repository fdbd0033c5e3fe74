"""How HTTP is read from a connection: bounded in size, time and number.

uvicorn bounds neither how long a client may take for headers, nor (with httptools) how large they
may get, nor how long it may take to read an answer. A client that is slow with any of them is
disconnected; a slow body is handled where it is read.
"""

from __future__ import annotations

import asyncio
import resource
from asyncio.events import TimerHandle
from collections import Counter
from collections.abc import Sequence
from typing import Any, ClassVar, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from arco.api.exchange import is_in

HEAD_S: Final = 10.0
"""Timeout of the request line and headers, also of those of the first request."""
HEAD_BYTES: Final = 64 << 10
STALLED_S: Final = 60.0
"""Maximum duration in which a client reads nothing of an answer that waits for it."""
LINGER_S: Final = 1.0
"""Timeout for sending an answer that was ready before the end of its request."""
CONNECTIONS: Final = 5_000
SPARE_FILES: Final = 512
"""Open files that are left for the store, for queries and for logs."""

_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
_TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\n"
_TOO_MANY = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 5\r\n"
_END = b"content-length: 0\r\nconnection: close\r\n\r\n"


def connection_limit() -> int:
    """How many connections this process can hold open at once: what it may open, without what
    everything else needs. Its soft limit is raised as far as it may be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = CONNECTIONS + SPARE_FILES
    allowed = files if hard == resource.RLIM_INFINITY else min(files, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        soft = allowed
    if soft == resource.RLIM_INFINITY:
        return CONNECTIONS
    return min(CONNECTIONS, max(soft - SPARE_FILES, soft // 4))


def bounded_http(connections: int, proxies: Sequence[str] = ()) -> type[BoundedHttp]:
    """The protocol of a server with a maximum of connections. One address has at most half of them,
    unless it is a proxy."""

    class Protocol(BoundedHttp):
        max_connections = connections
        trusted_proxies = tuple(proxies)
        of_address: ClassVar[Counter[str]] = Counter()

    return Protocol


class BoundedHttp(HttpToolsProtocol):
    max_connections: ClassVar[int] = CONNECTIONS
    trusted_proxies: ClassVar[tuple[str, ...]] = ()
    of_address: ClassVar[Counter[str]] = Counter()
    """Connections that are open, by the address of the client."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_bytes = 0
        self._is_reading_head = True
        self._is_head_alone = True
        self._is_reading_message = False
        self._address = ""
        self._timer: TimerHandle | None = None
        # Its own timer: the headers of the next request must not end the wait for a stalled answer.
        self._stalled_timer: TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._address = self.client[0] if self.client else ""
        self.of_address[self._address] += 1
        if len(self.connections) > self.max_connections or self._has_too_many():
            self._refuse(_TOO_MANY)
        else:
            self._arm(HEAD_S, self._too_slow)

    def _has_too_many(self) -> bool:
        """Whether one address has too many connections."""
        return self.of_address[self._address] > self.max_connections // 2 and not is_in(
            self._address, self.trusted_proxies
        )

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        self._disarm_stalled()
        self.of_address[self._address] -= 1
        if not self.of_address[self._address]:
            del self.of_address[self._address]
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._is_reading_head and self._timer is None:  # after a pause between requests
            self._arm(HEAD_S, self._too_slow)
        self._is_head_alone = self._is_reading_head
        super().data_received(data)
        if self._is_head_alone:  # otherwise it may be (the end of) a body
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES and not self.transport.is_closing():
                self._refuse(_TOO_LARGE)

    def on_message_begin(self) -> None:
        self._is_reading_message = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._disarm()
        self._is_reading_head = self._is_head_alone = False
        self._head_bytes = 0
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._is_reading_head, self._is_reading_message = True, False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._is_reading_message and not self.transport.is_closing():
            # The rest of the request is not needed; reading it might never end.
            self._arm(LINGER_S, self.transport.close)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._disarm_stalled()
        self._stalled_timer = self.loop.call_later(STALLED_S, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._disarm_stalled()

    def _too_slow(self) -> None:
        if not self.transport.is_closing():
            self._refuse(_TOO_SLOW if self._head_bytes else b"")

    def _refuse(self, head: bytes) -> None:
        self._disarm()
        if head:
            self.transport.write(head + _END)
        self.transport.close()

    def _arm(self, seconds: float, then: Any) -> None:
        self._disarm()
        self._timer = self.loop.call_later(seconds, then)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _disarm_stalled(self) -> None:
        if self._stalled_timer is not None:
            self._stalled_timer.cancel()
            self._stalled_timer = None
