"""The fold of keys and roles.

api_key_uses    takes a report of many keys apart
api_keys        one key for each API key
role_bindings   one key for each namespace, and one for the workspace: its last owner stays
ended_sessions  one key: sessions that were ended before their time, until that has come
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from arco.security.events import (
    ApiKeyCreated,
    ApiKeyRevoked,
    ApiKeysUsed,
    KeyUsed,
    RoleGranted,
    RoleRevoked,
    SessionEnded,
)
from arco.security.permissions import Role
from arco.security.tables import (
    API_KEYS,
    ENDED_SESSIONS,
    ROLE_BINDINGS,
    SESSIONS,
    ApiKeyRow,
    EndedSessionRow,
    RoleBindingRow,
)
from arco.state.fold import Change, Delete, Emit, Fact, On, Put, Rows, Stage, always, by
from arco.state.system import applied, refused

replace = msgspec.structs.replace


def _create(rows: Rows, fact: Fact, e: ApiKeyCreated) -> Iterator[Change]:
    if rows.get(API_KEYS, e.key_id) is not None:
        yield refused(fact, "key_exists", f"there is an API key {e.key_id} already")
        return
    row = ApiKeyRow(
        key_id=e.key_id,
        name=e.name,
        kind=e.kind,
        role=e.role,
        namespaces=list(e.namespaces),
        scopes=list(e.scopes),
        secret_hash=e.secret_hash,
        created_at=fact.received_at,
        created_by=fact.actor,
        expires_at=e.expires_at,
    )
    yield Put(API_KEYS, row)
    yield applied(fact)


def _revoke(rows: Rows, fact: Fact, e: ApiKeyRevoked) -> Iterator[Change]:
    row = rows.get(API_KEYS, e.key_id)
    if row is None:
        yield refused(fact, "key_unknown", f"there is no API key {e.key_id}")
        return
    if row.revoked_at is None:
        yield Put(
            API_KEYS,
            replace(
                row,
                revoked_at=fact.received_at,
                revoked_by=fact.actor,
                revoke_reason=e.reason,
            ),
        )
    yield applied(fact)


def _use(rows: Rows, fact: Fact, e: KeyUsed) -> Iterator[Change]:
    row = rows.get(API_KEYS, e.use.key_id)
    # A server's clock may be wrong: nothing was used later than the log has it.
    used_at = min(e.use.used_at, fact.received_at)
    if row is not None and (row.last_used_at is None or row.last_used_at < used_at):
        yield Put(API_KEYS, replace(row, last_used_at=used_at))


def _grant(rows: Rows, fact: Fact, e: RoleGranted) -> Iterator[Change]:
    if _is_last_owner(rows, e.namespace, e.subject) and e.role is not Role.OWNER:
        yield _last_owner(fact, e.subject)
        return
    yield Put(
        ROLE_BINDINGS,
        RoleBindingRow(e.namespace, e.subject, e.role, fact.received_at, fact.actor, e.reason),
    )
    yield applied(fact)


def _withdraw(rows: Rows, fact: Fact, e: RoleRevoked) -> Iterator[Change]:
    if rows.get(ROLE_BINDINGS, e.namespace, e.subject) is None:
        where = f"namespace {e.namespace}" if e.namespace else "the workspace"
        yield refused(fact, "role_not_granted", f"{e.subject} has no role in {where}")
        return
    if _is_last_owner(rows, e.namespace, e.subject):
        yield _last_owner(fact, e.subject)
        return
    yield Delete(ROLE_BINDINGS, (e.namespace, e.subject))
    yield applied(fact)


def _is_last_owner(rows: Rows, namespace: str, subject: str) -> bool:
    """Whether a workspace that has owners would have none without this one."""
    if namespace:
        return False
    owners = {row.subject for row in rows.scan(ROLE_BINDINGS, "") if row.role is Role.OWNER}
    return owners == {subject}


def _last_owner(fact: Fact, subject: str) -> Emit:
    return refused(fact, "last_owner", f"{subject} is the last owner: make somebody else owner too")


def _end_session(rows: Rows, fact: Fact, e: SessionEnded) -> Iterator[Change]:
    for row in rows.scan(ENDED_SESSIONS, SESSIONS):
        if row.ends_at <= fact.received_at:
            yield Delete(ENDED_SESSIONS, (SESSIONS, row.session_id))
    if e.ends_at > fact.received_at:
        row = EndedSessionRow(
            SESSIONS, e.session_id, e.subject, fact.received_at, fact.actor, e.ends_at
        )
        yield Put(ENDED_SESSIONS, row)
    yield applied(fact)


def _uses(rows: Rows, fact: Fact, e: ApiKeysUsed) -> Iterator[Change]:
    for use in e.uses:
        yield Emit(KeyUsed(use=use))


USES_STAGE = Stage("api_key_uses", (), (On(ApiKeysUsed, always(""), _uses),))
KEYS_STAGE = Stage(
    "api_keys",
    (API_KEYS,),
    (
        On(ApiKeyCreated, by("key_id"), _create),
        On(ApiKeyRevoked, by("key_id"), _revoke),
        On(KeyUsed, by("use.key_id"), _use),
    ),
)
ROLES_STAGE = Stage(
    "role_bindings",
    (ROLE_BINDINGS,),
    (
        On(RoleGranted, by("namespace"), _grant),
        On(RoleRevoked, by("namespace"), _withdraw),
    ),
)
SESSIONS_STAGE = Stage(
    "ended_sessions", (ENDED_SESSIONS,), (On(SessionEnded, always(SESSIONS), _end_session),)
)
STAGES = (USES_STAGE, KEYS_STAGE, ROLES_STAGE, SESSIONS_STAGE)
