"""Google's Secret Manager: `gcp-secret-manager:projects/P/secrets/S`.

Credentials, the first of: CLOUDSDK_AUTH_ACCESS_TOKEN; the file that GOOGLE_APPLICATION_CREDENTIALS
names, or that `gcloud auth application-default login` wrote; the metadata server of the machine.
Protocol: cloud.google.com/secret-manager/docs/reference/rest and RFC 7523.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from datetime import UTC, timedelta
from pathlib import Path
from typing import Any, Final

import jwt
import msgspec

from arco.errors import Denied, Invalid, NotFound
from arco.worker.secret_managers.calls import (
    CLOCK,
    AccessToken,
    Reply,
    TokenCache,
    call,
    lifetime,
    setting,
    text_field,
)
from servo.contract.manifest import SecretRef

SERVICE: Final = "Google's Secret Manager"
SCOPE: Final = "https://www.googleapis.com/auth/cloud-platform"
TOKEN_URL: Final = "https://oauth2.googleapis.com/token"
GRANT: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
ENDPOINT: Final = "CLOUDSDK_API_ENDPOINT_OVERRIDES_SECRETMANAGER"
"""As gcloud has it: another address of the service."""
_PATH: Final = re.compile(
    r"projects/[a-z0-9.:-]{1,80}(?:/locations/(?P<location>[a-z0-9-]{1,40}))?"
    r"/secrets/[A-Za-z0-9_-]{1,255}(?:/versions/(?P<version>[A-Za-z0-9_-]{1,64}))?\Z"
)
_VERSION: Final = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")


class GcpSecrets:
    def __init__(self) -> None:
        self._login = TokenCache(_log_in)

    def resolve(self, ref: SecretRef) -> str:
        url = _url(ref)
        given = setting("CLOUDSDK_AUTH_ACCESS_TOKEN")
        reply = _access(url, given or self._login.get())
        if reply.status == 401 and not given:
            self._login.drop()
            reply = _access(url, self._login.get())
        return _value(reply, ref)


def _url(ref: SecretRef) -> str:
    match = _PATH.match(ref.path)
    if match is None or (ref.version and (match["version"] or not _VERSION.match(ref.version))):
        raise Invalid(
            "the path is not projects/…/secrets/…",
            hint="write gcp-secret-manager:projects/shop/secrets/db?version=3",
        )
    path = ref.path if match["version"] else f"{ref.path}/versions/{ref.version or 'latest'}"
    location = match["location"]
    host = f"secretmanager.{location}.rep" if location else "secretmanager"
    endpoint = setting(ENDPOINT, f"https://{host}.googleapis.com/")
    return f"{endpoint.rstrip('/')}/v1/{path}:access"


def _access(url: str, token: str) -> Reply:
    return call(SERVICE, "GET", url, headers={"Authorization": f"Bearer {token}"})


def _value(reply: Reply, ref: SecretRef) -> str:
    data = text_field(reply.document, "payload", "data")
    if reply.status == 200 and data is not None:
        try:
            return base64.b64decode(data, validate=True).decode()
        except ValueError:
            raise Invalid(
                "it is not UTF-8 text", hint="store it as text, for example in base64"
            ) from None
    if reply.status in (401, 403):
        raise Denied(
            f"Google denies access (status {reply.status})",
            hint="grant roles/secretmanager.secretAccessor on it to the worker's service account",
        )
    if reply.status == 404:
        raise NotFound("Google has no such secret, or no such version")
    if text_field(reply.document, "error", "status") == "FAILED_PRECONDITION":
        raise NotFound("this version is disabled or destroyed", hint="enable it, or name another")
    raise Invalid(f"Google responded with status {reply.status}, and no secret")


# -- who we are ---------------------------------------------------------------------------


def _log_in() -> AccessToken:
    named = setting("GOOGLE_APPLICATION_CREDENTIALS")
    home = Path(setting("CLOUDSDK_CONFIG") or Path.home() / ".config/gcloud")
    file = Path(named) if named else home / "application_default_credentials.json"
    if not named and not file.is_file():
        return _of_machine()
    credentials = _read(file)
    match credentials.get("type"):
        case "service_account":
            return _of_account(credentials)
        case "authorized_user":
            return _of_user(credentials)
        case other:
            raise Invalid(
                f"credentials of the type {str(other)[:40]!r} are not supported",
                hint="use a service account, or let the machine have one",
            )


def _read(file: Path) -> Mapping[str, Any]:
    try:
        credentials = msgspec.json.decode(file.read_bytes())
    except (OSError, ValueError):
        credentials = None
    if not isinstance(credentials, dict):
        raise Invalid(f"cannot read credentials from {file}", hint="give a JSON file of Google")
    return credentials


def _of_account(credentials: Mapping[str, Any]) -> AccessToken:
    address = str(credentials.get("token_uri") or TOKEN_URL)
    issued_at = CLOCK.now().replace(tzinfo=UTC)
    claims = {
        "iss": credentials.get("client_email"),
        "scope": SCOPE,
        "aud": address,
        "iat": issued_at,
        "exp": issued_at + timedelta(hours=1),
    }
    headers = {"kid": str(credentials.get("private_key_id", ""))}
    try:
        key = str(credentials.get("private_key", ""))
        assertion = jwt.encode(claims, key, algorithm="RS256", headers=headers)
    except (jwt.PyJWTError, ValueError, TypeError):
        raise Invalid(
            "the private key of the service account cannot be read", hint="download it again"
        ) from None
    return _token(address, {"grant_type": GRANT, "assertion": assertion})


def _of_user(credentials: Mapping[str, Any]) -> AccessToken:
    names = ("client_id", "client_secret", "refresh_token")
    form = {name: str(credentials.get(name, "")) for name in names}
    return _token(TOKEN_URL, {"grant_type": "refresh_token", **form})


def _token(address: str, form: Mapping[str, str]) -> AccessToken:
    return _issued(call("Google's token server", "POST", address, form=form))


def _of_machine() -> AccessToken:
    host = setting("GCE_METADATA_HOST", "metadata.google.internal")
    url = f"http://{host}/computeMetadata/v1/instance/service-accounts/default/token"
    headers = {"Metadata-Flavor": "Google"}
    return _issued(call("Google's metadata server", "GET", url, headers=headers, is_local=True))


def _issued(reply: Reply) -> AccessToken:
    token = text_field(reply.document, "access_token")
    if reply.status != 200 or not token:
        raise Denied(
            f"Google gives no access token (status {reply.status})",
            hint="check GOOGLE_APPLICATION_CREDENTIALS, or the machine's service account",
        )
    return AccessToken(token, lifetime(reply.document))
