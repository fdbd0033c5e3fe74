"""Managers of secrets on loopback, as far as their documented protocols say.

Written from the documentation, not copied from the managers: they check what the real ones
check (tokens, signatures, headers, versions), and answer with their status codes and bodies.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit


class Asked(NamedTuple):
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    def form(self) -> dict[str, str]:
        return dict(parse_qsl(self.body.decode()))


Told = tuple[int, Any]


class SecretServer:
    """Subclasses answer. `broken` is answered first: statuses, each once."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.broken: list[int] = []
        self.url = ""

    def answer(self, asked: Asked) -> Told:
        raise NotImplementedError

    def told(self, asked: Asked) -> Told:
        self.asked.append(asked)
        if self.broken:
            return self.broken.pop(0), {"errors": ["not now"]}
        return self.answer(asked)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        self.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


def _handler(told: SecretServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urlsplit(self.path)
            length = int(self.headers.get("Content-Length") or 0)
            headers = {name.lower(): value for name, value in self.headers.items()}
            query = dict(parse_qsl(url.query))
            asked = Asked(self.command, unquote(url.path), query, headers, self.rfile.read(length))
            status, document = told.told(asked)
            body = document if isinstance(document, bytes) else json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler


class VaultServer(SecretServer):
    """KV version 2 at `secret/`, and AppRole: HashiCorp's API documentation."""

    ROLE = {"role_id": "role-1", "secret_id": "secret-id-1"}

    def __init__(self) -> None:
        super().__init__()
        self.tokens = {"root"}
        self.denied: set[str] = set()
        self.secrets: dict[str, dict[int, dict[str, Any] | None]] = {}
        """By path and version, fields; None: deleted."""
        self.logins = 0

    def answer(self, asked: Asked) -> Told:
        if asked.path == "/v1/auth/approle/login" and asked.method == "POST":
            return self._log_in(asked)
        if asked.headers.get("x-vault-token") not in self.tokens:
            return 403, {"errors": ["permission denied"]}
        _, _, path = asked.path.partition("/v1/secret/data/")
        if not path or path in self.denied:
            return 403, {"errors": ["1 error occurred:\n\t* permission denied\n\n"]}
        versions = self.secrets.get(path, {})
        version = int(asked.query.get("version") or 0) or max(versions, default=0)
        if version not in versions:
            return 404, {"errors": []}
        fields = versions[version]
        metadata = {
            "created_time": "2026-01-01T00:00:00Z",
            "custom_metadata": None,
            "deletion_time": "" if fields is not None else "2026-01-02T00:00:00Z",
            "destroyed": False,
            "version": version,
        }
        document = {"lease_id": "", "data": {"data": fields, "metadata": metadata}}
        return (404 if fields is None else 200), document

    def _log_in(self, asked: Asked) -> Told:
        if asked.json() != self.ROLE:
            return 400, {"errors": ["invalid role or secret ID"]}
        self.logins += 1
        token = f"hvs.{self.logins}"
        self.tokens.add(token)
        return 200, {"auth": {"client_token": token, "lease_duration": 1200, "renewable": True}}
