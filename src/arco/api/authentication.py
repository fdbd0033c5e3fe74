"""Who sends a request: a bearer token, or the cookie of a session, becomes a `Caller`.

A token is read only from `Authorization: Bearer`, never from the URL. The authenticators are tried
in order; a request that none of them accepts is unauthenticated.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from http.cookies import CookieError, SimpleCookie
from typing import Protocol

from arco.api.problems import ApiError
from arco.security.caller import Caller, Grant, Scope
from arco.security.permissions import Role

COOKIE = "arco_local"
MAX_TOKEN_CHARS = 8192


class Authenticator(Protocol):
    def caller(self, token: str) -> Caller | None:
        """Who holds a token; None if it is none of these. May look at the store."""


class LocalAccess:
    """Access for who started the server, on this machine: a token, and a link that works once."""

    def __init__(self, workspaces: Sequence[tuple[str, str]], user: str) -> None:
        self.token = f"arco_local_{secrets.token_urlsafe(32)}"
        self._code = secrets.token_urlsafe(32)
        grants = tuple(Grant(Role.OWNER, Scope(*each)) for each in workspaces)
        self._caller = Caller(kind="local", id=user or "local", name=user, grants=grants)

    @property
    def code(self) -> str:
        return self._code

    def caller(self, token: str) -> Caller | None:
        return self._caller if _equal(token, self.token) else None

    def redeem(self, code: str) -> str | None:
        """The token for the code of the link, once."""
        if not self._code or not _equal(code, self._code):
            return None
        self._code = ""
        return self.token


def _equal(one: str, other: str) -> bool:
    digests = [hashlib.sha256(text.encode("utf-8", "replace")).digest() for text in (one, other)]
    return hmac.compare_digest(*digests)


class Credentials(Protocol):
    """The headers of a request."""

    def get(self, name: str, /) -> str | None: ...


def session_cookie(*, secure: bool) -> str:
    """`__Host-` keeps other hosts of the domain from setting it; browsers want TLS for it."""
    return "__Host-arco_session" if secure else "arco_session"


def login_cookie(*, secure: bool) -> str:
    return "__Host-arco_login" if secure else "arco_login"


def bearer_token(headers: Credentials, *, is_read: bool, secure: bool = False) -> str:
    """The token of a request. Raises if there is none, or none that counts.

    A cookie counts for a write only with the header `X-Arco-Csrf`, which a page of another
    origin cannot send.
    """
    authorization = headers.get("authorization")
    if authorization is not None:
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token.strip() or len(token) > MAX_TOKEN_CHARS:
            raise unauthenticated("the Authorization header is not `Bearer TOKEN`")
        return token.strip()
    token = cookie_of(headers, session_cookie(secure=secure)) or cookie_of(headers, COOKIE)
    if not token:
        raise unauthenticated("the request has no token")
    if not is_read and headers.get("x-arco-csrf") != "1":
        raise ApiError(
            "denied",
            "a write with a cookie needs the header X-Arco-Csrf: 1",
            code="csrf",
            hint="send the header, or an Authorization header instead of the cookie",
        )
    return token


def cookie_of(headers: Credentials, name: str) -> str:
    """A cookie of a request; empty if it is not there, or there is no making sense of them."""
    header = headers.get("cookie") or ""
    if name not in header or len(header) > 2 * MAX_TOKEN_CHARS:
        return ""
    try:
        morsel = SimpleCookie(header).get(name)
    except CookieError:
        return ""
    return "" if morsel is None else morsel.value


def unauthenticated(message: str) -> ApiError:
    return ApiError(
        "unauthenticated",
        message,
        hint="send Authorization: Bearer TOKEN; see `servo auth`",
    )
