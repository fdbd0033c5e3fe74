"""Reading check results at one generation."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from arco.quality.tables import CHECK_RESULTS, CHECK_STATUS, CheckResultRow, CheckStatusRow
from arco.state.days import newest_rows
from arco.state.snapshot import Snapshot


class QualityReader:
    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    def status(self, asset_id: str, partition_key: str | None = None) -> list[CheckStatusRow]:
        """The status of each check, for all partitions of an asset or one of them."""
        if partition_key is not None:
            return self.snapshot.rows(CHECK_STATUS, asset_id, partition_key)
        return self.snapshot.rows(CHECK_STATUS, asset_id)

    def results(
        self,
        asset_id: str,
        *,
        matches: Callable[[CheckResultRow], bool] = lambda row: True,
        limit: int | None = None,
        since: datetime | None = None,
    ) -> list[CheckResultRow]:
        """The newest results that match, newest first."""
        return newest_rows(
            self.snapshot, CHECK_RESULTS, asset_id, matches=matches, limit=limit, since=since
        )

    def of_attempt(self, asset_id: str, attempt_id: str) -> list[CheckResultRow]:
        """The results of one attempt."""
        return self.snapshot.rows(CHECK_RESULTS, asset_id, attempt_id)
