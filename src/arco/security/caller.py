"""The caller of one request: an identity that was verified, and what it was granted.

Authentication creates a `Caller`, once for each request; everything after that uses it. A caller is
*at* a workspace: `may` counts only the grants that hold there, and a caller that is at none may do
nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Literal

import msgspec

from arco.errors import Invalid
from arco.log.envelope import Origin
from arco.security.permissions import Permission, Role, permissions_of
from arco.security.visibility import EVERYTHING, NOTHING, Visible

MAX_USER_AGENT = 200
CallerKind = Literal["user", "api_key", "service", "worker", "local"]


class Scope(msgspec.Struct, frozen=True, order=True):
    """Where a grant holds: a tenant, one of its workspaces, or a namespace of a workspace."""

    tenant: str
    workspace: str = ""
    """Empty: all workspaces of the tenant."""
    namespace: str = ""
    """Empty: all namespaces of the workspace."""

    def __post_init__(self) -> None:
        if not self.tenant or (self.namespace and not self.workspace):
            raise Invalid(
                f"{self.tenant!r}, {self.workspace!r}, {self.namespace!r} is not a scope",
                hint="give a tenant, a tenant and a workspace, or all three",
            )

    def within(self, tenant: str, workspace: str) -> bool:
        """Whether a grant here concerns that workspace."""
        return self.tenant == tenant and self.workspace in ("", workspace)

    def contains(self, other: Scope) -> bool:
        """Whether a grant here is valid everywhere that a grant there is."""
        return (
            self.tenant == other.tenant
            and self.workspace in ("", other.workspace)
            and self.namespace in ("", other.namespace)
        )

    def __str__(self) -> str:
        return "/".join(part for part in (self.tenant, self.workspace, self.namespace) if part)


class Grant(msgspec.Struct, frozen=True, order=True):
    role: Role
    scope: Scope


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    kind: CallerKind
    id: str
    """Of a user the subject at the issuer, of a key its id."""
    name: str = ""
    email: str = ""
    grants: tuple[Grant, ...] = ()
    scopes: frozenset[Permission] | None = None
    """What a key is narrowed to. None: all that its roles may do."""
    until: datetime | None = None
    """When its key or token expires. None: never."""
    request_id: str = ""
    address: str = ""
    user_agent: str = ""
    tenant: str = ""
    workspace: str = ""

    def at(self, tenant: str, workspace: str) -> Caller:
        """The same caller, asking about one workspace."""
        return msgspec.structs.replace(self, tenant=tenant, workspace=workspace)

    @property
    def actor(self) -> str:
        """The name of the caller in the log."""
        if self.kind == "local":
            return self.name or self.id
        return f"{self.kind}:{self.email or self.id}"

    @property
    def origin(self) -> Origin | None:
        """The origin of events that the caller causes; None for local ones."""
        if self.kind == "local" and not self.request_id:
            return None
        return Origin(
            kind=self.kind,
            caller_id=self.id,
            email=self.email,
            request_id=self.request_id,
            address=self.address,
            user_agent=self.user_agent[:MAX_USER_AGENT],
        )

    def may(self, permission: Permission, namespace: str | None = None) -> bool:
        """Whether the caller may do this in a namespace; None: in the whole workspace."""
        return any(
            (not grant.scope.namespace or grant.scope.namespace == namespace)
            for grant in self._giving(permission)
        )

    def where(self, permission: Permission) -> Visible:
        """The namespaces of the workspace in which the caller may do this."""
        return _namespaces(self._giving(permission))

    def visible(self, tenant: str, workspace: str) -> Visible:
        """The namespaces of a workspace in which the caller may do anything at all."""
        if self.scopes is not None and not self.scopes:
            return NOTHING
        holding = [grant for grant in self.grants if grant.scope.within(tenant, workspace)]
        return _namespaces(grant for grant in holding if self._effective(grant))

    def permissions(self, namespace: str | None = None) -> frozenset[Permission]:
        """All that the caller may do in a namespace; None: in the whole workspace."""
        return frozenset(each for each in Permission if self.may(each, namespace))

    def _giving(self, permission: Permission) -> list[Grant]:
        if self.scopes is not None and permission not in self.scopes:
            return []
        return [
            grant
            for grant in self.grants
            if permission in permissions_of(grant.role, grant.scope.namespace)
            and grant.scope.within(self.tenant, self.workspace)
        ]

    def _effective(self, grant: Grant) -> frozenset[Permission]:
        allowed = permissions_of(grant.role, grant.scope.namespace)
        return allowed if self.scopes is None else allowed & self.scopes


def _namespaces(grants: Iterable[Grant]) -> Visible:
    seen: set[str] = set()
    for grant in grants:
        if not grant.scope.namespace:
            return EVERYTHING
        seen.add(grant.scope.namespace)
    return Visible(frozenset(seen))


def local_caller(name: str, tenant: str, workspace: str) -> Caller:
    """The user of the store's credentials, with all permissions; the log has the name."""
    owner = Grant(Role.OWNER, Scope(tenant, workspace))
    return Caller(
        kind="local", id=name, name=name, grants=(owner,), tenant=tenant, workspace=workspace
    )
