"""Managers of secrets on loopback, as far as their documented protocols say.

Written from the documentation, not copied from the managers: they check what the real ones
check (tokens, signatures, headers, versions), and answer with their status codes and bodies.
"""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.kit.http_servers import QuietHandler, on_free_port, serving_http


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
        server = on_free_port(_handler(self))
        self.url = server.address
        with serving_http(server):
            yield


def _handler(told: SecretServer) -> type[QuietHandler]:
    class Handler(QuietHandler):
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


class GcpServer(SecretServer):
    """Secret Manager v1, the token server of service accounts, and a machine's metadata server."""

    ACCOUNT = "worker@shop.iam.gserviceaccount.com"

    def __init__(self) -> None:
        super().__init__()
        self.private_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.tokens: set[str] = set()
        self.denied: set[str] = set()
        self.secrets: dict[str, dict[str, bytes | None]] = {}
        """By `projects/…/secrets/…` and version, bytes; None: disabled."""

    def credentials(self) -> dict[str, str]:
        key = self.private_key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        return {
            "type": "service_account",
            "client_email": self.ACCOUNT,
            "private_key_id": "key-1",
            "private_key": key.decode(),
            "token_uri": f"{self.url}/token",
        }

    def answer(self, asked: Asked) -> Told:
        if asked.path == "/token" and asked.method == "POST":
            return self._exchange(asked.form())
        if asked.path == "/computeMetadata/v1/instance/service-accounts/default/token":
            if asked.headers.get("metadata-flavor") != "Google":
                return 403, b"Missing required header"
            return self._token()
        scheme, _, token = asked.headers.get("authorization", "").partition(" ")
        if scheme != "Bearer" or token not in self.tokens:
            return _gcp_error(401, "UNAUTHENTICATED")
        name, _, version = (
            asked.path.removeprefix("/v1/").removesuffix(":access").partition("/versions/")
        )
        if name in self.denied:
            return _gcp_error(403, "PERMISSION_DENIED")
        versions = self.secrets.get(name, {})
        version = max(versions, default="") if version == "latest" else version
        if not asked.path.endswith(":access") or version not in versions:
            return _gcp_error(404, "NOT_FOUND")
        data = versions[version]
        if data is None:
            return _gcp_error(400, "FAILED_PRECONDITION")
        payload = {"data": base64.b64encode(data).decode(), "dataCrc32c": "0"}
        return 200, {"name": f"{name}/versions/{version}", "payload": payload}

    def _exchange(self, form: Mapping[str, str]) -> Told:
        if form.get("grant_type") == "refresh_token":
            user = (form.get("client_id"), form.get("client_secret"), form.get("refresh_token"))
            is_known = user == ("client-1", "client-secret-1", "refresh-1")
            return self._token() if is_known else (400, {"error": "invalid_grant"})
        try:
            claims = jwt.decode(
                form["assertion"],
                self.private_key.public_key(),
                algorithms=["RS256"],
                audience=f"{self.url}/token",
                options={"require": ["iss", "exp", "iat", "aud"]},
            )
        except (jwt.PyJWTError, KeyError):
            return 400, {"error": "invalid_grant"}
        is_grant = form.get("grant_type") == "urn:ietf:params:oauth:grant-type:jwt-bearer"
        scope = "https://www.googleapis.com/auth/cloud-platform"
        if not is_grant or claims["iss"] != self.ACCOUNT or claims.get("scope") != scope:
            return 400, {"error": "invalid_grant"}
        return self._token()

    def _token(self) -> Told:
        token = f"ya29.{len(self.asked)}"
        self.tokens.add(token)
        return 200, {"access_token": token, "expires_in": 3599, "token_type": "Bearer"}


def _gcp_error(code: int, status: str) -> Told:
    return code, {"error": {"code": code, "message": "…", "status": status}}


class AzureServer(SecretServer):
    """Key Vault 7.4 under `/VAULT/`, Entra's token endpoint, and both managed identities."""

    CLIENT = {"client_id": "client-1", "client_secret": "client-secret-1"}

    def __init__(self) -> None:
        super().__init__()
        self.tokens: set[str] = set()
        self.denied: set[str] = set()
        self.disabled: set[str] = set()
        self.secrets: dict[str, dict[str, str]] = {}
        """By `vault/name` and version, in the order of their making."""

    def answer(self, asked: Asked) -> Told:
        if asked.path == "/tenant-1/oauth2/v2.0/token" and asked.method == "POST":
            form = asked.form()
            by_secret = form.get("client_secret") == self.CLIENT["client_secret"]
            by_file = form.get("client_assertion") == "federated-1" and (
                form.get("client_assertion_type")
                == "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
            )
            is_asked = form.get("grant_type") == "client_credentials"
            is_scope = form.get("scope") == "https://vault.azure.net/.default"
            if is_asked and is_scope and form["client_id"] == "client-1" and by_secret | by_file:
                return self._token(3599)
            return 401, {"error": "invalid_client"}
        if asked.path == "/metadata/identity/oauth2/token":
            is_vault = asked.query.get("resource") == "https://vault.azure.net"
            if asked.headers.get("metadata") != "true" or not is_vault:
                return 400, {"error": "invalid_request"}
            return self._token("86399")
        if asked.path == "/msi/token":
            is_known = asked.headers.get("x-identity-header") == "header-1"
            return self._token("86399") if is_known else (401, {})
        return self._secret(asked)

    def _secret(self, asked: Asked) -> Told:
        if asked.headers.get("authorization", "").removeprefix("Bearer ") not in self.tokens:
            return 401, {"error": {"code": "Unauthorized"}}
        if asked.query.get("api-version") != "7.4":
            return 400, {"error": {"code": "BadParameter"}}
        vault, _, rest = asked.path.strip("/").partition("/secrets/")
        name, _, version = rest.partition("/")
        key = f"{vault}/{name}"
        if key in self.denied:
            inner = {"code": "ForbiddenByRbac"}
            return 403, {"error": {"code": "Forbidden", "innererror": inner}}
        versions = self.secrets.get(key, {})
        version = version or next(reversed(versions), "")
        if version not in versions:
            code = "SecretNotFound"
            return 404, {"error": {"code": code, "message": f"{code}: …"}}
        if key in self.disabled:
            inner = {"code": "SecretDisabled"}
            return 403, {"error": {"code": "Forbidden", "innererror": inner}}
        return 200, {"value": versions[version], "id": f"…/{version}", "attributes": {}}

    def _token(self, lifetime_s: int | str) -> Told:
        token = f"azure.{len(self.asked)}"
        self.tokens.add(token)
        return 200, {"access_token": token, "expires_in": lifetime_s, "token_type": "Bearer"}
