"""The keys for signing envelopes.

`ARCO_TASK_KEYS` if it is set: then access to the store is not enough to make a worker run
something. Otherwise a key of the workspace, created on first use and stored in it.
"""

from __future__ import annotations

import contextlib
import secrets

import msgspec

from arco.errors import AlreadyExists, Corrupt, NotFound, Unavailable
from arco.storage import paths
from arco.storage.port import Store
from arco.tasks import private
from arco.transport.task_envelope import ENV, EnvelopeKey, parse_keys


class _StoredKeys(msgspec.Struct, frozen=True):
    keys: str


def task_keys(store: Store) -> tuple[EnvelopeKey, ...]:
    """The keys to sign and to check with, the current one first."""
    configured = private.variable(ENV)
    return parse_keys(configured) if configured else parse_keys(_stored(store))


def _stored(store: Store) -> str:
    try:
        raw = store.get(paths.TASK_KEYS).data
    except NotFound:
        created = _StoredKeys(f"w1:{secrets.token_hex(32)}")
        # If the object exists now, by this or another process, its key counts.
        with contextlib.suppress(AlreadyExists, Unavailable):
            store.put(paths.TASK_KEYS, msgspec.json.encode(created))
        raw = store.get(paths.TASK_KEYS).data
    try:
        return msgspec.json.decode(raw, type=_StoredKeys).keys
    except msgspec.DecodeError as error:
        raise Corrupt(f"{paths.TASK_KEYS} cannot be read: {error}") from None
