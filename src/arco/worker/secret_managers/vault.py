"""HashiCorp Vault, and OpenBao: `vault:MOUNT/path#field`, of the key-value engine, version 2.

The environment says where it is and who we are, by the names that Vault's own programs use:
VAULT_ADDR, VAULT_NAMESPACE, VAULT_CACERT; VAULT_TOKEN, or VAULT_ROLE_ID with VAULT_SECRET_ID
(AppRole). Protocol: developer.hashicorp.com/vault/api-docs/secret/kv/kv-v2 and …/auth/approle.
"""

from __future__ import annotations

import json
from typing import Any, Final
from urllib.parse import quote

from arco.errors import Denied, Invalid, NotFound
from arco.worker.secret_managers.calls import (
    AccessToken,
    Reply,
    TokenCache,
    call,
    lifetime,
    setting,
    text_field,
)
from servo.contract.manifest import SecretRef

SERVICE: Final = "Vault"
WHO: Final = "set VAULT_TOKEN, or VAULT_ROLE_ID and VAULT_SECRET_ID, for the worker"


class VaultSecrets:
    def __init__(self) -> None:
        self._login = TokenCache(_log_in)

    def resolve(self, ref: SecretRef) -> str:
        url = _url(ref)
        params = {"version": ref.version} if ref.version else None
        token = setting("VAULT_TOKEN")
        reply = _call("GET", url, token or self._login.get(), params=params)
        if reply.status in (401, 403) and not token:
            self._login.drop()  # somebody may have revoked it
            reply = _call("GET", url, self._login.get(), params=params)
        return _value(reply, ref)


def _url(ref: SecretRef) -> str:
    segments = ref.path.split("/")
    if len(segments) < 2 or any(segment in ("", ".", "..") for segment in segments):
        raise Invalid("the path is not MOUNT/path", hint="write vault:secret/shop/db#password")
    if ref.version and not (ref.version.isascii() and ref.version.isdecimal()):
        raise Invalid(f"{ref.version!r} is not a Vault version", hint="write ?version=3")
    mount, *path = (quote(segment, safe="") for segment in segments)
    return f"/v1/{mount}/data/{'/'.join(path)}"


def _call(
    method: str,
    path: str,
    token: str,
    *,
    params: dict[str, str] | None = None,
    json: dict[str, Any] | None = None,
) -> Reply:
    address = setting("VAULT_ADDR")
    if not address:
        raise Invalid("VAULT_ADDR is not set", hint="set Vault's URL for the worker")
    headers = {"X-Vault-Request": "true"}
    if token:
        headers["X-Vault-Token"] = token
    if namespace := setting("VAULT_NAMESPACE"):
        headers["X-Vault-Namespace"] = namespace
    return call(
        SERVICE,
        method,
        address.rstrip("/") + path,
        headers=headers,
        params=params,
        json=json,
        ca_file=setting("VAULT_CACERT"),
    )


def _log_in() -> AccessToken:
    role, secret = setting("VAULT_ROLE_ID"), setting("VAULT_SECRET_ID")
    if not role or not secret:
        raise Denied("there are no credentials for Vault", hint=WHO)
    body = {"role_id": role, "secret_id": secret}
    reply = _call("POST", "/v1/auth/approle/login", "", json=body)
    token = text_field(reply.document, "auth", "client_token")
    if reply.status != 200 or not token:
        raise Denied(
            f"Vault refuses the AppRole (status {reply.status})",
            hint="check VAULT_ROLE_ID and VAULT_SECRET_ID; a secret id may have expired",
        )
    return AccessToken(token, lifetime(reply.document["auth"], "lease_duration"))


def _value(reply: Reply, ref: SecretRef) -> str:
    """All fields as JSON, if one of them is asked for; otherwise the only one."""
    holder = reply.document.get("data")
    data = holder.get("data") if isinstance(holder, dict) else None
    if reply.status == 200 and isinstance(data, dict):
        if ref.field or len(data) != 1:
            return _checked(data, ref)
        (only,) = data.values()
        return only if isinstance(only, str) else json.dumps(only)
    if reply.status in (401, 403):
        raise Denied(
            "Vault denies access: the token is not valid, or its policies do not allow it",
            hint=f'grant "read" on {_url(ref).removeprefix("/v1/")}, or renew the token',
        )
    if reply.status == 404 and isinstance(holder, dict):
        raise NotFound("this version is deleted or destroyed", hint="name another, or undelete it")
    if reply.status == 404:
        version = f"version {ref.version}" if ref.version else "secret"
        raise NotFound(
            f"Vault has no such {version}",
            hint="create it, or correct the path: MOUNT/path, without data/",
        )
    raise Invalid(
        f"Vault responded with status {reply.status}, and no secret",
        hint="the mount must be a key-value engine of version 2",
    )


def _checked(data: dict[str, Any], ref: SecretRef) -> str:
    if not ref.field:
        names = ", ".join(sorted(data)) or "none"
        raise Invalid(f"it does not have exactly one field; its fields: {names}", hint="add #field")
    return json.dumps(data)
