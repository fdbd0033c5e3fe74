"""Reading keys, roles and the audit log at one generation."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import islice

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from arco.errors import NotFound
from arco.security.audit import record_id
from arco.security.directory import Directory
from arco.security.tables import (
    API_KEYS,
    AUDIT,
    AUDIT_HEAD,
    CHAIN,
    ROLE_BINDINGS,
    ApiKeyRow,
    AuditHeadRow,
    AuditRow,
    RoleBindingRow,
)
from arco.security.visibility import EVERYTHING, Visible
from arco.state.days import newest_first
from arco.state.snapshot import Snapshot

MIN_CHARS = 4
_ROWS = 10_000
_PAGE = 500


class AuditFilter(msgspec.Struct, frozen=True, kw_only=True):
    """What a record must have; an empty value is no condition."""

    actor: str = ""
    """The name, id or email address of the actor."""
    action: str = ""
    outcome: str = ""
    resource: str = ""
    """An id or a name of what it was done to."""
    request_id: str = ""
    namespace: str = ""
    since: datetime | None = None
    until: datetime | None = None

    def matches(self, row: AuditRow) -> bool:
        return (
            (not self.actor or self.actor in (row.actor, row.actor_id, row.email))
            and (not self.action or self.action.casefold() == row.action.casefold())
            and (not self.outcome or self.outcome == row.outcome)
            and (not self.resource or self.resource in (row.resource_id, row.resource_name))
            and (not self.request_id or self.request_id == row.request_id)
            and (not self.namespace or self.namespace == row.namespace)
            and (self.since is None or row.recorded_at >= self.since)
            and (self.until is None or row.recorded_at < self.until)
        )


def records_in_order(snapshot: Snapshot) -> Iterator[AuditRow]:
    """All records, the oldest first; rows are made of columns a few at a time."""
    table = snapshot.scan(AUDIT).sort_by("record_id")
    for start in range(0, table.num_rows, _ROWS):
        yield from AUDIT.rows_of(table.slice(start, _ROWS))


def _matching(
    records: pa.Table, conditions: AuditFilter | None, before: int | None, visible: Visible
) -> Iterator[AuditRow]:
    """Those that match, the newest first. Rows are made of columns only as far as needed."""
    if before is not None:
        records = records.filter(pc.less(records.column("position"), before))
    if visible.namespaces is not None:
        seen = pa.array(sorted(visible.namespaces - {""}), pa.string())
        records = records.filter(pc.is_in(records.column("namespace"), seen))
    ordered = records.sort_by([("record_id", "descending")])
    for start in range(0, ordered.num_rows, _PAGE):
        for row in AUDIT.rows_of(ordered.slice(start, _PAGE)):
            if conditions is None or conditions.matches(row):
                yield row


class SecurityReader:
    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    def directory(self, before: Directory | None = None) -> Directory:
        return Directory.read(self.snapshot, before)

    def api_keys(self, visible: Visible = EVERYTHING) -> list[ApiKeyRow]:
        """Newest first; only keys of visible namespaces."""
        rows = [
            row
            for row in self.snapshot.all(API_KEYS)
            if visible.all
            or (row.namespaces and all(visible.sees(name) for name in row.namespaces))
        ]
        return sorted(rows, key=lambda row: (row.created_at, row.key_id), reverse=True)

    def key(self, text: str) -> ApiKeyRow:
        """A key by its id, its prefix, or its name; the beginning of an id is enough."""
        start = text.removeprefix("arco_").partition("_")[0]
        row = self.snapshot.get(API_KEYS, start)
        if row is not None:
            return row
        matching = [
            row
            for row in self.api_keys()
            if row.name == text or (len(start) >= MIN_CHARS and row.key_id.startswith(start))
        ]
        if len(matching) == 1:
            return matching[0]
        problem = "names several API keys" if matching else "is not an API key"
        # Somebody may have given the whole key: no error repeats a secret.
        label = text if len(text) <= len(start) + len("arco__") else f"arco_{start}_…"
        raise NotFound(f"{label[:100]!r} {problem}", hint="see `servo auth keys list`")

    def bindings(self, visible: Visible = EVERYTHING, subject: str = "") -> list[RoleBindingRow]:
        """Those of the workspace first, then by namespace and subject."""
        rows = [
            row
            for row in self.snapshot.all(ROLE_BINDINGS)
            if (visible.all or (row.namespace and visible.sees(row.namespace)))
            and (not subject or row.subject == subject)
        ]
        return sorted(rows, key=lambda row: (row.namespace, row.subject))

    def binding(self, subject: str, namespace: str = "") -> RoleBindingRow | None:
        return self.snapshot.get(ROLE_BINDINGS, namespace, subject)

    def audit(
        self,
        conditions: AuditFilter | None = None,
        *,
        limit: int | None = None,
        before: int | None = None,
        visible: Visible = EVERYTHING,
    ) -> list[AuditRow]:
        """Records that a filter lets through, the newest first.

        `before`: only those before the record at this position; the next page begins there. Only
        records of visible namespaces are returned. Files of days before `since` are not opened,
        nor those of earlier days once there are enough records.
        """
        chosen: list[AuditRow] = []
        since = None if conditions is None else conditions.since
        for rows, rest_before in newest_first(self.snapshot, AUDIT):
            chosen += islice(_matching(rows, conditions, before, visible), limit)
            chosen.sort(key=lambda row: row.record_id, reverse=True)
            chosen = chosen[:limit]
            if rest_before is None or (since is not None and rest_before <= since):
                break
            # Of the hot records some may be old enough to be in history, and are not yet.
            is_full = limit is not None and len(chosen) == limit
            if is_full and chosen and chosen[-1].recorded_at >= rest_before:
                break
        return chosen

    def audit_export(self, conditions: AuditFilter) -> Iterator[AuditRow]:
        """Records that a filter lets through, the oldest first."""
        return (row for row in records_in_order(self.snapshot) if conditions.matches(row))

    def audit_record(self, position: int) -> AuditRow:
        row = self.snapshot.get(AUDIT, record_id(position))
        if row is None:
            raise NotFound(f"the audit log has no record {position}", hint="see `servo audit list`")
        return row

    def audit_head(self) -> AuditHeadRow | None:
        """The last record's position and hash: note them outside, and verify against them."""
        return self.snapshot.get(AUDIT_HEAD, CHAIN)
