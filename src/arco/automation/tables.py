"""Automation's tables: schedules and the history of their ticks; backfills and their chunks."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum

from arco.automation.backfill_states import BackfillState, ChunkState
from arco.state.table import History, Row, Table
from servo.contract.manifest import Catchup, Overlap

TICKS_KEPT_HOT = timedelta(days=2)


class ScheduleState(StrEnum):
    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"
    REMOVED = "REMOVED"
    """No deployment of its project has it now. An earlier pause stays when it returns."""


class TickState(StrEnum):
    FIRED = "FIRED"
    SKIPPED = "SKIPPED"
    MISSED = "MISSED"
    FAILED = "FAILED"
    """It fired, and its request was refused. Computed by readers."""


class ScheduleRow(Row, frozen=True):
    schedule_id: str
    """`project/name`."""
    project: str
    name: str
    state: ScheduleState
    cron: str
    timezone: str
    selection: list[str]
    partitions: list[str]
    config: str
    """As JSON."""
    catchup: Catchup
    catchup_limit: int
    overlap: Overlap
    deployment_id: str
    """The one that last changed it, or removed it."""
    since: datetime
    """When it was declared, changed or resumed: ticks up to then do not count."""
    last_tick: str
    last_scheduled_at: datetime | None
    paused_at: datetime | None
    paused_by: str
    pause_reason: str
    catchup_once: Catchup | None
    """Replaces `catchup` for the ticks of a pause that has ended."""
    timing_number: int
    """How many cron expressions or time zones it has had. From the second on it is part of the
    names of ticks: one wall time may then be due twice."""
    refresh_sources: bool = False

    @property
    def timing(self) -> str:
        return f"{self.cron} {self.timezone}"

    @property
    def done_until(self) -> datetime:
        """Ticks up to then have been handled."""
        last = self.last_scheduled_at
        return self.since if last is None else max(self.since, last)


class ScheduleTickRow(Row, frozen=True):
    schedule_id: str
    tick: str
    state: TickState
    scheduled_at: datetime
    reason: str
    missed: int
    missed_at_least: bool
    request_key: str
    recorded_at: datetime


class BackfillRow(Row, frozen=True):
    """A backfill: its definition, and how many chunks it has requested."""

    backfill_id: str
    state: BackfillState
    selection: list[str]
    partitions: list[str]
    """As was asked."""
    request: str
    """The request that all chunks share, as JSON."""
    until: datetime
    total_partitions: int
    chunks: int
    chunk_size: int
    max_concurrent_runs: int
    newest_first: bool
    failure_threshold: str
    round: int
    """1, and one more with each retry."""
    step: int
    """How often chunks were requested."""
    next_chunk: int
    """Chunks before it have been requested at least once."""
    again: list[int]
    """Chunks to request again, before others: as spans."""
    asked: int
    """How many requests it has made."""
    reason: str
    """Of its state."""
    created_at: datetime
    created_by: str
    started_at: datetime | None
    finished_at: datetime | None


class BackfillRunRow(Row, frozen=True):
    """A requested chunk, and its newest run."""

    backfill_id: str
    chunk_index: int
    state: ChunkState
    round: int
    request_key: str
    run_id: str
    partitions: int
    """How many it has; before it is planned, about how many."""
    succeeded: int
    reused: int
    failed: int
    skipped: int
    cancelled: int
    reason: str
    asked_at: datetime
    finished_at: datetime | None


class BackfillProgressRow(Row, frozen=True):
    """The total results of a backfill's chunks so far."""

    backfill_id: str
    round: int
    ended: int
    """How many requests of it have ended."""
    chunks_bad: int
    """Chunks that failed or were cancelled, and are not requested again."""
    chunks_skipped: int
    succeeded: int
    reused: int
    failed: int
    skipped: int
    """Partitions that were skipped because an upstream task failed."""
    cancelled: int


SCHEDULES = Table("automation", "schedules", ScheduleRow, key=["schedule_id"])
SCHEDULE_TICKS = Table(
    "automation",
    "schedule_ticks",
    ScheduleTickRow,
    key=["schedule_id", "tick"],
    history=History("recorded_at", TICKS_KEPT_HOT),
)
BACKFILLS = Table("automation", "backfills", BackfillRow, key=["backfill_id"])
BACKFILL_RUNS = Table(
    "automation", "backfill_runs", BackfillRunRow, key=["backfill_id", "chunk_index"]
)
BACKFILL_PROGRESS = Table(
    "automation", "backfill_progress", BackfillProgressRow, key=["backfill_id"]
)


def schedule_id(project: str, name: str) -> str:
    return f"{project}/{name}"
