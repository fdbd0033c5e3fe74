"""Bodies and answers of the routes for logging in."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from arco.security.permissions import Permission


class TokenRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    code: Annotated[str, Meta(max_length=8192)]
    verifier: Annotated[str, Meta(min_length=43, max_length=128)]


class LoginToken(msgspec.Struct, frozen=True, kw_only=True):
    token: str
    ends_at: datetime


class LoginState(msgspec.Struct, frozen=True, kw_only=True):
    state: Literal["logged_out"]


class SessionCaller(msgspec.Struct, frozen=True, kw_only=True):
    kind: str
    id: str
    name: str
    email: str
    until: datetime | None


class SessionWorkspace(msgspec.Struct, frozen=True, kw_only=True):
    tenant: str
    workspace: str
    permissions: list[Permission]
    """In the whole workspace."""
    namespaces: dict[str, list[Permission]]
    """What more there is in some of them."""


class SessionBody(msgspec.Struct, frozen=True, kw_only=True):
    caller: SessionCaller | None
    """Null: nobody is logged in."""
    login: str | None
    """Where to log in; null at a server without a login."""
    workspaces: list[SessionWorkspace] = []
    development: str = ""
    """Where the state of `servo dev` is."""
