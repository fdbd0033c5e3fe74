"""Objects that contain their own checksum, and reads that are repeated when a checksum fails.

Most objects are referred to with a checksum. Those that nothing refers to (batches in
the inbox, root manifests, pins, leases, commit markers) are *sealed*: JSON objects whose
last member, `sha256`, is the checksum of the object without it. They stay plain JSON.

A connection can cut, change or swap the bytes of a good object. So bytes that fail their check are
read once more. An object counts as damaged only after two equal reads; if two reads differ, the
reader should try again later. An error page instead of a listing may look like an empty one: where
an empty listing decides something, `listed_surely` lists twice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TypeVar

from arco.errors import Corrupt, Unavailable
from arco.storage.port import Object, ObjectMeta, Store

T = TypeVar("T")

_MEMBER = b',"sha256":"'
_TAIL = len(_MEMBER) + 64 + 2


def seal(raw: bytes) -> bytes:
    """A JSON object with its checksum as the last member."""
    return b"".join((raw[:-1], _MEMBER, _digest(raw), b'"}'))


def unseal(raw: bytes, path: str) -> bytes:
    """The JSON object without its checksum. Raises Corrupt if the two do not agree."""
    body, tail = raw[:-_TAIL] + b"}", raw[-_TAIL:]
    if not tail.startswith(_MEMBER) or not tail.endswith(b'"}'):
        raise Corrupt(
            f"{path} ({len(raw)} bytes) does not end with a checksum",
            hint="it was truncated, or written by another program",
        )
    if tail[len(_MEMBER) : -2] != _digest(body):
        raise Corrupt(f"{path} does not match its own checksum")
    return body


def read_checked(store: Store, path: str, parse: Callable[[bytes], T]) -> T:
    """`parse` of an object's bytes; read again, once, if that raises Corrupt."""
    return reread(store, store.get(path), parse)


def reread(store: Store, first: Object, parse: Callable[[bytes], T]) -> T:
    """`parse` of what was read; read again, once, if that raises Corrupt.

    Raises Corrupt if both reads gave the same bytes, Unavailable if they differ.
    """
    try:
        return parse(first.data)
    except Corrupt:
        path = first.meta.path
        second = store.get(path).data
        try:
            return parse(second)
        except Corrupt:
            if second == first.data:
                raise
        raise Unavailable(
            f"two reads of {path} gave different bytes, both damaged",
            hint="the connection to the store is unreliable; try again",
        ) from None


def listed_surely(store: Store, prefix: str, start_after: str | None = None) -> list[ObjectMeta]:
    """A listing; an empty one is repeated."""
    return list(store.list(prefix, start_after)) or list(store.list(prefix, start_after))


def _digest(raw: bytes) -> bytes:
    return hashlib.sha256(raw).hexdigest().encode()
