"""Event streams through a proxy that holds data back and cuts connections anywhere: a client that
resumes by `Last-Event-ID` misses nothing and hears nothing twice."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from arco.api import streams
from arco.api.api_settings import ApiSettings
from arco.api.application import make_app
from arco.api.authentication import LocalAccess
from arco.api.served import ServedWorkspace
from arco.api.server import ApiServer
from arco.api.serving import Binding, serve
from arco.api.table import ROUTES
from arco.app import Workspace
from arco.clock import SystemClock
from arco.storage.memory import MemoryStore
from tests.kit.depth import KILL_SEED, scaled
from tests.kit.model import read_log

EVENTS = scaled(60, 600)
DEADLINE_S = 120.0
HELD_S = 0.4
"""How long the proxy holds data back at most."""
TYPES = "type=catalog."


class StreamSite:
    def __init__(self) -> None:
        store = MemoryStore(SystemClock())
        self.workspace = Workspace(store, "acme", "prod")
        self.workspace.commands.catalog.create_namespace("sales")
        settings = ApiSettings(head_age_s=0.0, ping_s=0.2, rate_burst=1_000_000)
        served = ServedWorkspace(Workspace(store, "acme", "prod"), settings)
        self.local = LocalAccess([("acme", "prod")], "ana")
        clock = self.workspace.clock
        self.server = ApiServer([served], [self.local], settings, clock, [served])
        app = make_app(self.server, ROUTES, self.workspace.ids, self.local)
        binding = Binding(port=0)
        listening = binding.listen()
        self.port = listening.getsockname()[1]
        self.stop = threading.Event()
        arguments = (self.server, app, binding, listening, self.stop)
        self.thread = threading.Thread(target=serve, args=arguments)
        self.thread.start()

    def end(self) -> None:
        self.stop.set()
        self.thread.join(30)
        assert not self.thread.is_alive()

    def request(self, last: str) -> bytes:
        lines = [f"GET /api/v1/workspaces/acme/prod/events?{TYPES} HTTP/1.1", "Host: arco"]
        lines += [f"Authorization: Bearer {self.local.token}", f"Last-Event-ID: {last}"]
        return "\r\n".join([*lines, "", ""]).encode()


class CuttingProxy:
    """Passes on what it has read when it has a whole buffer, or after a while, as a proxy with
    buffering does; and cuts connections in the middle of what it passes on."""

    def __init__(self, upstream: int, rng: random.Random) -> None:
        self._upstream = upstream
        self._rng = rng
        self.cuts = 0

    def lines(self, request: bytes) -> Iterator[bytes]:
        """What arrives at a client, until the connection is cut."""
        left = self._rng.randrange(200, 6_000)
        buffer_bytes = self._rng.choice((1, 300, 4_000))
        with socket.create_connection(("127.0.0.1", self._upstream), timeout=30) as server:
            server.sendall(request)
            server.settimeout(HELD_S)
            held, passed_at = b"", time.monotonic()
            while True:
                with contextlib.suppress(TimeoutError):
                    part = server.recv(1 << 16)
                    if not part:
                        yield held
                        return
                    held += part
                if len(held) < buffer_bytes and time.monotonic() < passed_at + HELD_S:
                    continue
                if len(held) >= left:
                    self.cuts += 1
                    yield held[:left]
                    return
                left -= len(held)
                passed, held, passed_at = held, b"", time.monotonic()
                yield passed


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[StreamSite]:
    monkeypatch.setattr(streams, "LOOK_S", 0.02)
    site = StreamSite()
    yield site
    site.end()


def events_of(text: bytes) -> tuple[list[tuple[int, bool]], bytes]:
    """The ids of whole blocks, with whether each has data; and what comes after the last."""
    *blocks, rest = text.split(b"\n\n")
    heard: list[tuple[int, bool]] = []
    for block in blocks:
        lines = block.replace(b"\r", b"").split(b"\n")
        ids = [int(line.removeprefix(b"id: ")) for line in lines if line.startswith(b"id: ")]
        if ids:
            heard.append((ids[0], any(line.startswith(b"data: ") for line in lines)))
    return heard, rest


def without_chunks(site: StreamSite, proxy: CuttingProxy, last: str) -> Iterator[bytes]:
    """The body of one connection, as far as it came; a chunk may be cut too."""
    data, is_body, left = b"", False, 0
    for part in proxy.lines(site.request(last)):
        data += part
        if not is_body and b"\r\n\r\n" in data:
            head, _, data = data.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200"), head
            assert b"x-accel-buffering: no" in head.lower()
            is_body = True
        while is_body and data:
            if left:
                body, data = data[:left], data[left:]
                left -= len(body)
                yield body
                continue
            line, end, rest = data.removeprefix(b"\r\n").partition(b"\r\n")
            if not end:
                break
            left, data = int(line, 16), rest


def test_a_stream_that_is_cut_and_held_back_loses_and_repeats_nothing(site: StreamSite) -> None:
    rng = random.Random(KILL_SEED)
    first = site.workspace.read.snapshot().position

    def write() -> None:
        for number in range(EVENTS):
            site.workspace.commands.catalog.create_asset(f"sales.t{number}")
            time.sleep(rng.choice((0.0, 0.0, 0.02)))

    writing = threading.Thread(target=write)
    writing.start()
    proxy = CuttingProxy(site.port, random.Random(KILL_SEED + 1))
    heard: list[int] = []
    last, deadline = str(first), time.monotonic() + DEADLINE_S
    while len(heard) < EVENTS:
        assert time.monotonic() < deadline, f"{len(heard)} of {EVENTS}; seed {KILL_SEED}"
        rest = b""
        for part in without_chunks(site, proxy, last):
            blocks, rest = events_of(rest + part)
            heard += [position for position, has_data in blocks if has_data]
            last = str(blocks[-1][0]) if blocks else last
            if len(heard) >= EVENTS:
                break
    writing.join(30)
    logged = [entry.position for entry in read_log(site.workspace) if entry.position > first]
    created = [position for position in logged if position in set(heard)]
    assert heard == created, f"seed {KILL_SEED}"
    assert len(heard) == len(set(heard)) == EVENTS
    assert proxy.cuts
