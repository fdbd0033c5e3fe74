"""HTTP client for processes that access a store through a server: connections and retries.

- If a connection cannot be opened, nothing was sent: it is retried for `patience_s`.
- A request whose answer was lost is repeated only if the caller allows it. Otherwise it raises
  Unavailable: unknown.
- "Too many requests" is retried after the time that the answer names.

Connections are kept for the next request, and shared by threads; a fork must not share them.
"""

from __future__ import annotations

import contextlib
import http.client
import ssl
import threading
from collections.abc import Iterable, Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from arco.clock import Clock, SystemClock
from arco.errors import Invalid, Unavailable

IDLE_S = 20.0
"""A connection that was idle for longer may have been closed by the server."""
FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 2.0
_BUSY = (429, 502, 503, 504)


def checked_api_url(url: str) -> str:
    """The URL of an API. Raises Invalid, also if a token would be sent unencrypted."""
    parts = urlsplit(url)
    is_local = parts.hostname in ("127.0.0.1", "::1", "localhost")
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise Invalid(f"{url!r} is not the URL of an API", hint="write https://HOST")
    if parts.scheme == "http" and not is_local:
        raise Invalid(f"{url} would send your token without encryption", hint="use https://")
    if parts.query or parts.fragment or parts.username:
        raise Invalid(
            "the URL of an API has a scheme, a host and a port", hint="write https://HOST"
        )
    return url.rstrip("/")


class HttpAnswer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    """By their names in lower case."""
    body: bytes


class _Connection(NamedTuple):
    raw: http.client.HTTPConnection
    used_at: float


class HttpClient:
    def __init__(
        self,
        *,
        timeout_s: float = 60.0,
        patience_s: float = 60.0,
        clock: Clock | None = None,
        ca_file: str = "",
    ) -> None:
        """`ca_file`: certificates to trust besides the usual ones, in PEM."""
        self._ca_file = ca_file
        self._timeout_s = timeout_s
        self._patience_s = patience_s
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._idle: dict[tuple[str, str], list[_Connection]] = {}
        self._busy: set[http.client.HTTPConnection] = set()
        self._closed = False

    def send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | Iterable[bytes] | None = None,
        repeat: bool,
        timeout_s: float | None = None,
    ) -> HttpAnswer:
        """The answer, with any status. Raises Unavailable without an answer.

        `repeat`: the request may be repeated if its answer was lost, or was "try later".
        """
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Invalid(f"{url[:200]!r} is not the URL of a server", hint="use https://host")
        target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        place = (parts.scheme, parts.netloc)
        until = self._clock.monotonic() + self._patience_s
        pause_s = FIRST_PAUSE_S
        while True:
            sent = False
            answer: HttpAnswer | None = None
            try:
                connection = self._connection(place, timeout_s or self._timeout_s)
                sent = True
                answer = self._exchange(connection, place, method, target, headers or {}, body)
                problem = f"{parts.netloc} answered {answer.status}"
            except (OSError, http.client.HTTPException) as error:
                problem = f"{parts.netloc}: {type(error).__name__}: {error}"
            if answer is not None and not self._is_busy(answer, repeat):
                return answer
            may_repeat = repeat or not sent or (answer is not None and answer.status == 429)
            left = until - self._clock.monotonic()
            if not may_repeat or left <= 0 or self._closed:
                if answer is not None:
                    return answer
                raise Unavailable(problem, hint="the server did not respond; try again")
            self._clock.sleep(min(left, max(pause_s, _retry_after(answer))))
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def close(self) -> None:
        """Abort requests in progress. Later ones fail."""
        with self._lock:
            self._closed = True
            busy = list(self._busy)
            idle = [each.raw for some in self._idle.values() for each in some]
            self._idle.clear()
        for connection in [*busy, *idle]:
            with contextlib.suppress(OSError):
                if connection.sock is not None:
                    connection.sock.shutdown(2)
            if connection not in busy:
                connection.close()

    def _is_busy(self, answer: HttpAnswer, repeat: bool) -> bool:
        return answer.status == 429 or (repeat and answer.status in _BUSY)

    def _connection(self, place: tuple[str, str], timeout_s: float) -> http.client.HTTPConnection:
        """An open connection. If this raises, nothing was sent."""
        now = self._clock.monotonic()
        stale: list[_Connection] = []
        connection: http.client.HTTPConnection | None = None
        with self._lock:
            if self._closed:
                raise ConnectionError("the client was closed")
            idle = self._idle.get(place, [])
            while idle and connection is None:
                each = idle.pop()
                if now - each.used_at <= IDLE_S:
                    connection = each.raw
                else:
                    stale.append(each)
        for each in stale:
            each.raw.close()
        if connection is None:
            scheme, netloc = place
            if scheme == "https":
                context = ssl.create_default_context()
                if self._ca_file:
                    context.load_verify_locations(self._ca_file)
                connection = http.client.HTTPSConnection(netloc, timeout=timeout_s, context=context)
            else:
                connection = http.client.HTTPConnection(netloc, timeout=timeout_s)
            connection.connect()
        elif connection.sock is not None:
            connection.sock.settimeout(timeout_s)
        with self._lock:
            self._busy.add(connection)
        return connection

    def _exchange(
        self,
        connection: http.client.HTTPConnection,
        place: tuple[str, str],
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | Iterable[bytes] | None,
    ) -> HttpAnswer:
        try:
            # A server that refuses a body may have answered before it had read all of it.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.request(method, target, body=body, headers=dict(headers))
            response = connection.getresponse()
            data = response.read()
            answer = HttpAnswer(
                response.status, {name.lower(): v for name, v in response.getheaders()}, data
            )
        except BaseException:
            with self._lock:
                self._busy.discard(connection)
            connection.close()
            raise
        with self._lock:
            self._busy.discard(connection)
            keep = not response.will_close and not self._closed
            if keep:
                used = _Connection(connection, self._clock.monotonic())
                self._idle.setdefault(place, []).append(used)
        if not keep:
            connection.close()
        return answer


def _retry_after(answer: HttpAnswer | None) -> float:
    text = "" if answer is None else answer.headers.get("retry-after", "")
    return float(text) if text.isdecimal() and len(text) < 6 else 0.0
