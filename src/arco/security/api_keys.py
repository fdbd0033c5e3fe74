"""API keys as text: `arco_`, the key's id, and a secret of 256 bits.

The text is shown once. The store has SHA-256 of the secret: 256 bits cannot be guessed, so a slow
hash would only add time to every request.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable
from datetime import datetime
from typing import Final

import msgspec

from arco.errors import Unauthenticated
from arco.security.tables import ApiKeyRow

PREFIX: Final = "arco_"
SECRET_BYTES: Final = 32

_TEXT = re.compile(r"arco_([0-9A-HJKMNP-TV-Z]{26})_([0-9a-f]{64})")


class KeyText(msgspec.Struct, frozen=True):
    key_id: str
    secret: str

    def __str__(self) -> str:
        return f"{PREFIX}{self.key_id}_{self.secret}"

    def __repr__(self) -> str:
        return f"KeyText({self.key_id}, ***)"


def new_key(key_id: str, random_bytes: Callable[[int], bytes]) -> KeyText:
    return KeyText(key_id, random_bytes(SECRET_BYTES).hex())


def parse_key(text: str) -> KeyText | None:
    """A key by its text; None for anything else."""
    match = _TEXT.fullmatch(text)
    return None if match is None else KeyText(match[1], match[2])


def secret_hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


_NOBODY: Final = secret_hash("")


def verify_key(key: KeyText, row: ApiKeyRow | None, now: datetime) -> ApiKeyRow:
    """The row of a valid key with the right secret. Raises Unauthenticated.

    Takes the same time whether or not there is such a key. Without the secret, a caller does not
    learn that the key was revoked or has expired.
    """
    stored = _NOBODY if row is None else row.secret_hash
    is_right = hmac.compare_digest(secret_hash(key.secret), stored)
    if row is None or not is_right:
        raise Unauthenticated("the API key is not valid", hint="see `servo auth keys list`")
    if row.revoked_at is not None:
        raise Unauthenticated(f"the API key {row.prefix}… was revoked", hint="create a new one")
    if row.expires_at is not None and row.expires_at <= now:
        raise Unauthenticated(f"the API key {row.prefix}… has expired", hint="create a new one")
    return row
