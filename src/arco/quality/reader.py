"""Reading what checks found, at one generation."""

from __future__ import annotations

from arco.quality.tables import CHECK_RESULTS, CHECK_STATUS, CheckResultRow, CheckStatusRow
from arco.state.snapshot import Snapshot


class QualityReader:
    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    def status(self, asset_id: str, partition_key: str | None = None) -> list[CheckStatusRow]:
        """How an asset's partitions, or one of them, stand with each check."""
        rows = self.snapshot.rows(CHECK_STATUS, asset_id)
        return [row for row in rows if partition_key in (None, row.partition_key)]

    def results(
        self, asset_id: str, *, partition_key: str | None = None, check: str = ""
    ) -> list[CheckResultRow]:
        """Every result, newest first; of one partition, or of one check by its name or id."""
        rows = [
            row
            for row in self.snapshot.rows(CHECK_RESULTS, asset_id)
            if partition_key in (None, row.partition_key)
            and check in ("", row.check_name, row.check_id)
        ]
        return sorted(rows, key=lambda row: (row.evaluated_at, row.attempt_id), reverse=True)

    def of_attempt(self, asset_id: str, attempt_id: str) -> list[CheckResultRow]:
        """What one attempt found."""
        return self.snapshot.rows(CHECK_RESULTS, asset_id, attempt_id)
