"""Verifies tokens of an OpenID Connect issuer.

A token names its algorithm and its key. Neither is trusted: the algorithm must be one that the
settings allow and that its key is for, and keys come from the issuer's own address alone. Headers
that bring a key along (`jwk`, `jku`, `x5c`, `x5u`) are ignored.

Keys rotate. A `kid` that is not in the set has it fetched again, at most once in a while, so
that made-up ids do not turn callers into requests to the issuer. While the issuer does not
answer, keys that were fetched hold for a day.
"""

from __future__ import annotations

import hmac
import http.client
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import IO, Any, Final, Protocol

import jwt
import msgspec
from jwt.exceptions import PyJWTError

from arco.clock import Clock
from arco.errors import Invalid, Unauthenticated, Unavailable
from arco.security.settings import AuthSettings, check_url

MAX_TOKEN_BYTES: Final = 16 << 10
MAX_DOCUMENT_BYTES: Final = 1 << 20
MAX_GROUPS: Final = 1_000
MIN_RSA_BITS: Final = 2_048
FETCH_TIMEOUT_S: Final = 5.0
REFETCH_S: Final = 30.0
"""Minimum time between two fetches of the set because of key ids that are not in it."""
FRESH_S: Final = 600.0
"""Keys of this age are fetched again: one that was withdrawn stops counting."""
STALE_S: Final = 86_400.0
"""Keys of this age do not count, if the issuer does not answer."""


class TokenIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """The identity in a valid token."""

    issuer: str
    subject: str
    email: str = ""
    """Empty unless the issuer has verified it, or is trusted to."""
    name: str = ""
    groups: tuple[str, ...] = ()
    tenant: str | None = None
    """The one tenant in which it counts; None: all."""
    expires_at: datetime

    @property
    def subjects(self) -> tuple[str, ...]:
        """What role bindings may call its holder."""
        users = (f"user:{self.email}",) if self.email else ()
        return (*users, f"subject:{self.subject}", *(f"group:{name}" for name in self.groups))


class JwksSource(Protocol):
    def fetch(self) -> Mapping[str, Any]:
        """The issuer's key set. Raises Unavailable."""


class HttpJwks:
    """The key set of an issuer, from where its discovery document says, or from a given URL."""

    def __init__(self, settings: AuthSettings) -> None:
        self._issuer = settings.issuer
        self._url = settings.jwks_url

    def fetch(self) -> Mapping[str, Any]:
        return _get(self._url or self._discovered())

    def _discovered(self) -> str:
        document = discovery_document(self._issuer)
        jwks = document.get("jwks_uri")
        if not isinstance(jwks, str):
            raise Unavailable(f"the discovery document of {self._issuer} has no jwks_uri")
        try:
            check_url(jwks, "jwks_uri")
        except Invalid as error:
            raise Unavailable(f"the discovery document of {self._issuer}: {error}") from None
        return jwks


