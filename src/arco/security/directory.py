"""Keys, role bindings and ended sessions of one workspace, looked up by id and by subject.

One index for each state of the tables. All are small: the cost of a request does not depend on
their number, and a generation without changes costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from arco.security.caller import Caller, Grant, Scope
from arco.security.permissions import Permission
from arco.security.tables import (
    API_KEYS,
    ENDED_SESSIONS,
    ROLE_BINDINGS,
    ApiKeyRow,
    KeyKind,
    RoleBindingRow,
)
from arco.state.snapshot import Snapshot

TENANT_WORKSPACE = "tenant-security"
"""The workspace of a tenant whose keys and roles hold in all of its workspaces."""

_State = tuple[tuple[str, tuple[int, int]], ...]


class Directory(msgspec.Struct, frozen=True):
    keys: Mapping[str, ApiKeyRow]
    bindings: Mapping[str, tuple[RoleBindingRow, ...]]
    """By subject."""
    ended_sessions: frozenset[str] = frozenset()
    state: _State = ()
    """The files that this was read from."""

    @classmethod
    def read(cls, snapshot: Snapshot, before: Directory | None = None) -> Directory:
        """The directory of a generation; `before` itself if nothing has changed since it."""
        state = _state(snapshot)
        if before is not None and before.state == state:
            return before
        bindings: dict[str, tuple[RoleBindingRow, ...]] = {}
        for row in snapshot.all(ROLE_BINDINGS):
            bindings[row.subject] = (*bindings.get(row.subject, ()), row)
        keys = {row.key_id: row for row in snapshot.all(API_KEYS)}
        ended = frozenset(row.session_id for row in snapshot.all(ENDED_SESSIONS))
        return cls(keys, bindings, ended, state)

    def grants(self, subjects: Iterable[str], tenant: str, workspace: str) -> tuple[Grant, ...]:
        """What the bindings of this workspace give to any of these subjects."""
        rows = [row for subject in subjects for row in self.bindings.get(subject, ())]
        return tuple(Grant(row.role, scope_of(tenant, workspace, row.namespace)) for row in rows)

    def key_caller(self, row: ApiKeyRow, tenant: str, workspace: str) -> Caller:
        """The caller that a key of this workspace is."""
        own = [
            Grant(row.role, scope_of(tenant, workspace, namespace))
            for namespace in row.namespaces or [""]
        ]
        bound = self.grants([f"key:{row.key_id}"], tenant, workspace)
        return Caller(
            kind=_KINDS.get(row.kind, "api_key"),
            id=row.key_id,
            name=row.name,
            grants=(*own, *bound),
            scopes=narrowed_to(row.scopes),
            until=row.expires_at,
        )


_KINDS: Mapping[str, KeyKind] = {"api_key": "api_key", "service": "service", "worker": "worker"}


def scope_of(tenant: str, workspace: str, namespace: str) -> Scope:
    """Where a role holds that is stored in a workspace's log."""
    if workspace == TENANT_WORKSPACE:
        return Scope(tenant)
    return Scope(tenant, workspace, namespace)


def narrowed_to(scopes: Iterable[str]) -> frozenset[Permission] | None:
    """The permissions that a key is narrowed to; those of a later program give nothing here."""
    names = set(scopes)
    return frozenset(each for each in Permission if each in names) if names else None


def _state(snapshot: Snapshot) -> _State:
    return tuple(
        (ref.path, ref.versions)
        for table in (API_KEYS, ROLE_BINDINGS, ENDED_SESSIONS)
        for ref in snapshot.manifest(table).files()
    )
