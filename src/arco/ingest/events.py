"""A report of an output that others have written. Reports of one id add up, in any order."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar, Literal

from msgspec import Struct

from arco.catalog.events import Column
from arco.log.envelope import Payload
from servo.contract.task import CheckResult, Influence

ReportState = Literal["running", "succeeded", "failed", "aborted"]


class ReportedColumnEdge(Struct, frozen=True, order=True, omit_defaults=True):
    """A column of an input that a column of the output comes from."""

    column: str
    """Empty: it decides about the rows as a whole."""
    source_id: str
    source_column: str
    kind: Influence = "transformation"
    masked: bool = False


class OutputReported(Payload, frozen=True, kw_only=True):
    """Others have written an output, or are about to. Absent fields do not change."""

    TYPE: ClassVar[str] = "ingest.output_reported"
    COMMAND: ClassVar[bool] = True
    asset_id: str
    asset_key: str
    report_id: str
    """Of the run elsewhere: several reports of it are one output."""
    reported_at: datetime
    """By the reporter's clock: of two values the later one counts."""
    partition: str = ""
    state: ReportState = "succeeded"
    producer: str = ""
    job: str = ""
    rows: int | None = None
    bytes: int | None = None
    files: int | None = None
    location: str = ""
    message: str = ""
    """Why it failed."""
    columns: tuple[Column, ...] = ()
    checks: tuple[CheckResult, ...] = ()
    input_ids: tuple[str, ...] = ()
    """Ids of the assets that it was made of."""
    column_edges: tuple[ReportedColumnEdge, ...] = ()


EVENTS: tuple[type[Payload], ...] = (OutputReported,)
