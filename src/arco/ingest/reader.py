"""Reading what others have reported, at one generation."""

from __future__ import annotations

from arco.ingest.tables import REPORTED_OUTPUTS, ReportedOutputRow
from arco.state.snapshot import Snapshot


class IngestReader:
    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    def outputs(self, asset_id: str) -> list[ReportedOutputRow]:
        """Of the last 30 days, the newest first, by the time of their first report."""
        rows = self.snapshot.rows(REPORTED_OUTPUTS, asset_id)
        return sorted(rows, key=lambda row: (row.first_reported_at, row.report_id), reverse=True)
