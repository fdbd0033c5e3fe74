"""Keys, roles, refused calls, and the audit log of all that."""

from __future__ import annotations

from datetime import datetime

import msgspec

from arco.log.envelope import Origin
from arco.security.events import (
    AccessDenied,
    ApiKeyCreated,
    ApiKeyRevoked,
    ApiKeysUsed,
    KeyUse,
    RoleGranted,
    RoleRevoked,
    SecretRead,
    SessionEnded,
)
from arco.security.permissions import Role
from tests.golden.stories.recorded_log import Log


def guarded() -> Log:
    """Keys and roles, calls that were refused, and what the audit log keeps of all that."""
    log = Log()
    key = ApiKeyCreated(
        key_id="01ARZ3NDEKTSV4RRFFQ69G5FAV",
        name="ci",
        secret_hash="5e" * 32,
        role=Role.OPERATOR,
        kind="service",
        namespaces=("sales",),
        scopes=("assets.read", "runs.trigger"),
        expires_at=datetime(2026, 6, 1),
    )
    log.add(key, key)
    log.wait(60)
    log.add(ApiKeysUsed(uses=(KeyUse(key.key_id, datetime(2026, 1, 1, 0, 0, 30)),)))
    log.add(RoleGranted(subject="user:ann@example.com", role=Role.OWNER, reason="first"))
    log.add(RoleGranted(subject="group:sales", role=Role.EDITOR, namespace="sales"))
    log.add(RoleRevoked(subject="user:ann@example.com", reason="leaves"))
    log.add(RoleGranted(subject="group:x", role=Role.VIEWER, namespace="sales"))
    log.add(RoleRevoked(subject="group:x", namespace="sales"))
    log.wait(60)
    denied = AccessDenied(
        operation="get_asset",
        permission="assets.read",
        namespace="hr",
        resource_type="asset",
        resource="hr.people",
        code="not_visible",
        count=3,
    )
    origin = Origin(
        kind="user",
        caller_id="sub-7",
        email="bob@example.com",
        request_id="req-1",
        address="203.0.113.9",
        user_agent="curl/8",
    )
    recorded = log.record(denied, actor="user:bob@example.com")
    event = msgspec.structs.replace(recorded.event, origin=origin)
    log.log[-1] = msgspec.structs.replace(recorded, event=event)
    log.fold([log.log[-1]])
    log.add(ApiKeyRevoked(key_id=key.key_id, reason="lost"))
    return log


def logged_out() -> Log:
    """Two sessions that were ended; the row of the first goes when its time has come."""
    log = Log()
    first, second = datetime(2026, 1, 1, 12), datetime(2026, 1, 2, 12)
    log.add(SessionEnded(session_id="s-1", subject="sub-7", ends_at=first))
    log.wait(86_400)
    log.add(SessionEnded(session_id="s-2", subject="sub-7", ends_at=second))
    return log


def secrets_read() -> Log:
    """Secrets that were read for an attempt and a sensor, by people's and by other workers."""
    log = Log()
    read = SecretRead(
        reference="vault:secret/shop/db?version=3#password",
        provider="vault",
        name="db",
        worker_id="box",
        asset="sales.orders",
        partition="date=d:2026-01-01",
        run_id="run-1",
        task_id="task-1",
        attempt=2,
        attempt_id="attempt-1",
    )
    log.do(read, actor="ann")
    missing = msgspec.structs.replace(
        read, reference="env:DB", provider="env", code="secret.missing"
    )
    log.do(missing, actor="")
    log.do(
        SecretRead(
            reference="env:MAIL",
            provider="env",
            name="mail",
            worker_id="box",
            sensor_id="main/poll",
            count=118,
        )
    )
    return log
