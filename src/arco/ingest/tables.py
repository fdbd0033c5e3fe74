"""Outputs that others have written, keyed by the asset."""

from __future__ import annotations

from datetime import datetime, timedelta

from arco.ingest.events import ReportState
from arco.state.table import History, Row, Table

KEPT_HOT = timedelta(days=30)


class ReportedOutputRow(Row, frozen=True):
    """The merged reports of one id."""

    asset_id: str
    report_id: str
    asset_key: str
    partition_key: str
    state: ReportState
    producer: str
    job: str
    rows: int | None
    bytes: int | None
    files: int | None
    location: str
    message: str
    columns: str
    """`Column`s, as JSON."""
    checks: str
    """The newest `CheckResult` of each check, as JSON."""
    input_ids: list[str]
    column_edges: str
    """`ReportedColumnEdge`s, as JSON."""
    times: dict[str, datetime]
    """By field, when it was reported."""
    first_reported_at: datetime
    last_reported_at: datetime
    recorded_at: datetime
    """When the log had the newest report."""
    recorded_by: str


class NewestReportRow(Row, frozen=True):
    """The newest output that succeeded, by the time of its reports."""

    asset_id: str
    report_id: str
    reported_at: datetime
    lineage_id: str = ""
    """The newest of those that say what was read: its lineage counts. A report of sizes alone does
    not end it."""
    lineage_at: datetime | None = None


REPORTED_OUTPUTS = Table(
    "ingest",
    "outputs",
    ReportedOutputRow,
    key=["asset_id", "report_id"],
    history=History("recorded_at", KEPT_HOT),
)
NEWEST_REPORTS = Table("ingest", "newest", NewestReportRow, key=["asset_id"])
