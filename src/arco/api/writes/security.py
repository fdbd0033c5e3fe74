"""API keys and roles. Callers can only grant permissions that they have."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from arco.api.reads.security import ApiKeyBody, api_key_body, require_key
from arco.api.routes import Parameters, write
from arco.api.views import require_namespace
from arco.api.writes.automation_writes import ReasonBody
from arco.api.writes.run_writes import NoParameters, ReasonText
from arco.api.writing import WriteAnswer, Writing
from arco.security.permissions import Permission, Role
from arco.times import utc

NamespaceText = Annotated[str, Meta(min_length=1, max_length=128)]


class NewKeyBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(min_length=1, max_length=100)]
    role: Role
    namespaces: Annotated[tuple[NamespaceText, ...], Meta(max_length=1000)] = ()
    """Empty: the whole workspace."""
    scopes: Annotated[tuple[Permission, ...], Meta(max_length=100)] = ()
    """Narrow the key to these permissions; empty: all of its role."""
    expires_at: datetime | None = None
    kind: Literal["api_key", "service", "worker"] = "api_key"


class CreatedKeyBody(msgspec.Struct, frozen=True, kw_only=True):
    key: ApiKeyBody
    secret: str
    """The whole key. It is shown once."""


def create_api_key(
    writing: Writing, parameters: NoParameters, body: NewKeyBody
) -> WriteAnswer[CreatedKeyBody]:
    """Create an API key. Only this response contains it."""
    for namespace in body.namespaces:
        require_namespace(writing.visible, namespace)
    created = writing.commands.security.create_key(
        body.name,
        body.role,
        namespaces=body.namespaces,
        scopes=[str(each) for each in body.scopes],
        expires_at=None if body.expires_at is None else utc(body.expires_at),
        kind=body.kind,
    )
    answer = CreatedKeyBody(key=api_key_body(created.row), secret=str(created.text))
    return WriteAnswer(answer, created.generation, "/keys")


class KeyParameters(Parameters, frozen=True, kw_only=True):
    key_id: Annotated[str, Meta(min_length=1, max_length=64)]


def revoke_api_key(
    writing: Writing, parameters: KeyParameters, body: ReasonBody
) -> WriteAnswer[ApiKeyBody]:
    """Revoke an API key."""
    row = require_key(writing.view, writing.visible, parameters.key_id)
    done = writing.commands.security.revoke_key(row.key_id, reason=body.reason)
    after = require_key(writing.fresh(), writing.visible, row.key_id)
    return WriteAnswer(api_key_body(after), done.generation)


class RoleBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    subject: Annotated[str, Meta(min_length=1, max_length=500)]
    """`user:ana@example.org`, `subject:…`, `group:…` or `key:…`."""
    namespace: Annotated[str, Meta(max_length=128)] = ""
    """Empty: the whole workspace."""
    reason: ReasonText = ""


class GrantBody(RoleBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    role: Role


class RoleChangedBody(msgspec.Struct, frozen=True, kw_only=True):
    subject: str
    namespace: str
    role: Role | None
    replayed: bool


def grant_role(
    writing: Writing, parameters: NoParameters, body: GrantBody
) -> WriteAnswer[RoleChangedBody]:
    """Grant a role. It replaces the role that the subject has in the same place."""
    if body.namespace:
        require_namespace(writing.visible, body.namespace)
    outcome = writing.commands.security.grant(
        body.subject, body.role, namespace=body.namespace, reason=body.reason
    )
    answer = RoleChangedBody(
        subject=body.subject, namespace=body.namespace, role=body.role, replayed=outcome.replayed
    )
    return WriteAnswer(answer, outcome.generation)


def revoke_role(
    writing: Writing, parameters: NoParameters, body: RoleBody
) -> WriteAnswer[RoleChangedBody]:
    """Revoke a role."""
    if body.namespace:
        require_namespace(writing.visible, body.namespace)
    outcome = writing.commands.security.revoke(
        body.subject, namespace=body.namespace, reason=body.reason
    )
    answer = RoleChangedBody(
        subject=body.subject, namespace=body.namespace, role=None, replayed=outcome.replayed
    )
    return WriteAnswer(answer, outcome.generation)


_KEYS, _ROLES = Permission.KEYS_MANAGE, Permission.ROLES_MANAGE
ROUTES: tuple[Any, ...] = (
    write("POST", "/keys", _KEYS, create_api_key, status=201),
    write("POST", "/keys/{key_id}/revoke", _KEYS, revoke_api_key),
    write("POST", "/roles", _ROLES, grant_role),
    write("POST", "/roles/revoke", _ROLES, revoke_role),
)
