"""Idempotency keys of callers, as the log has them."""

from __future__ import annotations

import hashlib

from arco.security.caller import Caller


def stored_key(caller: Caller, key: str) -> str:
    """A client's idempotency key for the log; keys of different callers never collide."""
    if not key:
        return ""
    digest = hashlib.sha256(f"{caller.kind}\0{caller.id}\0{key}".encode("utf-8", "replace"))
    return f"api:{digest.hexdigest()[:40]}"


_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def id_of_key(key: str) -> str:
    """An id derived from an idempotency key: a repeated request has the same id."""
    number = int.from_bytes(hashlib.sha256(key.encode()).digest()[:16]) & ((1 << 128) - 1)
    return "".join(_CROCKFORD[(number >> shift) & 31] for shift in range(125, -1, -5))
