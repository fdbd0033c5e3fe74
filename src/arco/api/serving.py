"""Runs the application on uvicorn until it is told to stop, and drains it."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import uvicorn
import uvloop
from litestar.types import ASGIApp

from arco.api.connections import bounded_http, connection_limit
from arco.api.server import ApiServer
from arco.api.signature_keys import read_all_keys
from arco.errors import Error, Invalid, Unavailable

LOOK_S = 0.1
"""Interval of checks whether the server is to stop."""


FLUSHED_S = 10.0
"""Between records of refusals and of uses of keys."""
LAST_FLUSH_S = 5.0
"""Timeout of the last flush: a store that hangs does not keep a server from ending."""


class Binding(msgspec.Struct, frozen=True, kw_only=True):
    host: str = "127.0.0.1"
    port: int = 8321
    tls_cert: Path | None = None
    tls_key: Path | None = None

    @property
    def is_loopback(self) -> bool:
        return self.host in ("127.0.0.1", "::1", "localhost")

    @property
    def has_tls(self) -> bool:
        return self.tls_cert is not None

    def listen(self) -> socket.socket:
        """A socket that listens. Raises if the address is taken, or is not this machine's."""
        if (self.tls_cert is None) != (self.tls_key is None):
            raise Invalid("TLS needs a certificate and its key", hint="give both files")
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        try:
            listening = socket.create_server((self.host, self.port), family=family, backlog=512)
        except OSError as error:
            raise Unavailable(
                f"cannot listen on {self.host}:{self.port}: {error.strerror or error}",
                hint="give another --port or --host",
            ) from None
        # Accepted sockets inherit it. Without it an answer waits 40 ms for an acknowledgement
        # between its headers and its body.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening

    def local_names(self, listening: socket.socket) -> tuple[str, ...]:
        """The host names of a local server: a page with another name that resolves to it is
        refused. Empty for any other server."""
        if not self.is_loopback:
            return ()
        port = listening.getsockname()[1]
        return tuple(f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]"))

    def url(self, listening: socket.socket) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.has_tls else 'http'}://{host}:{listening.getsockname()[1]}"


class _Uvicorn(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """The command handles signals."""
        yield


def serve(
    server: ApiServer,
    app: ASGIApp,
    binding: Binding,
    listening: socket.socket,
    stop: threading.Event,
) -> None:
    """Answer requests until `stop`. Then requests in progress may finish, for a while; streams end,
    and their clients resume them at another server."""
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="off",
        http=bounded_http(connection_limit(), server.settings.trusted_proxies),
        ws="none",
        timeout_keep_alive=75,
        timeout_graceful_shutdown=int(server.settings.drain_s),
        ssl_certfile=None if binding.tls_cert is None else str(binding.tls_cert),
        ssl_keyfile=None if binding.tls_key is None else str(binding.tls_key),
    )
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(_Uvicorn(config), server, listening, stop))


async def _serve(
    uvicorn_server: uvicorn.Server,
    server: ApiServer,
    listening: socket.socket,
    stop: threading.Event,
) -> None:
    async def record() -> None:
        while True:
            await asyncio.sleep(FLUSHED_S)
            with contextlib.suppress(Error):
                await server.in_thread(server.flush)

    async def watch() -> None:
        while not stop.is_set():
            await asyncio.sleep(LOOK_S)
            server.access.flush()
        server.draining.set()
        uvicorn_server.should_exit = True

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):  # uvloop hears of signals alone
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
    coroutines = (watch(), record(), read_all_keys(server))
    tasks = [asyncio.create_task(each) for each in coroutines]
    try:
        await uvicorn_server.serve(sockets=[listening])
    finally:
        for task in tasks:
            task.cancel()
        server.access.flush()
        with contextlib.suppress(Error, TimeoutError):
            async with asyncio.timeout(LAST_FLUSH_S):
                await server.in_thread(lambda: server.flush(everything=True))
        server.close()