def discovery_document(issuer: str) -> Mapping[str, Any]:
    """What the issuer says of itself. Raises Unavailable."""
    document = _get(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
    if document.get("issuer") != issuer:
        raise Unavailable(
            f"the discovery document of {issuer} names another issuer",
            hint="write the issuer exactly as the document does, with or without a slash",
        )
    return document


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> None:
        return None


_opener = urllib.request.build_opener(_NoRedirects)


def open_url(url: str | urllib.request.Request, timeout_s: float) -> Any:
    """Redirects are not followed: they are errors."""
    return _opener.open(url, timeout=timeout_s)


def _get(url: str) -> Mapping[str, Any]:
    try:
        with open_url(url, FETCH_TIMEOUT_S) as answer:
            raw = answer.read(MAX_DOCUMENT_BYTES + 1)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise Unavailable(f"{url} did not respond: {error}") from None
    try:
        document = json.loads(raw) if len(raw) <= MAX_DOCUMENT_BYTES else None
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise Unavailable(f"{url} did not return a JSON object")
    return document


class KeySet:
    """The issuer's keys, by id; fetched when they are needed, by one thread at a time.

    A thread with a valid key does not wait for another thread's fetch.
    """

    def __init__(self, source: JwksSource, clock: Clock, algorithms: tuple[str, ...]) -> None:
        self._source = source
        self._clock = clock
        self._algorithms = algorithms
        self._fetching = threading.Lock()
        self._keys: Mapping[tuple[str, str], jwt.PyJWK] = {}
        self._fetched_at: float | None = None
        self._tried_at: float | None = None

    def key(self, kid: str, algorithm: str) -> jwt.PyJWK:
        """The key for a token's header. Raises Unauthenticated, or Unavailable without keys."""
        key = self._keys.get((kid, algorithm))
        holds = key is not None and self._age() <= STALE_S
        is_fresh = holds and self._age() <= FRESH_S
        if not is_fresh and self._fetching.acquire(blocking=not holds):
            try:
                self._refetch()
            finally:
                self._fetching.release()
            key = self._keys.get((kid, algorithm))
        if self._age() > STALE_S:
            raise Unavailable(
                "the issuer's keys cannot be fetched", hint="check the issuer, then retry"
            )
        if key is None:
            raise Unauthenticated("the token is signed with an unknown key")
        return key

    def _age(self) -> float:
        now = self._clock.monotonic()
        return float("inf") if self._fetched_at is None else now - self._fetched_at

    def _refetch(self) -> None:
        now = self._clock.monotonic()
        if self._tried_at is not None and now - self._tried_at < REFETCH_S:
            return
        self._tried_at = now
        try:
            document = self._source.fetch()
        except Unavailable:
            return  # those that there are hold for a while
        self._keys = _usable(document, self._algorithms)
        self._fetched_at = now


def _usable(document: Mapping[str, Any], algorithms: tuple[str, ...]) -> dict[Any, jwt.PyJWK]:
    """Keys that verify signatures, by id and algorithm. Others are left out."""
    keys: dict[tuple[str, str], jwt.PyJWK] = {}
    entries = document.get("keys")
    for entry in entries if isinstance(entries, list) else ():
        if not isinstance(entry, dict) or entry.get("use", "sig") != "sig":
            continue
        kid = entry.get("kid")
        if not isinstance(kid, str):
            continue
        for algorithm in algorithms:
            if entry.get("alg", algorithm) == algorithm and _fits(entry, algorithm):
                try:
                    key = jwt.PyJWK(entry, algorithm)
                except (PyJWTError, ValueError, TypeError):
                    continue
                if getattr(key.key, "key_size", MIN_RSA_BITS) >= MIN_RSA_BITS or _is_curve(entry):
                    keys[kid, algorithm] = key
    return keys


def _fits(entry: Mapping[str, Any], algorithm: str) -> bool:
    if algorithm == "ES256":
        return _is_curve(entry) and entry.get("crv") == "P-256"
    return entry.get("kty") == "RSA"


def _is_curve(entry: Mapping[str, Any]) -> bool:
    return entry.get("kty") == "EC"


class TokenVerifier:
    def __init__(self, settings: AuthSettings, clock: Clock, source: JwksSource | None = None):
        self._settings = settings
        self._clock = clock
        self._keys = KeySet(source or HttpJwks(settings), clock, settings.algorithms)

    def verify(self, token: str) -> TokenIdentity:
        """Who holds an access token. Raises Unauthenticated, which names no part of it."""
        header, claims = self._verified(token, self._settings.audience)
        self._check_purpose(header, claims)
        return self._identity(claims)

    def verify_login(self, token: str, nonce: str) -> TokenIdentity:
        """Who has logged in, by the ID token that the issuer gave for it."""
        client_id = self._settings.client_id
        _, claims = self._verified(token, (client_id,))
        audiences = claims["aud"] if isinstance(claims["aud"], list) else [claims["aud"]]
        if claims.get("azp", client_id if len(audiences) == 1 else None) != client_id:
            raise Unauthenticated("the ID token is for another client")
        given = claims.get("nonce")
        if not isinstance(given, str) or not hmac.compare_digest(given.encode(), nonce.encode()):
            raise Unauthenticated("the ID token belongs to another login")
        return self._identity(claims)

    def _verified(
        self, token: str, audience: tuple[str, ...]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Header and claims of a token of the issuer that holds now."""
        settings = self._settings
        if len(token) > MAX_TOKEN_BYTES:
            raise Unauthenticated("the token is too long")
        header = self._header(token)
        key = self._keys.key(header["kid"], header["alg"])
        try:
            claims = jwt.decode(
                token,
                key,
                algorithms=[header["alg"]],
                audience=audience,
                issuer=settings.issuer,
                options={
                    "require": ["exp", "iss", "aud", "sub"],
                    "verify_exp": False,  # below, by our clock
                    "verify_nbf": False,
                    "verify_iat": False,
                },
            )
        except PyJWTError as error:
            raise Unauthenticated(f"the token is invalid: {_reason(error)}") from None
        self._check_times(claims)
        return header, claims

    def _header(self, token: str) -> dict[str, Any]:
        try:
            header: dict[str, Any] = jwt.get_unverified_header(token)
        except (PyJWTError, ValueError):
            raise Unauthenticated("the token is malformed") from None
        if header.get("alg") not in self._settings.algorithms:
            raise Unauthenticated("the token is signed with an algorithm that is not allowed")
        if not isinstance(header.get("kid"), str):
            raise Unauthenticated("the token does not name its key")
        if "crit" in header:
            raise Unauthenticated("the token has an unsupported critical header")
        return header

    def _check_times(self, claims: Mapping[str, Any]) -> None:
        now = self._clock.now().replace(tzinfo=UTC).timestamp()
        leeway = self._settings.leeway_s
        expires, starts, issued = (_seconds(claims, name) for name in ("exp", "nbf", "iat"))
        if expires is None or expires + leeway <= now:
            raise Unauthenticated("the token has expired", hint="log in again")
        if starts is not None and starts - leeway > now:
            raise Unauthenticated("the token is not valid yet")
        if issued is not None and issued - leeway > now:
            raise Unauthenticated("the token was issued in the future; check the clocks")

    def _check_purpose(self, header: Mapping[str, Any], claims: Mapping[str, Any]) -> None:
        """Refuse ID tokens: they are for clients, not for an API."""
        kind = str(header.get("typ", "")).lower().removeprefix("application/")
        if self._settings.require_access_token and kind != "at+jwt":
            raise Unauthenticated("the token is not an access token (typ at+jwt)")
        if claims.get("typ") == "ID" or any(name in claims for name in ("nonce", "at_hash")):
            raise Unauthenticated(
                "an ID token is not an access token", hint="send the access token"
            )

    def _identity(self, claims: Mapping[str, Any]) -> TokenIdentity:
        settings = self._settings
        subject = claims["sub"]
        if not isinstance(subject, str) or not subject or not subject.isprintable():
            raise Unauthenticated("the token has no subject")
        email = claims.get(settings.email_claim)
        is_verified = claims.get("email_verified") is True or settings.trust_email
        tenant = None
        if settings.tenant_claim:
            claim = claims.get(settings.tenant_claim)
            tenant = claim if isinstance(claim, str) else ""
        name = claims.get("name")
        expires = _seconds(claims, "exp")
        assert expires is not None
        return TokenIdentity(
            issuer=settings.issuer,
            subject=subject,
            email=email.casefold() if isinstance(email, str) and is_verified else "",
            name=name[:200] if isinstance(name, str) and name.isprintable() else "",
            groups=_groups(claims.get(settings.groups_claim)),
            tenant=tenant,
            expires_at=datetime.fromtimestamp(expires, UTC).replace(tzinfo=None),
        )


def _seconds(claims: Mapping[str, Any], name: str) -> float | None:
    """A time of a token. Raises Unauthenticated for one that is no number in range."""
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1 << 37:
        raise Unauthenticated(f"the token's {name} is not a time")
    return float(value)


def _groups(value: Any) -> tuple[str, ...]:
    names = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return tuple(name for name in names[:MAX_GROUPS] if isinstance(name, str) and name)


_REASONS: Final = (
    (jwt.InvalidAudienceError, "it is for another audience"),
    (jwt.InvalidIssuerError, "it is from another issuer"),
    (jwt.MissingRequiredClaimError, "a claim is missing"),
    (jwt.InvalidSignatureError, "its signature is wrong"),
)


def _reason(error: PyJWTError) -> str:
    return next((text for kind, text in _REASONS if isinstance(error, kind)), "it is malformed")
