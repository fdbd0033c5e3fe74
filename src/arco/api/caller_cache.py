"""A cache of verified callers, by a digest of their credentials.

An entry is valid only for the snapshots that it was verified against, because a revoked key or role
changes the snapshot. It also expires with the key or token, and after `MAX_AGE_S`, so that keys
that an issuer has withdrawn become invalid. The credentials themselves are not stored.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from arco.clock import Clock
from arco.security.caller import Caller
from arco.security.permissions import Permission
from arco.security.visibility import Visible
from arco.state.snapshot import Snapshot

KEPT: Final = 10_000
MAX_AGE_S: Final = 10.0

Snapshots = Sequence[Snapshot]
"""Of all workspaces whose keys and roles are checked."""


class CachedCaller:
    def __init__(self, caller: Caller, snapshots: Snapshots, checked_at: float) -> None:
        self.caller = caller
        self.name = f"{caller.kind}:{caller.id}"
        self.snapshots = snapshots
        self.checked_at = checked_at
        self._visible: dict[tuple[str, str, Permission], Visible] = {}

    def where(self, tenant: str, workspace: str, permission: Permission) -> Visible:
        """Where the caller may do this."""
        key = (tenant, workspace, permission)
        visible = self._visible.get(key)
        if visible is None:
            visible = self._visible[key] = self.caller.at(tenant, workspace).where(permission)
        return visible


class CallerCache:
    """Bounded. Used by the event loop alone."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._callers: OrderedDict[bytes, CachedCaller] = OrderedDict()

    def get(self, credentials: bytes, snapshots: Snapshots) -> CachedCaller | None:
        digest = hashlib.sha256(credentials).digest()
        entry = self._callers.get(digest)
        if entry is None:
            return None
        if self._holds(entry, snapshots):
            return entry
        del self._callers[digest]
        return None

    def _holds(self, entry: CachedCaller, snapshots: Snapshots) -> bool:
        if any(one is not other for one, other in zip(entry.snapshots, snapshots, strict=True)):
            return False
        if self._clock.monotonic() - entry.checked_at > MAX_AGE_S:
            return False
        until = entry.caller.until
        return until is None or self._clock.now() < until

    def put(self, credentials: bytes, caller: Caller, snapshots: Snapshots) -> CachedCaller:
        digest = hashlib.sha256(credentials).digest()
        entry = CachedCaller(caller, snapshots, self._clock.monotonic())
        self._callers[digest] = entry
        self._callers.move_to_end(digest)
        while len(self._callers) > KEPT:
            self._callers.popitem(last=False)
        return entry
