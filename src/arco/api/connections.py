"""How HTTP is read from a connection: bounded in size, time and number.

uvicorn bounds neither how long a client may take for headers, nor (with httptools) how large they
may get, nor how long it may take to read an answer. A client that is slow with any of
them is cut off; one that is slow with a body is answered by whoever reads the body.
"""

from __future__ import annotations

import asyncio
from asyncio.events import TimerHandle
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_S: Final = 10.0
"""So long the request line and headers may take, also those of the first request."""
HEAD_BYTES: Final = 64 << 10
STALLED_S: Final = 60.0
"""So long a client may not read any of an answer that waits for it."""
LINGER_S: Final = 1.0
"""So long an answer that came before the end of its request may take to arrive."""
CONNECTIONS: Final = 5_000

_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
_TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\n"
_TOO_MANY = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 5\r\n"
_END = b"content-length: 0\r\nconnection: close\r\n\r\n"


class BoundedHttp(HttpToolsProtocol):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_bytes = 0
        self._is_reading_head = True
        self._is_head_alone = True
        self._is_reading_message = False
        self._timer: TimerHandle | None = None
        # Its own timer: the headers of the next request must not end the wait for a stalled answer.
        self._stalled_timer: TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > CONNECTIONS:
            self._refuse(_TOO_MANY)
        else:
            self._arm(HEAD_S, self._too_slow)

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        self._disarm_stalled()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._is_reading_head and self._timer is None:  # after a pause between requests
            self._arm(HEAD_S, self._too_slow)
        self._is_head_alone = self._is_reading_head
        super().data_received(data)
        if self._is_head_alone:  # else some of it was a body, or the end of one
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
            # The rest of the request is of no use; reading it might take for ever.
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
