"""Page tokens: where a list goes on, and in which generation.

A token holds the generation, a digest of the list and its filters, and the typed values of the
last row's sort key. It is authenticated, so that nobody can make one up, and opaque to clients.
A token of another list or of other filters is refused.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from datetime import datetime
from typing import Final

import msgspec

from arco.api.problems import invalid_field

KeyValue = str | int | bool | float | None
PageKey = tuple[KeyValue | datetime, ...]
"""Values of a list's sort columns; the last of them tells rows apart."""

_MAC_BYTES: Final = 16
_MAX_CHARS: Final = 4096


class _Time(msgspec.Struct, frozen=True, tag="t", array_like=True):
    at: datetime


class _Value(msgspec.Struct, frozen=True, tag="v", array_like=True):
    value: KeyValue


class _Token(msgspec.Struct, frozen=True, array_like=True):
    generation: int
    digest: str
    key: tuple[_Time | _Value, ...]


class Position(msgspec.Struct, frozen=True):
    """Where a page begins: after this key, in this generation."""

    generation: int
    after: PageKey


class PageTokens:
    def __init__(self, secret: bytes) -> None:
        """`secret` is the same on all servers of a store."""
        self._secret = hashlib.sha256(b"arco page tokens\0" + secret).digest()

    def encode(self, position: Position, digest: str) -> str:
        key = tuple(
            _Time(value) if isinstance(value, datetime) else _Value(value)
            for value in position.after
        )
        body = msgspec.msgpack.encode(_Token(position.generation, digest, key))
        return base64.urlsafe_b64encode(self._mac(body) + body).rstrip(b"=").decode()

    def decode(self, text: str, digest: str) -> Position:
        """Raises an invalid field for a token that was not made here, or of another list."""
        token = self._verified(text)
        if token is None:
            raise invalid_field(
                "page_token", "is not a token of this server", hint="begin at the first page"
            )
        if token.digest != digest:
            raise invalid_field(
                "page_token",
                "belongs to another list, or to other filters",
                hint="repeat the filters of the first page, or begin again",
            )
        key = tuple(part.at if isinstance(part, _Time) else part.value for part in token.key)
        return Position(token.generation, key)

    def _verified(self, text: str) -> _Token | None:
        if len(text) > _MAX_CHARS:
            return None
        try:
            raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            return None
        mac, body = raw[:_MAC_BYTES], raw[_MAC_BYTES:]
        if not hmac.compare_digest(mac, self._mac(body)):
            return None
        try:
            return msgspec.msgpack.decode(body, type=_Token)
        except msgspec.DecodeError:
            return None

    def _mac(self, body: bytes) -> bytes:
        return hmac.new(self._secret, body, hashlib.sha256).digest()[:_MAC_BYTES]


def list_digest(operation: str, parameters: msgspec.Struct, visibility: str) -> str:
    """The same for the same list, filtered alike, for a caller who sees the same."""
    raw = msgspec.json.encode([operation, parameters, visibility], order="sorted")
    return hashlib.sha256(raw).hexdigest()[:16]
