"""A proxy in front of a real object-store server, which does to requests what rules say.

It speaks for S3, GCS (the XML API) and Azure: `proxied(backend)` gives the
`Backend` to open stores with, from any process, and the `Proxy` to steer. Clients
sign for the proxy's address, and the server verifies the Host that it is sent, so
requests pass unchanged, signatures included.

    with seaweedfs() as backend, proxied(backend) as (address, proxy):
        proxy.use(Rule("drop", op="put", path="/ledger/inbox/", times=1))
        store = open_store(address.url, **address.options)

`tests.kit.faults` says what rules there are. Faults follow from the seed and the
order in which requests arrive. What happened is in `proxy.faults`.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import unescape

from tests.kit.faults import Fault, Faults, Rule
from tests.kit.http_servers import QuietHandler, QuietServer, serving_http
from tests.kit.servers import Backend

_HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "expect"})
_ENTRY = re.compile(rb"<(Contents|Blob)>.*?</\1>", re.DOTALL)
_NAME = re.compile(rb"<(Key|Name)[^>]*>(.*?)</\1>", re.DOTALL)
_UPSTREAM_TIMEOUT_S = 60.0


class Request(NamedTuple):
    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes


class Answer(NamedTuple):
    status: int
    reason: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def with_body(self, body: bytes) -> Answer:
        headers = tuple(h for h in self.headers if h[0].lower() != "content-length")
        return self._replace(headers=(*headers, ("Content-Length", str(len(body)))), body=body)


class Proxy:
    """Faults on the way to one server. Safe to use from several threads.

    `depth` is how many segments of a URL's path come before the object's: the
    bucket's, or the account's and the container's.
    """

    def __init__(
        self, upstream: tuple[str, int], depth: int, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._upstream = upstream
        self._depth = depth
        self._now = now
        self._lock = threading.Lock()
        self._held: list[Request] = []
        self._timers: list[threading.Timer] = []
        self._written: dict[str, float] = {}
        self._closed = False
        self.late_answers: list[int] = []
        """The server's answers to requests that were applied late, or again."""
        self.faults = Faults()

    def use(self, *rules: Rule, seed: int = 0) -> None:
        """From now on, these rules and no others."""
        self.faults = Faults(rules, seed)

    @property
    def held(self) -> int:
        """How many requests wait for `release`."""
        with self._lock:
            return len(self._held)

    def release(self) -> list[int]:
        """Apply the requests that wait, and show all keys in listings; the answers."""
        with self._lock:
            waiting, self._held = self._held, []
            self._written.clear()
        return [self._apply_late(request) for request in waiting]

    def close(self) -> None:
        with self._lock:
            self._closed = True
            timers, self._timers = self._timers, []
        for timer in timers:
            timer.cancel()

    def serve(self, request: Request) -> tuple[Answer | None, int | None]:
        """The answer, and after how many bytes of its body the connection breaks.

        No answer at all: the connection breaks at once.
        """
        op, path = describe(request, self._depth)
        fault = self.faults.pick(op, path)
        if fault is None:
            return self._apply(request), None
        if fault.kind == "error" and not fault.rule.applied:
            return _error(fault.rule.status), None
        if fault.kind == "late":
            self._hold(request, fault.rule)
            _act(fault.rule)
            return None, None
        if fault.kind == "delay":
            time.sleep(fault.rule.delay_s or 0.0)
        answer = self._apply(request)
        if fault.kind == "repeat":
            self._hold(request, fault.rule)
        _act(fault.rule)
        return self._spoilt(answer, fault)

    def _spoilt(self, answer: Answer, fault: Fault) -> tuple[Answer | None, int | None]:
        """What is left of an answer to a request that was applied."""
        match fault.kind:
            case "drop":
                return None, None
            case "error":
                return _error(fault.rule.status), None
            case "hide":
                return answer.with_body(self._without_new(answer.body, fault.rule.delay_s)), None
        if answer.status not in (200, 206):
            return answer, None
        match fault.kind:
            case "cut":
                return answer, len(fault.damage(answer.body))
            case "shorten" | "flip":
                return answer.with_body(fault.damage(answer.body)), None
            case "page":
                return answer.with_body(fault.damage(answer.body))._replace(status=200), None
        return answer, None

    def _apply(self, request: Request) -> Answer:
        connection = http.client.HTTPConnection(*self._upstream, timeout=_UPSTREAM_TIMEOUT_S)
        try:
            connection.putrequest(
                request.method, request.target, skip_host=True, skip_accept_encoding=True
            )
            for name, value in request.headers:
                connection.putheader(name, value)
            connection.endheaders(request.body or None)
            response = connection.getresponse()
            headers = [h for h in response.getheaders() if h[0].lower() not in _HOP_BY_HOP]
            answer = Answer(response.status, response.reason, tuple(headers), response.read())
        finally:
            connection.close()
        op, path = describe(request, self._depth)
        if op == "put" and answer.status < 300:
            with self._lock:
                self._written[path] = self._now()
        if request.method == "HEAD" or answer.status in (204, 304):
            return answer
        return answer.with_body(answer.body)

    def _hold(self, request: Request, rule: Rule) -> None:
        with self._lock:
            if rule.delay_s is None:
                self._held.append(request)
            elif not self._closed:
                timer = threading.Timer(rule.delay_s, self._apply_late, (request,))
                timer.daemon = True
                self._timers.append(timer)
                timer.start()

    def _apply_late(self, request: Request) -> int:
        try:
            status = self._apply(request).status
        except OSError:
            status = 0  # the server has been stopped
        with self._lock:
            self.late_answers.append(status)
        return status

    def _without_new(self, listing: bytes, delay_s: float | None) -> bytes:
        since = float("-inf") if delay_s is None else self._now() - delay_s
        with self._lock:
            hidden = {path for path, moment in self._written.items() if moment > since}

        def entry(match: re.Match[bytes]) -> bytes:
            name = _NAME.search(match[0])
            key = unescape(name[2].decode()) if name else ""
            return b"" if key in hidden else match[0]

        return _ENTRY.sub(entry, listing)


