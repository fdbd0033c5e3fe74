"""How callers prove who they are: `[auth]` of `arco.toml`.

    [auth]
    issuer = "https://login.example.com/realms/main"
    audience = ["arco"]
    algorithms = ["RS256", "ES256"]
    groups_claim = "groups"

    [[auth.groups]]
    group = "data-platform"
    role = "admin"
    tenant = "acme"
    workspace = "prod"        # without it: all workspaces of the tenant
    namespace = "sales"       # without it: all namespaces of the workspace

Without `issuer` there are API keys and local access alone. Roles in the log (`servo roles`) add
to what `groups` give.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from arco.errors import Invalid
from arco.security.caller import Grant, Scope
from arco.security.permissions import Role
from servo.contract.manifest import is_secret_reference
from servo.suggest import did_you_mean

ALGORITHMS: Final = ("RS256", "PS256", "ES256")
"""Signatures with a key that only the issuer has. Never `none`, never a shared secret."""
MAX_LEEWAY_S: Final = 300
MAX_SESSION_HOURS: Final = 24 * 30


class GroupRole(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the members of a group of the issuer are granted."""

    group: str
    role: Role
    tenant: str
    workspace: str = ""
    namespace: str = ""

    @property
    def grant(self) -> Grant:
        return Grant(self.role, Scope(self.tenant, self.workspace, self.namespace))


class AuthSettings(msgspec.Struct, frozen=True, kw_only=True):
    issuer: str = ""
    audience: tuple[str, ...] = ()
    """One of them must be in a token's `aud`."""
    jwks_url: str = ""
    """Where the issuer's keys are; without it, where its discovery document says."""
    algorithms: tuple[str, ...] = ("RS256", "ES256")
    leeway_s: int = 60
    groups_claim: str = "groups"
    email_claim: str = "email"
    trust_email: bool = False
    """Whether an address counts that the issuer does not call verified."""
    tenant_claim: str = ""
    """The claim that names the one tenant in which a token counts."""
    require_access_token: bool = False
    """Whether a token's `typ` must be `at+jwt` (RFC 9068)."""
    groups: tuple[GroupRole, ...] = ()
    client_id: str = ""
    """This server at the issuer, for people who log in with a browser."""
    client_secret: str = ""
    """A reference, `env:NAME` or `file:/path`; empty for a public client."""
    public_url: str = ""
    """What browsers call this server; on loopback it is not needed."""
    login_scopes: tuple[str, ...] = ("openid", "profile", "email")
    session_hours: int = 12

    @property
    def has_login(self) -> bool:
        return bool(self.issuer and self.client_id)

    @property
    def has_issuer(self) -> bool:
        return bool(self.issuer)


def parse_auth(table: Mapping[str, Any], where: str = "[auth]") -> AuthSettings:
    """The settings in a TOML table. Raises Invalid for what is not known, or is not allowed."""
    for key in table:
        if key not in AuthSettings.__struct_fields__:
            fields = AuthSettings.__struct_fields__
            hint = did_you_mean(key, fields) or f"known: {', '.join(fields)}"
            raise Invalid(f"unknown key {key!r} in {where}", hint=hint)
    values = dict(table)
    if isinstance(values.get("audience"), str):
        values["audience"] = [values["audience"]]
    try:
        settings = msgspec.convert(values, AuthSettings)
        for each in settings.groups:
            _ = each.grant
    except msgspec.ValidationError as error:
        raise Invalid(f"{where}: {error}") from None
    _check(settings, where)
    return settings


def _check(settings: AuthSettings, where: str) -> None:
    if settings.has_issuer:
        check_url(settings.issuer, f"{where}: issuer")
        if not settings.audience:
            raise Invalid(
                f"{where}: an issuer needs an audience",
                hint="give the name of the API at the issuer; without it any token is accepted",
            )
    if settings.jwks_url:
        check_url(settings.jwks_url, f"{where}: jwks_url")
    if settings.public_url:
        check_url(settings.public_url, f"{where}: public_url")
    if settings.client_secret and not is_secret_reference(settings.client_secret):
        raise Invalid(
            f"{where}: client_secret is not a reference", hint="write env:NAME or file:/path"
        )
    if settings.client_id and not settings.has_issuer:
        raise Invalid(f"{where}: a client_id needs an issuer")
    if "openid" not in settings.login_scopes:
        raise Invalid(f"{where}: login_scopes must have openid")
    if not 1 <= settings.session_hours <= MAX_SESSION_HOURS:
        raise Invalid(f"{where}: session_hours is 1 to {MAX_SESSION_HOURS}")
    _check_algorithms(settings.algorithms, where)
    if not 0 <= settings.leeway_s <= MAX_LEEWAY_S:
        raise Invalid(f"{where}: leeway_s is 0 to {MAX_LEEWAY_S}")


def _check_algorithms(names: Iterable[str], where: str) -> None:
    listed = list(names)
    if not listed:
        raise Invalid(f"{where}: no algorithms", hint=f"one or more of {', '.join(ALGORITHMS)}")
    for name in listed:
        if name not in ALGORITHMS:
            raise Invalid(
                f"{where}: {name!r} is not allowed",
                hint=f"allowed algorithms: {', '.join(ALGORITHMS)}",
            )


def check_url(url: str, what: str) -> None:
    """Keys come over TLS, or from this machine. Raises Invalid."""
    try:
        parts = urlsplit(url)
        is_right = bool(parts.hostname) and parts.username is None
    except ValueError:
        is_right = False
    if not is_right or not (parts.scheme == "https" or is_loopback(parts.scheme, parts.hostname)):
        raise Invalid(f"{what}: {url[:200]!r} is not an https URL", hint="write https://…")


def is_loopback(scheme: str, host: str | None) -> bool:
    if scheme != "http" or host is None:
        return False
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
