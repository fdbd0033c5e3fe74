"""What can happen to keys and roles, what the API says of calls that it refused, and which secrets
workers have read.

| category | events | who |
|---|---|---|
| commands | ApiKeyCreated, ApiKeyRevoked, RoleGranted, RoleRevoked, SessionEnded | people |
| facts | ApiKeysUsed, AccessDenied | API servers |
| facts | SecretRead | workers |
| derived | KeyUsed, RowsChanged | the report of uses; every stage that folds a command |
"""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from msgspec import Struct

from arco.log.envelope import Payload
from arco.security.permissions import Role
from arco.security.tables import KeyKind


class SecurityCommand(Payload, frozen=True, kw_only=True):
    COMMAND: ClassVar[bool] = True


class ApiKeyCreated(SecurityCommand, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "security.api_key_created"
    key_id: str
    name: str
    secret_hash: str
    """SHA-256 of the secret, in hex. The secret itself is in no event and no row."""
    role: Role
    kind: KeyKind = "api_key"
    namespaces: tuple[str, ...] = ()
    """Empty: all of the workspace."""
    scopes: tuple[str, ...] = ()
    """The permissions that the key is narrowed to. Empty: all of its role."""
    expires_at: datetime | None = None


class ApiKeyRevoked(SecurityCommand, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "security.api_key_revoked"
    key_id: str
    reason: str = ""


class RoleGranted(SecurityCommand, frozen=True, kw_only=True):
    """A subject has this role in a namespace, or in the workspace, and no other role there."""

    TYPE: ClassVar[str] = "security.role_granted"
    subject: str
    role: Role
    namespace: str = ""
    reason: str = ""


class RoleRevoked(SecurityCommand, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "security.role_revoked"
    subject: str
    namespace: str = ""
    reason: str = ""


class SessionEnded(SecurityCommand, frozen=True, kw_only=True):
    """Somebody has logged out: what was sealed for this session does not count any more."""

    TYPE: ClassVar[str] = "security.session_ended"
    session_id: str
    subject: str
    ends_at: datetime
    """When it would have ended by itself."""


class KeyUse(Struct, frozen=True):
    key_id: str
    used_at: datetime


class ApiKeysUsed(Payload, frozen=True, kw_only=True):
    """When keys were last used, as one API server saw it; seldom, and for many keys at once."""

    TYPE: ClassVar[str] = "security.api_keys_used"
    uses: tuple[KeyUse, ...]


class KeyUsed(Payload, frozen=True, kw_only=True):
    """Derived: one key of such a report."""

    TYPE: ClassVar[str] = "security.key_used"
    use: KeyUse


class AccessDenied(Payload, frozen=True, kw_only=True):
    """The API has refused calls of one caller for one thing."""

    TYPE: ClassVar[str] = "security.access_denied"
    operation: str
    permission: str = ""
    namespace: str = ""
    resource_type: str = ""
    resource: str = ""
    """As the caller named it."""
    code: str = ""
    count: int = 1
    """How many calls there were since the last such fact."""


class SecretRead(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """A worker has resolved a secret for an attempt or a sensor, or could not. It has no value."""

    TYPE: ClassVar[str] = "security.secret_read"
    reference: str
    provider: str
    name: str
    """What the code calls it."""
    worker_id: str
    asset: str = ""
    partition: str = ""
    run_id: str = ""
    task_id: str = ""
    attempt: int = 0
    attempt_id: str = ""
    sensor_id: str = ""
    code: str = ""
    """Why it could not be resolved: `secret.missing`, …."""
    count: int = 1
    """For a sensor: how often, since the last such fact of this worker."""


class RowsChanged(Payload, frozen=True, kw_only=True):
    """Derived: rows that a stage changed on a command, before and after."""

    TYPE: ClassVar[str] = "security.rows_changed"
    changes: str
    """As JSON."""


COMMANDS: tuple[type[SecurityCommand], ...] = (
    ApiKeyCreated,
    ApiKeyRevoked,
    RoleGranted,
    RoleRevoked,
    SessionEnded,
)
AUDITED_FACTS: tuple[type[Payload], ...] = (AccessDenied, SecretRead)
"""What the audit log records besides commands."""
EVENTS: tuple[type[Payload], ...] = (*COMMANDS, ApiKeysUsed, *AUDITED_FACTS)