def describe(request: Request, depth: int) -> tuple[str, str]:
    """What a request does, in the words of the storage port, and to which object.

    For a listing that is its prefix, as the client gives it.
    """
    parts = urlsplit(request.target)
    path = _below(parts.path, depth)
    query = parse_qs(parts.query, keep_blank_values=True)
    if request.method == "GET" and ("list-type" in query or query.get("comp") == ["list"]):
        return "list", query.get("prefix", [""])[0]
    if request.method == "POST" and ("delete" in query or query.get("comp") == ["batch"]):
        return "delete", _batched(request.body, depth)
    return request.method.lower(), path


def _batched(body: bytes, depth: int) -> str:
    """The objects that S3's and Azure's requests for several deletions name, one a line."""
    paths = [unescape(key.decode()) for key in re.findall(rb"<Key>(.*?)</Key>", body)]
    for line in re.findall(rb"^DELETE (\S+) HTTP", body, re.MULTILINE):
        paths.append(_below(line.decode(), depth))
    return "\n".join(paths)


def _below(path: str, depth: int) -> str:
    return "/".join(unquote(path).lstrip("/").split("/")[depth:])


def _act(rule: Rule) -> None:
    if rule.action is not None:
        rule.action()


def _error(status: int) -> Answer:
    reason = http.client.responses.get(status, "")
    body = f"<?xml version='1.0'?><Error><Code>Injected</Code><Message>{reason}</Message></Error>"
    headers = (("Content-Type", "application/xml"),)
    return Answer(status, reason, headers, b"").with_body(body.encode())


@contextlib.contextmanager
def proxied(backend: Backend) -> Iterator[tuple[Backend, Proxy]]:
    """`backend` behind a proxy of its own."""
    endpoint = urlsplit(_endpoint(backend))
    assert endpoint.hostname and endpoint.port
    depth = 1 + len([segment for segment in endpoint.path.split("/") if segment])
    proxy = Proxy((endpoint.hostname, endpoint.port), depth)
    server = _Server(("127.0.0.1", 0), _Handler)
    server.proxy = proxy
    with serving_http(server):
        try:
            yield _with_endpoint(backend, f"{server.address}{endpoint.path}"), proxy
        finally:
            proxy.close()


def _endpoint(backend: Backend) -> str:
    if "endpoint" in backend.options:
        return str(backend.options["endpoint"])
    account = json.loads(str(backend.options["service_account_key"]))
    return str(account["gcs_base_url"])


def _with_endpoint(backend: Backend, endpoint: str) -> Backend:
    if "endpoint" in backend.options:
        return backend._replace(options={**backend.options, "endpoint": endpoint})
    account = json.loads(str(backend.options["service_account_key"]))
    raw = json.dumps({**account, "gcs_base_url": endpoint})
    return backend._replace(options={**backend.options, "service_account_key": raw})


class _Server(QuietServer):
    proxy: Proxy


class _Handler(QuietHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = tuple(h for h in self.headers.items() if h[0].lower() not in _HOP_BY_HOP)
        answer, end = self.server.proxy.serve(Request(self.command, self.path, headers, body))
        if answer is None:
            self._break()
            return
        self._send(answer, end)

    def _send(self, answer: Answer, end: int | None) -> None:
        self.send_response_only(answer.status, answer.reason)
        for name, value in answer.headers:
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body[:end])
        if end is not None:
            self._break()

    def _break(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = do_OPTIONS = _serve
