"""The records of the audit log, and their hash chain.

    hash(n) = SHA-256(hash(n-1) || canonical JSON(what the log says of record n))
    seal(n) = SHA-256(hash(n) || canonical JSON(the whole row n))

The hash is made of what the log holds: position, time, event, actor, origin, request, and the
outcome with its code. All of that stays the same when a later program folds the log anew, so a head
that was noted outside can be compared for ever. What this program derives (the name of the action,
the resource, rows before and after) may have more detail in a later program; the seal covers it, so
that a row that was changed by hand is detected.

There is one chain for each workspace, not for each tenant: a workspace's log is the one place
in which there is an order, given by its commits. A chain over several workspaces would have to
be written by several writers, and could fork.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from typing import Any, Final

import msgspec

from arco.log.envelope import Origin, Payload
from arco.security.actions import Resource, described
from arco.security.events import AccessDenied, SecretRead
from arco.security.tables import AuditOutcome, AuditRow

GENESIS: Final = ""
"""The hash before the first record."""
MAX_VALUE_BYTES: Final = 1_024
MAX_ENTRIES: Final = 50
MAX_REQUEST_BYTES: Final = 16 << 10
MAX_DEPTH: Final = 8
SECRET: Final = frozenset({"secret_hash"})
"""Fields that no record shows in any form."""
DIGESTED: Final = frozenset({"payload"})
"""Fields with data of users, of which records have only the digest."""

replace = msgspec.structs.replace
_encoder = msgspec.json.Encoder(order="sorted")


def record_id(position: int) -> str:
    return f"{position:020d}"


def record(
    payload: Payload,
    *,
    position: int,
    recorded_at: datetime,
    event_id: str,
    actor: str,
    origin: Origin | None,
    idempotency_key: str,
    prev_hash: str,
) -> AuditRow:
    """The record of a command that nothing has been decided about yet, or of a fact."""
    code = ""
    outcome: AuditOutcome = ""
    match payload:
        case AccessDenied():
            action, outcome, code = "AccessDenied", "denied", payload.code
            resource = Resource(payload.resource_type, "", payload.resource, payload.namespace)
        case SecretRead():
            action, outcome, code = "ReadSecret", _read(payload), payload.code
            reader, namespace = payload.asset or payload.sensor_id, payload.asset.partition(".")[0]
            resource = Resource("secret", payload.reference, reader, namespace)
            actor = actor or f"worker:{payload.worker_id}"
            origin = origin or Origin(kind="worker", caller_id=payload.worker_id)
        case _:
            action, resource = described(payload)
    origin = origin or Origin()
    return chained(
        AuditRow(
            record_id=record_id(position),
            position=position,
            recorded_at=recorded_at,
            event_id=event_id,
            action=action,
            command=payload.TYPE,
            outcome=outcome,
            code=code,
            actor=actor,
            actor_kind=origin.kind or "local",
            actor_id=origin.caller_id or actor,
            email=origin.email,
            namespace=resource.namespace,
            resource_type=resource.type,
            resource_id=resource.id,
            resource_name=resource.name,
            request_id=origin.request_id,
            address=origin.address,
            user_agent=origin.user_agent,
            idempotency_key=idempotency_key,
            request=request_text(payload),
            changes="[]",
            prev_hash=prev_hash,
            hash="",
            seal="",
        )
    )


def _read(secret: SecretRead) -> AuditOutcome:
    return "failed" if secret.code else "applied"


def chained(row: AuditRow) -> AuditRow:
    """The row with the hash and the seal that its other fields demand."""
    return sealed(replace(row, hash=hash_of(row)))


def sealed(row: AuditRow) -> AuditRow:
    return replace(row, seal=seal_of(row))


_HASHED: Final = (
    "position",
    "event_id",
    "command",
    "outcome",
    "code",
    "actor",
    "actor_kind",
    "actor_id",
    "email",
    "request_id",
    "address",
    "user_agent",
    "idempotency_key",
    "request",
)


def hash_of(row: AuditRow) -> str:
    event: dict[str, object] = {name: getattr(row, name) for name in _HASHED}
    event["recorded_at"] = row.recorded_at.isoformat()
    return hashlib.sha256(row.prev_hash.encode() + _canonical(event)).hexdigest()


def seal_of(row: AuditRow) -> str:
    values: dict[str, object] = msgspec.structs.asdict(row)
    values["recorded_at"] = row.recorded_at.isoformat()
    del values["seal"]
    return hashlib.sha256(row.hash.encode() + _canonical(values)).hexdigest()


_canonical = _encoder.encode
"""Of a flat object of texts and whole numbers, canonical JSON (`servo.contract.canonical`)."""


# -- values -------------------------------------------------------------------------------


def request_text(payload: Payload) -> str:
    """The fields of a command that differ from their defaults, as bounded JSON."""
    return bounded_text(given(payload))


def given(struct: msgspec.Struct) -> dict[str, Any]:
    """The fields of a struct that are neither unset nor the default.

    So a field that a later program adds does not change the record of an old event.
    """
    return _given(struct, 0)


def bounded_text(value: Mapping[str, Any]) -> str:
    text = _encoder.encode(value)
    if len(text) <= MAX_REQUEST_BYTES:
        return text.decode()
    short = {name: item for name, item in value.items() if isinstance(item, (str, int, bool))}
    digest = {"sha256": hashlib.sha256(text).hexdigest(), "bytes": len(text)}
    shortened = _encoder.encode({**short, "_omitted": digest})
    whole = shortened if len(shortened) <= MAX_REQUEST_BYTES else _encoder.encode(digest)
    return whole.decode()


def _given(struct: msgspec.Struct, depth: int) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, default in _defaults(type(struct)):
        value = getattr(struct, name)
        if value is msgspec.UNSET or (default is not _REQUIRED and value == default):
            continue
        if name in SECRET:
            continue
        fields[name] = _digest(value) if name in DIGESTED else _plain(value, depth + 1)
    return fields


_REQUIRED: Final = object()


@functools.cache
def _defaults(cls: type[msgspec.Struct]) -> tuple[tuple[str, Any], ...]:
    defaults = []
    for field in msgspec.structs.fields(cls):
        default: Any = _REQUIRED
        if field.default is not msgspec.NODEFAULT:
            default = field.default
        elif field.default_factory is not msgspec.NODEFAULT:
            default = field.default_factory()
        defaults.append((field.name, default))
    return tuple(defaults)


def _plain(value: Any, depth: int) -> Any:
    """A value as JSON without numbers that have several spellings, and within bounds."""
    if depth > MAX_DEPTH:
        return _digest(value)
    match value:
        case None | bool():
            return value
        case Enum():
            return _plain(value.value, depth)
        case int():
            return value if -(1 << 53) <= value <= 1 << 53 else str(value)
        case float():
            return repr(value)
        case datetime():
            return value.isoformat()
        case str():
            return value if len(value) <= MAX_VALUE_BYTES else _digest(value)
        case bytes():
            return _digest(value)
        case msgspec.Struct():
            return _given(value, depth)
        case dict():
            return _entries(value, depth)
        case list() | tuple() | set() | frozenset():
            items = sorted(value, key=str) if isinstance(value, (set, frozenset)) else list(value)
            plain_items = [_plain(item, depth + 1) for item in items[:MAX_ENTRIES]]
            return (
                plain_items
                if len(items) <= MAX_ENTRIES
                else [*plain_items, _digest(items[MAX_ENTRIES:])]
            )
    return _digest(str(value))


def _entries(values: Mapping[Any, Any], depth: int) -> dict[str, Any]:
    names = sorted(values, key=str)
    plain = {str(name): _plain(values[name], depth + 1) for name in names[:MAX_ENTRIES]}
    if len(names) > MAX_ENTRIES:
        plain["_omitted"] = len(names) - MAX_ENTRIES
    return plain


def _digest(value: Any) -> dict[str, Any]:
    """The digest of a value that is large, or must not be shown."""
    data = value.encode() if isinstance(value, str) else _encoder.encode(value)
    return {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
