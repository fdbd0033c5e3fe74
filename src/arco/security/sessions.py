"""Sessions of people who have logged in: sealed texts that browsers and command lines hold.

A server stores nothing: the issuer's claims, an id and an end are encrypted and authenticated
(AES-256-GCM) with a key that all servers of a store have. Roles are looked up with each request, so
they count from the next generation on; groups and names are those of the login. Logging out appends
the session's id to the log, and every server refuses it from its next read on.

It is a separate key, so that the key for tasks cannot create sessions.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import os
import secrets
from collections.abc import Callable
from datetime import datetime
from typing import Final, TypeVar

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from arco.errors import AlreadyExists, Corrupt, Invalid, NotFound, Unauthenticated, Unavailable
from arco.security.authentication import DirectorySource, OidcAuthenticator
from arco.security.caller import Caller
from arco.security.oidc import TokenIdentity
from arco.storage import paths
from arco.storage.port import Store

ENV: Final = "ARCO_SESSION_KEY"
PREFIX: Final = "arco_session_"
MAX_CHARS: Final = 7_000
"""Of a sealed text: cookies have 4 KiB in some browsers, so groups are bounded, too."""
MAX_GROUPS: Final = 100
_NONCE_BYTES = 12

S = TypeVar("S", bound=msgspec.Struct)


class LoginSession(msgspec.Struct, frozen=True, kw_only=True):
    session_id: str
    identity: TokenIdentity
    ends_at: datetime


class _StoredKey(msgspec.Struct, frozen=True):
    key: str


def session_key(store: Store) -> bytes:
    """The key of a store's sessions; made on first use, unless `ARCO_SESSION_KEY` has one."""
    configured = os.environ.get(ENV, "")
    if configured:
        if len(configured) < 32:
            raise Invalid(f"{ENV} is too short", hint="give 32 or more random characters")
        return hashlib.sha256(configured.encode()).digest()
    try:
        raw = store.get(paths.SESSION_KEYS).data
    except NotFound:
        created = _StoredKey(secrets.token_hex(32))
        with contextlib.suppress(AlreadyExists, Unavailable):  # what is there counts
            store.put(paths.SESSION_KEYS, msgspec.json.encode(created))
        raw = store.get(paths.SESSION_KEYS).data
    try:
        return bytes.fromhex(msgspec.json.decode(raw, type=_StoredKey).key)
    except (msgspec.DecodeError, ValueError) as error:
        raise Corrupt(f"{paths.SESSION_KEYS} cannot be read: {error}") from None


class Sealer:
    """Texts that only servers of this store can read and make. `purpose` tells kinds apart."""

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(hashlib.sha256(b"arco sessions\0" + key).digest())

    def seal(self, purpose: str, value: msgspec.Struct) -> str:
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed = self._cipher.encrypt(nonce, msgspec.msgpack.encode(value), purpose.encode())
        return base64.urlsafe_b64encode(nonce + sealed).rstrip(b"=").decode()

    def unseal(self, purpose: str, text: str, kind: type[S]) -> S | None:
        """None for what was not sealed here, or for another purpose."""
        if not text or len(text) > MAX_CHARS:
            return None
        try:
            raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
            plain = self._cipher.decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], purpose.encode())
            return msgspec.msgpack.decode(plain, type=kind)
        except (binascii.Error, ValueError, InvalidTag, msgspec.DecodeError):
            return None


class Sessions:
    """Makes and reads the tokens of sessions; an authenticator of them."""

    def __init__(
        self,
        sealer: Sealer,
        oidc: OidcAuthenticator,
        home: DirectorySource,
        now: Callable[[], datetime],
    ) -> None:
        """`home` is the workspace whose log says which sessions were ended."""
        self.sealer = sealer
        self._oidc = oidc
        self._home = home
        self._now = now

    def begin(self, identity: TokenIdentity, session_id: str, ends_at: datetime) -> str:
        """The token of a new session."""
        bounded = msgspec.structs.replace(identity, groups=identity.groups[:MAX_GROUPS])
        session = LoginSession(session_id=session_id, identity=bounded, ends_at=ends_at)
        return PREFIX + self.sealer.seal("session", session)

    def read(self, token: str) -> LoginSession | None:
        """The session of a token that was made here and has not ended; None for anything else."""
        if not token.startswith(PREFIX):
            return None
        session = self.sealer.unseal("session", token.removeprefix(PREFIX), LoginSession)
        if session is None or session.ends_at <= self._now():
            return None
        return session

    def caller(self, token: str) -> Caller | None:
        if not token.startswith(PREFIX):
            return None
        session = self.read(token)
        if session is None:
            raise Unauthenticated("the session has ended", hint="log in again")
        if session.session_id in self._home.directory().ended_sessions:
            raise Unauthenticated("the session was ended", hint="log in again")
        caller = self._oidc.identified(session.identity)
        return msgspec.structs.replace(caller, until=session.ends_at)
