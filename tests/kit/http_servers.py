"""HTTP servers in threads of the process that runs the tests."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_POLL_S = 0.02


class QuietServer(ThreadingHTTPServer):
    """Says nothing of a client that has gone.

    That is often noticed when the test that the server was for has ended; a traceback would be
    in the output that the next test compares.
    """

    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class QuietHandler(BaseHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextlib.contextmanager
def serving_http(server: QuietServer) -> Iterator[None]:
    """Requests are answered meanwhile."""
    thread = threading.Thread(target=server.serve_forever, args=(_POLL_S,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def on_free_port(handler: type[BaseHTTPRequestHandler]) -> QuietServer:
    return QuietServer(("127.0.0.1", 0), handler)
