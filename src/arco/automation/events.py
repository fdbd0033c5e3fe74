"""What can happen to schedules and backfills.

| category | events | who |
|---|---|---|
| commands | SchedulePaused, ScheduleResumed | people |
| | BackfillCreated, BackfillPaused, BackfillResumed, BackfillCancelled, BackfillRetried | people |
| controller facts | ScheduleTicked, BackfillAdvanced, BackfillEnded | orchestrators |

Declarations, changes and removals are derived facts of deployments.
"""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar, Literal

from arco.automation import freshness_events
from arco.automation.backfill_states import BackfillCause
from arco.log.envelope import Payload
from arco.orchestration.plan import PlanRequest, Spans
from servo.contract.manifest import Catchup

TickOutcome = Literal["fired", "skipped", "missed"]


class AutomationCommand(Payload, frozen=True, kw_only=True):
    COMMAND: ClassVar[bool] = True


class SchedulePaused(AutomationCommand, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "automation.schedule_paused"
    schedule_id: str
    reason: str = ""


class ScheduleResumed(AutomationCommand, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "automation.schedule_resumed"
    schedule_id: str
    catchup: Catchup = "none"
    """What happens with ticks that were due during the pause."""


class ScheduleTicked(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """A tick was due: it requests a run, or has the reason why not.

    The fold accepts each tick once, and only of the schedule's current cron expression.
    """

    TYPE: ClassVar[str] = "automation.schedule_ticked"
    schedule_id: str
    timing: str
    """The cron expression and time zone that were evaluated."""
    tick: str
    """The wall time it was scheduled for; its name."""
    scheduled_at: datetime
    """The same, in UTC."""
    outcome: TickOutcome = "fired"
    reason: str = ""
    missed: int = 0
    """How many ticks before it were due too, and are left out."""
    missed_at_least: bool = False
    """They are more than that."""


class BackfillCreated(AutomationCommand, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "automation.backfill_created"
    backfill_id: str
    request: PlanRequest
    """What it runs, with the axes of its chunks: chunk *n* is this request with that number."""
    until: datetime
    """Periods that end later, and keys that are added later, are not included."""
    partitions: int
    """How many there are, of all assets together."""
    chunks: int
    chunk_size: int
    max_concurrent_runs: int
    failure_threshold: str = ""
    """`10%` or a number of partitions; empty: no threshold."""
    reason: str = ""


class BackfillPaused(AutomationCommand, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "automation.backfill_paused"
    backfill_id: str
    reason: str = ""


class BackfillResumed(AutomationCommand, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "automation.backfill_resumed"
    backfill_id: str


class BackfillCancelled(AutomationCommand, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "automation.backfill_cancelled"
    backfill_id: str
    reason: str = ""


class BackfillRetried(AutomationCommand, frozen=True, kw_only=True):
    """Request failed and cancelled chunks again, and continue with the others."""

    TYPE: ClassVar[str] = "automation.backfill_retried"
    backfill_id: str
    chunks: Spans = ()
    """The chunks to request again."""


class BackfillAdvanced(Payload, frozen=True, kw_only=True):
    """A backfill has room for more runs: the next chunks are requested.

    It counts if `step` is the number of steps before it.
    """

    TYPE: ClassVar[str] = "automation.backfill_advanced"
    backfill_id: str
    step: int
    chunks: int


class BackfillEnded(Payload, frozen=True, kw_only=True):
    """All chunks have ended, or too many partitions failed. It counts like `BackfillAdvanced`."""

    TYPE: ClassVar[str] = "automation.backfill_ended"
    backfill_id: str
    step: int
    cause: BackfillCause
    reason: str = ""


BackfillCommand = BackfillPaused | BackfillResumed | BackfillCancelled | BackfillRetried

COMMANDS: tuple[type[AutomationCommand], ...] = (
    SchedulePaused,
    ScheduleResumed,
    BackfillCreated,
    BackfillPaused,
    BackfillResumed,
    BackfillCancelled,
    BackfillRetried,
)
EVENTS: tuple[type[Payload], ...] = (
    *COMMANDS,
    ScheduleTicked,
    BackfillAdvanced,
    BackfillEnded,
    *freshness_events.EVENTS,
)
