"""The tables of security: API keys, role bindings, sessions that were ended, and the audit log with
its head."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal

from arco.security.permissions import Role
from arco.state.table import History, Row, Table

KeyKind = Literal["api_key", "service", "worker"]
KEPT_HOT = timedelta(days=7)
CHAIN = "workspace"
"""The key of the one head."""
SESSIONS = "workspace"


class ApiKeyRow(Row, frozen=True):
    key_id: str
    name: str
    kind: str
    role: Role
    namespaces: list[str]
    scopes: list[str]
    secret_hash: str
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    revoked_at: datetime | None = None
    revoked_by: str = ""
    revoke_reason: str = ""
    last_used_at: datetime | None = None
    """Never too late, and up to an hour too early: not every use is recorded."""

    @property
    def prefix(self) -> str:
        """How a key begins: what it is recognised by."""
        return f"arco_{self.key_id}_"


class RoleBindingRow(Row, frozen=True):
    namespace: str
    """Empty: the workspace."""
    subject: str
    """`user:` and an email address, `subject:` and an OIDC subject, `group:` or `key:`."""
    role: Role
    granted_at: datetime
    granted_by: str
    reason: str


class EndedSessionRow(Row, frozen=True):
    """A session that was ended before its expiry. The row is deleted at its expiry."""

    scope: str
    """One value: all rows are looked at together."""
    session_id: str
    subject: str
    ended_at: datetime
    ended_by: str
    ends_at: datetime


AuditOutcome = Literal["", "applied", "refused", "denied", "failed"]
"""Empty if the fold failed on the command. Of a read of a secret: applied or failed."""


class AuditRow(Row, frozen=True):
    """One command, one refusal or one read of a secret.

    `arco.security.audit` says what the hashes are made of.
    """

    record_id: str
    """The position as text of 20 digits: records sort by it."""
    position: int
    recorded_at: datetime
    event_id: str
    action: str
    command: str
    """The type of the event."""
    outcome: AuditOutcome
    code: str
    actor: str
    actor_kind: str
    actor_id: str
    email: str
    namespace: str
    """Of the resource; empty for what belongs to the workspace."""
    resource_type: str
    resource_id: str
    resource_name: str
    request_id: str
    address: str
    user_agent: str
    idempotency_key: str
    request: str
    """The command's fields, as JSON; large values are replaced by their digest."""
    changes: str
    """Rows before and after, as JSON."""
    prev_hash: str
    hash: str
    seal: str
    """Over the whole row."""


class AuditHeadRow(Row, frozen=True):
    chain: str
    position: int
    hash: str
    records: int
    first_position: int
    """Of the first record. Commands before it were recorded by a program without audit."""


API_KEYS = Table("security", "api_keys", ApiKeyRow, key=["key_id"])
ROLE_BINDINGS = Table("security", "role_bindings", RoleBindingRow, key=["namespace", "subject"])
ENDED_SESSIONS = Table("security", "ended_sessions", EndedSessionRow, key=["scope", "session_id"])
AUDIT = Table(
    "security",
    "audit",
    AuditRow,
    key=["record_id"],
    history=History("recorded_at", KEPT_HOT),
)
"""A new record sorts after all others, so no file is read to check that it is new."""
AUDIT_HEAD = Table("security", "audit_head", AuditHeadRow, key=["chain"])
