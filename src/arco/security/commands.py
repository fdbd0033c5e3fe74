"""Creating and revoking API keys, granting and revoking roles. Callers can only
grant permissions that they have."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from datetime import datetime

import msgspec

from arco.errors import Conflict, Denied, Invalid, Refused
from arco.security.api_keys import KeyText, new_key, secret_hash
from arco.security.bounds import check_gift
from arco.security.caller import Caller
from arco.security.directory import TENANT_WORKSPACE, narrowed_to
from arco.security.events import (
    ApiKeyCreated,
    ApiKeyRevoked,
    RoleGranted,
    RoleRevoked,
    SecurityCommand,
    SessionEnded,
)
from arco.security.permissions import Permission, Role
from arco.security.reader import SecurityReader
from arco.security.subjects import parse_subject
from arco.security.tables import ApiKeyRow, KeyKind
from arco.state.core import Core
from arco.state.tier1 import Acknowledged, Tier1
from servo.contract.keys import check_name
from servo.suggest import did_you_mean

MAX_NAME = 100
MAX_NAMESPACES = 1_000


class NewKey(msgspec.Struct, frozen=True):
    text: KeyText
    """Shown only once."""
    row: ApiKeyRow
    generation: int


class SecurityCommands:
    def __init__(
        self,
        core: Core,
        tier1: Tier1,
        caller: Caller,
        random_bytes: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        self._core = core
        self._tier1 = tier1
        self._caller = caller
        self._random_bytes = random_bytes

    def create_key(
        self,
        name: str,
        role: Role,
        *,
        namespaces: Sequence[str] = (),
        scopes: Sequence[str] = (),
        expires_at: datetime | None = None,
        kind: KeyKind = "api_key",
        idempotency_key: str = "",
    ) -> NewKey:
        """A new key. Raises Denied for one that may do more than its creator.

        A command that is repeated under its idempotency key is a Conflict: the secret of the key
        that the first one created is shown once.
        """
        self._check_namespaces(namespaces)
        for scope in scopes:
            parse_permission(scope)
        if not name.strip() or len(name) > MAX_NAME or not name.isprintable():
            raise Invalid(f"a key's name has 1 to {MAX_NAME} printable characters")
        if expires_at is not None and expires_at <= self._core.clock.now():
            raise Invalid("the key would have expired already", hint="give a time in the future")
        narrowed = narrowed_to(scopes)
        check_gift(self._caller, Permission.KEYS_MANAGE, role, namespaces or [""], narrowed)
        text = new_key(self._core.ids(), self._random_bytes)
        command = ApiKeyCreated(
            key_id=text.key_id,
            name=name.strip(),
            secret_hash=secret_hash(text.secret),
            role=role,
            kind=kind,
            namespaces=tuple(sorted(set(namespaces))),
            scopes=tuple(sorted(set(scopes))),
            expires_at=expires_at,
        )
        done = self._created(command, idempotency_key)
        row = SecurityReader(self._core.snapshot()).key(text.key_id)
        return NewKey(text, row, done.generation)

    def revoke_key(self, key: str, *, reason: str = "", idempotency_key: str = "") -> Acknowledged:
        """Revoke a key from the next generation on. It stays in lists."""
        row = SecurityReader(self._core.snapshot()).key(key)
        for namespace in row.namespaces or [""]:
            if not self._caller.may(Permission.KEYS_MANAGE, namespace or None):
                raise Denied("you may not revoke this key", hint="ask an owner")
        command = ApiKeyRevoked(key_id=row.key_id, reason=reason)
        return self._execute(command, idempotency_key)

    def grant(
        self,
        subject: str,
        role: Role,
        *,
        namespace: str = "",
        reason: str = "",
        idempotency_key: str = "",
    ) -> Acknowledged:
        """Give a role, in place of the one that the subject has there."""
        self._check_namespaces([namespace] if namespace else [])
        parsed = parse_subject(subject)
        check_gift(self._caller, Permission.ROLES_MANAGE, role, [namespace])
        self._check_present_role(parsed, namespace)
        command = RoleGranted(subject=parsed, role=role, namespace=namespace, reason=reason)
        return self._execute(command, idempotency_key)

    def revoke(
        self, subject: str, *, namespace: str = "", reason: str = "", idempotency_key: str = ""
    ) -> Acknowledged:
        parsed = parse_subject(subject)
        if not self._caller.may(Permission.ROLES_MANAGE, namespace or None):
            raise Denied("you may not revoke roles in this place", hint="ask an owner")
        self._check_present_role(parsed, namespace)
        command = RoleRevoked(subject=parsed, namespace=namespace, reason=reason)
        return self._execute(command, idempotency_key)

    def end_session(self, session_id: str, ends_at: datetime) -> Acknowledged:
        """Log out: from the next generation on, the session of the caller does not count."""
        command = SessionEnded(session_id=session_id, subject=self._caller.id, ends_at=ends_at)
        return self._execute(command, f"end-session:{session_id}")

    def _check_present_role(self, subject: str, namespace: str) -> None:
        """Callers cannot revoke a role that they could not grant."""
        row = SecurityReader(self._core.snapshot()).binding(subject, namespace)
        if row is not None:
            check_gift(self._caller, Permission.ROLES_MANAGE, row.role, [namespace])

    def _check_namespaces(self, namespaces: Sequence[str]) -> None:
        if namespaces and self._core.manifests.workspace == TENANT_WORKSPACE:
            raise Invalid(
                "a tenant-wide role cannot have a namespace",
                hint="give it in the workspace that has the namespace",
            )
        if len(namespaces) > MAX_NAMESPACES:
            raise Invalid(f"a key has at most {MAX_NAMESPACES} namespaces")
        for namespace in namespaces:
            check_name(namespace, "namespace")

    def _created(self, command: ApiKeyCreated, idempotency_key: str) -> Acknowledged:
        try:
            return self._execute(command, idempotency_key)
        except Refused:
            raise
        except Conflict as error:
            raise Conflict(
                f"a key was created under the idempotency key {idempotency_key!r} before",
                hint="its secret is not shown again: revoke it, and create another one",
            ) from error

    def _execute(
        self,
        command: SecurityCommand,
        idempotency_key: str,
    ) -> Acknowledged:
        return self._tier1.execute(
            command, idempotency_key=idempotency_key, actor=self._caller.actor
        )


def parse_permission(text: str) -> Permission:
    try:
        return Permission(text)
    except ValueError:
        names = [str(each) for each in Permission]
        raise Invalid(
            f"{text[:100]!r} is not a permission",
            hint=did_you_mean(text, names) or f"permissions: {', '.join(names)}",
        ) from None


def parse_role(text: str) -> Role:
    try:
        return Role(text)
    except ValueError:
        raise Invalid(f"{text[:100]!r} is not a role", hint=f"roles: {', '.join(Role)}") from None
