"""Azure Key Vault: `azure-key-vault:VAULT/NAME`.

Credentials, the first of: AZURE_TENANT_ID and AZURE_CLIENT_ID with AZURE_CLIENT_SECRET or
AZURE_FEDERATED_TOKEN_FILE; the managed identity of the App Service, or of the machine.
Protocol: learn.microsoft.com/rest/api/keyvault/secrets and …/entra/identity-platform.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

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

SERVICE: Final = "Azure Key Vault"
API_VERSION: Final = "7.4"
ASSERTION: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_PATH: Final = re.compile(r"(?P<vault>[A-Za-z0-9-]{3,24})/(?P<name>[A-Za-z0-9-]{1,127})\Z")
_VERSION: Final = re.compile(r"[A-Za-z0-9]{1,64}\Z")


class AzureSecrets:
    def __init__(self, address: str = "https://{vault}.{suffix}") -> None:
        """`address` is for tests: `{vault}` stands for the name of the vault."""
        self._address = address
        self._login = TokenCache(_log_in)

    def resolve(self, ref: SecretRef) -> str:
        match = _PATH.match(ref.path)
        if match is None or (ref.version and not _VERSION.match(ref.version)):
            raise Invalid("the path is not VAULT/NAME", hint="write azure-key-vault:shop/db")
        address = self._address.format(vault=match["vault"].lower(), suffix=_suffix())
        version = f"/{ref.version}" if ref.version else ""
        url = f"{address}/secrets/{match['name']}{version}"
        reply = _get(url, self._login.get())
        if reply.status == 401:
            self._login.drop()
            reply = _get(url, self._login.get())
        return _value(reply, ref)


def _suffix() -> str:
    """Other clouds have other names: vault.azure.cn, vault.usgovcloudapi.net."""
    return setting("AZURE_KEYVAULT_DNS_SUFFIX", "vault.azure.net").lstrip(".")


def _get(url: str, token: str) -> Reply:
    headers = {"Authorization": f"Bearer {token}"}
    return call(SERVICE, "GET", url, headers=headers, params={"api-version": API_VERSION})


def _value(reply: Reply, ref: SecretRef) -> str:
    value = text_field(reply.document, "value")
    if reply.status == 200 and value is not None:
        return value
    if text_field(reply.document, "error", "innererror", "code") == "SecretDisabled":
        raise NotFound("this version is disabled", hint="enable it, or name another")
    if reply.status in (401, 403):
        raise Denied(
            f"Azure denies access (status {reply.status})",
            hint='give the worker\'s identity the role "Key Vault Secrets User", and check the '
            "firewall of the vault",
        )
    if reply.status == 404:
        what = f"version {ref.version}" if ref.version else "secret"
        raise NotFound(f"the vault has no such {what}")
    raise Invalid(f"Azure responded with status {reply.status}, and no secret")


# -- who we are ---------------------------------------------------------------------------


def _log_in() -> AccessToken:
    tenant, client = setting("AZURE_TENANT_ID"), setting("AZURE_CLIENT_ID")
    secret, file = setting("AZURE_CLIENT_SECRET"), setting("AZURE_FEDERATED_TOKEN_FILE")
    if not (tenant and client and (secret or file)):
        return _of_machine(client)
    if not re.fullmatch(r"[A-Za-z0-9.-]+", tenant):
        raise Invalid("AZURE_TENANT_ID is not a tenant", hint="set its id or its domain")
    form = {
        "grant_type": "client_credentials",
        "client_id": client,
        "scope": f"https://{_suffix()}/.default",
    }
    if secret:
        form["client_secret"] = secret
    else:
        form |= {"client_assertion_type": ASSERTION, "client_assertion": _assertion(file)}
    authority = setting("AZURE_AUTHORITY_HOST", "https://login.microsoftonline.com").rstrip("/")
    url = f"{authority}/{tenant}/oauth2/v2.0/token"
    return _issued(call("Microsoft Entra", "POST", url, form=form))


def _assertion(file: str) -> str:
    try:
        return Path(file).read_text("utf-8").strip()
    except (OSError, ValueError):
        raise Invalid(f"cannot read {file}", hint="check AZURE_FEDERATED_TOKEN_FILE") from None


def _of_machine(client: str) -> AccessToken:
    params = {"resource": f"https://{_suffix()}"}
    if client:
        params["client_id"] = client
    if endpoint := setting("IDENTITY_ENDPOINT"):
        url, headers = endpoint, {"X-IDENTITY-HEADER": setting("IDENTITY_HEADER")}
        params["api-version"] = "2019-08-01"
    else:
        host = setting("AZURE_POD_IDENTITY_AUTHORITY_HOST", "http://169.254.169.254")
        url, headers = f"{host.rstrip('/')}/metadata/identity/oauth2/token", {"Metadata": "true"}
        params["api-version"] = "2018-02-01"
    service = "the managed identity's endpoint"
    return _issued(call(service, "GET", url, headers=headers, params=params, is_local=True))


def _issued(reply: Reply) -> AccessToken:
    token = text_field(reply.document, "access_token")
    if reply.status != 200 or not token:
        raise Denied(
            f"Azure gives no access token (status {reply.status})",
            hint="check AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET, or the machine's "
            "managed identity",
        )
    return AccessToken(token, lifetime(reply.document))
