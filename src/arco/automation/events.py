"""What can happen to schedules.

| category | events | who |
|---|---|---|
| commands | SchedulePaused, ScheduleResumed | people |
| controller facts | ScheduleTicked | orchestrators |

That a schedule is new, differs or has left is said by deployments, as derived facts.
"""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar, Literal

from arco.log.envelope import Payload
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
    """What becomes of the ticks that were due during the pause."""


class ScheduleTicked(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """A tick was due: it asks for a run, or says why it does not.

    The fold takes each tick once, and only of the cron expression that the schedule has then.
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


COMMANDS: tuple[type[AutomationCommand], ...] = (SchedulePaused, ScheduleResumed)
EVENTS: tuple[type[Payload], ...] = (*COMMANDS, ScheduleTicked)
