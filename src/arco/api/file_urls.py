"""Signed URLs of files: the store's own where it has them, and otherwise the server's."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import Final

from arco.clock import Clock
from arco.storage.port import Store
from arco.storage.signing import Signer, SigningKey
from arco.transport.task_keys import task_keys

LIFE: Final = timedelta(minutes=5)
"""Of a signed URL."""
CACHED_S: Final = 240
"""Maximum age of a redirect in the client's cache: less than the lifetime of the URL."""


def url_signer(tenant: str, workspace: str, store: Store, clock: Clock) -> Signer:
    """All servers of a store have the same keys; a URL of one workspace is of no other."""
    purpose = f"arco signed urls\0{tenant}/{workspace}\0".encode()
    keys = [
        SigningKey(key.id, hashlib.sha256(purpose + key.secret).digest())
        for key in task_keys(store)
    ]
    return Signer(f"/api/v1/workspaces/{tenant}/{workspace}", keys, clock)
