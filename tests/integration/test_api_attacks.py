"""Clients that mean harm, or are broken, against a server on a socket."""

from __future__ import annotations

import contextlib
import resource
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from arco.api import connections, serving
from arco.api.serving import Binding, serve
from tests.kit.api import BASE, ApiWorld, Company
from tests.kit.depth import DEEP


@pytest.fixture(scope="module")
def company() -> Company:
    return Company()


class Attacked:
    def __init__(self, world: ApiWorld, port: int) -> None:
        self.world = world
        self.port = port

    def connect(self, source: str = "127.0.0.1") -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), 30, (source, 0))

    def head(self, path: str = "/healthz", method: str = "GET", *more: str) -> bytes:
        lines = [f"{method} {path} HTTP/1.1", "Host: arco", *more]
        return "\r\n".join([*lines, "", ""]).encode()

    def answers(self) -> bool:
        """Whether somebody else is answered."""
        with self.connect() as client:
            client.sendall(self.head())
            return client.recv(4096).startswith(b"HTTP/1.1 200")


@pytest.fixture
def attacked(company: Company, monkeypatch: pytest.MonkeyPatch) -> Iterator[Attacked]:
    yield from _attacked(company, monkeypatch)


@pytest.fixture
def with_40_connections(company: Company, monkeypatch: pytest.MonkeyPatch) -> Iterator[Attacked]:
    monkeypatch.setattr(serving, "connection_limit", lambda: 40)
    yield from _attacked(company, monkeypatch)


def _attacked(company: Company, monkeypatch: pytest.MonkeyPatch) -> Iterator[Attacked]:
    monkeypatch.setattr(connections, "HEAD_S", 0.5)
    monkeypatch.setattr(connections, "LINGER_S", 0.2)
    monkeypatch.setattr(connections, "STALLED_S", 0.5)
    world = ApiWorld(company.town.fresh(), body_timeout_s=0.5)
    binding = Binding(port=0)
    listening = binding.listen()
    stop = threading.Event()
    thread = threading.Thread(
        target=serve, args=(world.server, world.app, binding, listening, stop)
    )
    thread.start()
    try:
        yield Attacked(world, listening.getsockname()[1])
    finally:
        stop.set()
        thread.join(30)
        world.runner.close()


def all_of(client: socket.socket) -> bytes:
    """What comes until the server closes the connection."""
    parts = []
    with contextlib.suppress(ConnectionError):
        while part := client.recv(1 << 16):
            parts.append(part)
    return b"".join(parts)


def drip(client: socket.socket, piece: bytes, seconds: float) -> None:
    """Send a little at a time until the connection is closed, or the time is over."""
    end = time.monotonic() + seconds
    with contextlib.suppress(ConnectionError):
        while time.monotonic() < end:
            client.sendall(piece)
            time.sleep(0.05)
    assert time.monotonic() < end, "the server still listens"


def test_slow_headers_are_cut_off(attacked: Attacked) -> None:
    clients = [attacked.connect() for _ in range(200 if DEEP else 30)]
    for client in clients:
        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: arco\r\n")
    assert attacked.answers()
    drip(clients[0], b"X-Slow: 1\r\n", 10)
    for client in clients[1:]:
        assert all_of(client).startswith(b"HTTP/1.1 408")
        client.close()


def test_a_connection_that_says_nothing_is_closed(attacked: Attacked) -> None:
    with attacked.connect() as client:
        assert all_of(client) == b""


def test_slow_headers_after_a_good_request_are_cut_off(attacked: Attacked) -> None:
    with attacked.connect() as client:
        client.sendall(attacked.head())
        assert client.recv(4096).startswith(b"HTTP/1.1 200")
        drip(client, b"GET", 10)


def test_a_slow_body_is_refused(attacked: Attacked) -> None:
    token = attacked.world.owner.token
    with attacked.connect() as client:
        more = [f"Authorization: Bearer {token}", "Content-Type: application/json"]
        client.sendall(attacked.head(f"{BASE}/assets", "POST", *more, "Content-Length: 100000"))
        drip(client, b" ", 15)
        assert attacked.answers()


def test_a_body_that_nobody_reads_does_not_hold_the_connection(attacked: Attacked) -> None:
    with attacked.connect() as client:
        client.sendall(attacked.head("/healthz", "GET", "Content-Length: 100000"))
        drip(client, b" ", 10)


def test_endless_headers_are_refused(attacked: Attacked) -> None:
    with attacked.connect() as client:
        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: arco\r\n")
        with contextlib.suppress(ConnectionError):
            for number in range(100_000):
                client.sendall(b"X-Header-%d: %s\r\n" % (number, b"x" * 1000))
            raise AssertionError("a hundred megabytes of headers were read")
    assert attacked.answers()


