"""Logging in at the issuer: authorization code with PKCE, state and nonce (OpenID Connect Core).

The issuer's endpoints come from its discovery document. The code goes back with the verifier of its
challenge, so that nobody else can use it; the ID token must have the nonce of this login.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import secrets
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec

from arco.clock import Clock
from arco.errors import Invalid, Unauthenticated, Unavailable
from arco.security.oidc import (
    FETCH_TIMEOUT_S,
    MAX_DOCUMENT_BYTES,
    TokenIdentity,
    TokenVerifier,
    discovery_document,
    open_url,
)
from arco.security.settings import AuthSettings, check_url

FRESH_S: Final = 600.0


class LoginAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """What has to be the same when the browser comes back."""

    state: str
    nonce: str
    verifier: str
    redirect_uri: str
    next: str
    """Where the browser goes after it."""
    began_at: float


def challenge_of(verifier: str) -> str:
    """RFC 7636, S256."""
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


class OidcLogin:
    def __init__(
        self, settings: AuthSettings, verifier: TokenVerifier, clock: Clock, secret: str = ""
    ) -> None:
        self._settings = settings
        self._verifier = verifier
        self._clock = clock
        self._secret = secret
        self._lock = threading.Lock()
        self._document: Mapping[str, Any] = {}
        self._fetched_at = float("-inf")

    def begin(self, redirect_uri: str, after: str) -> tuple[LoginAttempt, str]:
        """A new attempt, and the URL at the issuer. Raises Unavailable."""
        attempt = LoginAttempt(
            state=secrets.token_urlsafe(24),
            nonce=secrets.token_urlsafe(24),
            verifier=secrets.token_urlsafe(48),
            redirect_uri=redirect_uri,
            next=after,
            began_at=self._clock.now().timestamp(),
        )
        query = {
            "response_type": "code",
            "client_id": self._settings.client_id,
            "redirect_uri": redirect_uri,
            "scope": " ".join(self._settings.login_scopes),
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": challenge_of(attempt.verifier),
            "code_challenge_method": "S256",
        }
        endpoint = self._endpoint("authorization_endpoint")
        return attempt, f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}"

    def finish(self, attempt: LoginAttempt, code: str, issuer: str | None) -> TokenIdentity:
        """Who has logged in. Raises Unauthenticated, or Unavailable if the issuer is away."""
        if issuer is not None and issuer != self._settings.issuer:
            raise Unauthenticated("the response belongs to another issuer")  # RFC 9207
        answer = self._exchange(attempt, code)
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise Unauthenticated("the issuer gave no ID token", hint="login_scopes needs openid")
        return self._verifier.verify_login(token, attempt.nonce)

    def _exchange(self, attempt: LoginAttempt, code: str) -> Mapping[str, Any]:
        fields = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": attempt.redirect_uri,
            "code_verifier": attempt.verifier,
            "client_id": self._settings.client_id,
        }
        request = urllib.request.Request(
            self._endpoint("token_endpoint"),
            data=urlencode(fields).encode(),
            headers={"Accept": "application/json", **self._authorization()},
        )
        try:
            with open_url(request, FETCH_TIMEOUT_S) as answer:
                raw = answer.read(MAX_DOCUMENT_BYTES + 1)
        except urllib.error.HTTPError as error:
            if error.code >= 500:
                raise Unavailable(f"the issuer responded with {error.code}") from None
            raise Unauthenticated("the issuer refused the login", hint="log in again") from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Unavailable(f"the issuer did not respond: {error}") from None
        try:
            document = json.loads(raw) if len(raw) <= MAX_DOCUMENT_BYTES else None
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            raise Unavailable("the issuer did not return a JSON object")
        return document

    def _authorization(self) -> Mapping[str, str]:
        """client_secret_basic: both are form-encoded first (RFC 6749, 2.3.1)."""
        if not self._secret:
            return {}
        pair = f"{quote(self._settings.client_id, safe='')}:{quote(self._secret, safe='')}"
        return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}

    def _endpoint(self, name: str) -> str:
        with self._lock:
            if self._clock.monotonic() - self._fetched_at > FRESH_S:
                self._document = discovery_document(self._settings.issuer)
                self._fetched_at = self._clock.monotonic()
        url = self._document.get(name)
        if not isinstance(url, str):
            raise Unavailable(f"the discovery document of the issuer has no {name}")
        try:
            check_url(url, name)
        except Invalid as error:
            raise Unavailable(f"the discovery document of the issuer: {error}") from None
        return url
