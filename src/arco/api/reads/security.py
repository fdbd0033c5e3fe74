"""API keys, roles and the audit log. Hashes of secrets are never in an answer."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from arco.api.long_reads import LongRead
from arco.api.page_tokens import PageKey
from arco.api.reads.operations import require_everything
from arco.api.reads.run_reads import Time
from arco.api.routes import AtParameters, PageParameters, PageWindow, listing, read
from arco.api.views import View
from arco.errors import NotFound
from arco.security.audit import record_id
from arco.security.audit_verify import Anchor, AuditReport, verify_audit
from arco.security.permissions import Permission, Role
from arco.security.reader import AuditFilter, SecurityReader
from arco.security.tables import AUDIT, ApiKeyRow, AuditRow, RoleBindingRow
from arco.security.visibility import Visible
from arco.times import parse_time


class ApiKeyBody(msgspec.Struct, frozen=True, kw_only=True):
    key_id: str
    prefix: str
    """How the key begins: what it is recognised by."""
    name: str
    kind: str
    role: Role
    namespaces: list[str]
    scopes: list[str]
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    revoked_at: datetime | None
    revoked_by: str
    revoke_reason: str
    last_used_at: datetime | None


def api_key_body(row: ApiKeyRow) -> ApiKeyBody:
    names = ApiKeyBody.__struct_fields__
    return ApiKeyBody(**{name: getattr(row, name) for name in names})


def list_api_keys(
    view: View, visible: Visible, parameters: PageParameters, window: PageWindow
) -> Iterator[tuple[PageKey, ApiKeyBody]]:
    """List API keys, the newest first."""
    after: Any = window.after
    for row in SecurityReader(view.snapshot).api_keys(visible):
        key = (row.created_at, row.key_id)
        if after is None or key < after:
            yield key, api_key_body(row)


def require_key(view: View, visible: Visible, key_id: str) -> ApiKeyRow:
    rows = SecurityReader(view.snapshot).api_keys(visible)
    row = next((row for row in rows if row.key_id == key_id), None)
    if row is None:
        raise NotFound(f"there is no API key {key_id}")
    return row


class RoleListParameters(PageParameters, frozen=True, kw_only=True):
    subject: Annotated[
        str, Meta(max_length=500, description="Only this subject: user:ana@example.org.")
    ] = ""


def list_roles(
    view: View, visible: Visible, parameters: RoleListParameters, window: PageWindow
) -> Iterator[tuple[PageKey, RoleBindingRow]]:
    """List role bindings."""
    for row in SecurityReader(view.snapshot).bindings(visible, parameters.subject):
        key = (row.namespace, row.subject)
        if window.after is None or key > window.after:
            yield key, row


class AuditRecordParameters(AtParameters, frozen=True, kw_only=True):
    position: Annotated[int, Meta(ge=1, le=(1 << 53) - 1, description="The record's number.")]


def get_audit_record(view: View, visible: Visible, parameters: AuditRecordParameters) -> AuditRow:
    """Show one record: who, what, from where, and the rows before and after."""
    row = view.snapshot.get(AUDIT, record_id(parameters.position))
    if row is None or not _sees_record(visible, row):
        raise NotFound(f"the audit log has no record {parameters.position}")
    return row


def _sees_record(visible: Visible, row: AuditRow) -> bool:
    return visible.all or (row.namespace != "" and visible.sees(row.namespace))


class AuditVerifyParameters(AtParameters, frozen=True, kw_only=True):
    head: Annotated[
        str, Meta(max_length=200, description="POSITION:HASH of a head that was stored elsewhere.")
    ] = ""


class AuditVerification(msgspec.Struct, frozen=True, kw_only=True):
    intact: bool
    report: AuditReport


def verify_audit_log(
    view: View, visible: Visible, parameters: AuditVerifyParameters
) -> AuditVerification:
    """Verify every record against the log, and the hash chain. Reads all of the log.

    If it takes longer, the response is 503 with `still_reading`: repeat the request, with the
    same `generation`, to wait for the same check.
    """
    require_everything(visible, "checks of the audit log")
    anchor = Anchor.parse(parameters.head) if parameters.head else None
    reading: LongRead[AuditReport] = view.derived(f"audit verification {anchor}", LongRead)
    report = reading.result(lambda: verify_audit(view.snapshot, view.types, anchor=anchor))
    return AuditVerification(intact=report.intact, report=report)


class AuditParameters(PageParameters, frozen=True, kw_only=True):
    actor: Annotated[str, Meta(max_length=500)] = ""
    action: Annotated[str, Meta(max_length=200)] = ""
    outcome: Annotated[str, Meta(max_length=50)] = ""
    resource: Annotated[str, Meta(max_length=500)] = ""
    request_id: Annotated[str, Meta(max_length=100)] = ""
    since: Time = ""


def list_audit(
    view: View, visible: Visible, parameters: AuditParameters, window: PageWindow
) -> Iterator[tuple[PageKey, AuditRow]]:
    """List records of the audit log, the newest first."""
    published = view.snapshot.published_at
    conditions = AuditFilter(
        actor=parameters.actor,
        action=parameters.action,
        outcome=parameters.outcome,
        resource=parameters.resource,
        request_id=parameters.request_id,
        since=parse_time(parameters.since, published) if parameters.since else None,
    )
    before = None if window.after is None else int(str(window.after[1]))
    rows = SecurityReader(view.snapshot).audit(
        conditions, limit=window.limit, before=before, visible=visible
    )
    for row in rows:
        yield (row.recorded_at, row.record_id), row


ROUTES: tuple[Any, ...] = (
    listing("/keys", Permission.KEYS_MANAGE, list_api_keys),
    listing("/roles", Permission.ROLES_MANAGE, list_roles),
    listing("/audit", Permission.AUDIT_READ, list_audit),
    read("/audit/verification", Permission.AUDIT_READ, verify_audit_log, live=True),
    read("/audit/{position}", Permission.AUDIT_READ, get_audit_record),
)