def test_large_headers_are_refused_with_a_problem(attacked: Attacked) -> None:
    with attacked.connect() as client:
        client.sendall(attacked.head("/healthz", "GET", f"X-Large: {'x' * 40_000}"))
        assert b"headers_too_large" in all_of(client)


def test_a_body_does_not_count_as_headers(attacked: Attacked) -> None:
    token = attacked.world.owner.token
    body = b'{"sql": "%s"}' % (b"x" * 900_000)
    more = [f"Authorization: Bearer {token}", "Content-Type: application/json"]
    head = attacked.head(f"{BASE}/query", "POST", *more, f"Content-Length: {len(body)}")
    with attacked.connect() as client:
        for _ in range(2):  # one connection
            client.sendall(head + body)
            assert client.recv(1 << 16).startswith(b"HTTP/1.1 400")


def test_a_large_body_is_refused_before_it_is_read(attacked: Attacked) -> None:
    token = attacked.world.owner.token
    with attacked.connect() as client:
        more = [f"Authorization: Bearer {token}", "Content-Type: application/json"]
        size, enough = 1 << 40, 4 << 30  # more than is sent before the connection is closed
        client.sendall(attacked.head(f"{BASE}/assets", "POST", *more, f"Content-Length: {size}"))
        sent = 0
        with contextlib.suppress(ConnectionError):
            while sent < enough:
                sent += client.send(b" " * (1 << 20))
        assert sent < enough
    assert attacked.answers()


def test_an_answer_that_nobody_reads_is_given_up(attacked: Attacked) -> None:
    with attacked.connect() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        request = attacked.head("/api/v1/openapi.json")
        with contextlib.suppress(ConnectionError):
            for _ in range(50):
                client.sendall(request)
        deadline = time.monotonic() + 20
        with contextlib.suppress(ConnectionError, TimeoutError):
            client.settimeout(5)
            while time.monotonic() < deadline:
                time.sleep(0.7)
                client.sendall(request)
            raise AssertionError("the server still waits")
    assert attacked.answers()


@pytest.mark.parametrize(
    "text",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET http://[ HTTP/1.1\r\nHost: arco\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nHost: arco\r\n\r\n",
        b"POST /healthz HTTP/1.1\r\nHost: arco\r\nContent-Length: -5\r\n\r\n",
        b"POST /healthz HTTP/1.1\r\nHost: arco\r\nContent-Length: 4\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\nX\x00Y: z\r\n\r\n",
        b"\r\n" * 100_000,
    ],
)
def test_what_is_no_request_is_refused(attacked: Attacked, text: bytes) -> None:
    with attacked.connect() as client:
        with contextlib.suppress(ConnectionError):
            client.sendall(text)
        answer = all_of(client)
    assert not answer.startswith((b"HTTP/1.1 200", b"HTTP/1.1 5"))
    assert attacked.answers()


@pytest.mark.parametrize(
    ("limits", "connections_of_process", "raised"),
    [
        ((1024, 524_288), connections.CONNECTIONS, connections.CONNECTIONS + 512),
        ((1024, 4096), 4096 - 512, 4096),
        ((1024, 1024), 512, None),
        ((256, 256), 64, None),
        ((resource.RLIM_INFINITY,) * 2, connections.CONNECTIONS, None),
    ],
)
def test_connections_leave_files_for_everything_else(
    monkeypatch: pytest.MonkeyPatch,
    limits: tuple[int, int],
    connections_of_process: int,
    raised: int | None,
) -> None:
    set_to: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda _, both: set_to.append(both))
    assert connections.connection_limit() == connections_of_process
    assert set_to == ([] if raised is None else [(raised, limits[1])])


def test_more_connections_than_allowed_are_told_and_others_are_kept(
    with_40_connections: Attacked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the places stay free for other addresses."""
    attacked = with_40_connections
    monkeypatch.setattr(connections, "HEAD_S", 30.0)
    opened = [attacked.connect() for _ in range(60)]
    try:
        others = attacked.connect("127.0.0.2")
        others.sendall(attacked.head())
        assert others.recv(4096).startswith(b"HTTP/1.1 200")
        others.close()
        assert b" 503 " in all_of(opened[-1])
        opened[0].sendall(attacked.head())
        assert opened[0].recv(4096).startswith(b"HTTP/1.1 200")
    finally:
        for client in opened:
            client.close()
    deadline = time.monotonic() + 30
    while not attacked.answers():
        assert time.monotonic() < deadline, "places of closed connections are not free"
        time.sleep(0.05)
