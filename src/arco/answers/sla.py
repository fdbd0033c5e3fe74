"""Whether assets keep the age of data that their SLA promises, at one time.

For an asset with a freshness policy the newest data of each series is known: each is evaluated as
by a policy with the age and the times of the SLA. For others the newest version counts. An asset
without a version breaks no promise.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import pyarrow.compute as pc
from msgspec import Struct
from msgspec.structs import replace

from arco.automation.deadlines import deadline_after
from arco.automation.freshness_reader import FreshnessReader
from arco.automation.freshness_tables import FreshnessPolicyRow, FreshnessStatus
from arco.catalog.governance import decode_sla, sla_text
from arco.catalog.tables import ASSET_IDENTITIES, ASSETS, NAMESPACES
from arco.state.snapshot import Snapshot
from servo.contract.manifest import SlaSpec


class SlaBreach(Struct, frozen=True):
    due_at: datetime
    """When newer data should have been there."""
    reason: str


class SlaReader:
    """SLAs that are in effect: of an asset, or else of its namespace."""

    def __init__(self, snapshot: Snapshot, freshness: FreshnessReader) -> None:
        self._snapshot = snapshot
        self._freshness = freshness

    def of(self, asset_id: str) -> SlaSpec | None:
        row = self._snapshot.get(ASSET_IDENTITIES, asset_id)
        if row is None:
            return None
        namespace = None if row.sla else self._snapshot.get(NAMESPACES, row.namespace)
        return decode_sla(row.sla or ("" if namespace is None else namespace.sla))

    def all(self) -> Mapping[str, SlaSpec]:
        """By asset id, those that there are."""
        shared = {row.namespace: row.sla for row in self._snapshot.all(NAMESPACES) if row.sla}
        rows = self._snapshot.scan(ASSETS).select(["asset_id", "namespace", "sla"])
        if not shared:
            rows = rows.filter(pc.not_equal(rows["sla"], ""))
        texts = {
            row["asset_id"]: row["sla"] or shared.get(row["namespace"], "")
            for row in rows.to_pylist()
        }
        specs = ((asset_id, decode_sla(text)) for asset_id, text in texts.items())
        return {asset_id: sla for asset_id, sla in specs if sla is not None}

    def breach(
        self,
        sla: SlaSpec,
        policy: FreshnessPolicyRow | None,
        made_at: datetime | None,
        now: datetime,
    ) -> SlaBreach | None:
        """The breach of an asset whose newest version was written then, if there is one."""
        if not sla.max_age_s or made_at is None:
            return None
        promised = f"outside its SLA ({sla_text(sla)})"
        if policy is None:
            due_at = deadline_after(made_at, sla.max_age_s, sla.cron, sla.timezone)
            if due_at is None or due_at > now:
                return None
            newest = f"the newest version was written at {made_at:%Y-%m-%d %H:%M} UTC"
            return SlaBreach(due_at, f"{promised}: {newest}")
        as_policy = replace(policy, max_age_s=sla.max_age_s, cron=sla.cron, timezone=sla.timezone)
        due = [
            (each.due_at, each.series)
            for each in self._freshness.series_of(as_policy, now)
            if each.status == FreshnessStatus.STALE and each.due_at is not None
        ]
        if not due:
            return None
        due_at, _ = min(due)
        return SlaBreach(due_at, f"{promised}: newer data was due at {due_at:%Y-%m-%d %H:%M} UTC")
