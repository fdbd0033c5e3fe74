"""Tables of the automation of assets: one row for each asset that has it, and a cursor.

All of them have one shard key: each decision reads the cursor and the rows of its assets.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from arco.state.table import Row, Table
from servo.contract.manifest import AutomationKind

SCOPE = "assets"
"""The one shard key."""


class AutomationState(StrEnum):
    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"
    REMOVED = "REMOVED"
    """No deployment declares it now. An earlier pause stays when it returns."""


class AutomationRow(Row, frozen=True):
    scope: str
    asset_key: str
    project: str
    state: AutomationState
    when: AutomationKind
    cron: str
    timezone: str
    deployment_id: str
    """The one that last changed it, or removed it."""
    since: int
    """Versions up to this position of the log cause nothing: it was declared, changed or resumed
    there."""
    since_at: datetime
    """The same as a time: periods that were over by then cause nothing."""
    ticked_at: datetime
    """Of `on_cron`: ticks up to then have been handled."""
    ticked_position: int
    """Of `on_cron`: the last tick took what was replaced up to there."""
    requested_at: datetime | None
    """When it last requested a run."""
    request_key: str
    cause: str
    paused_at: datetime | None
    paused_by: str
    pause_reason: str
    paused_position: int
    replay_from: int
    """Changes after this position are evaluated again: it was resumed with catchup."""

    @property
    def is_active(self) -> bool:
        return self.state == AutomationState.ACTIVE

    @property
    def acts_at_ticks(self) -> bool:
        return self.is_active and self.when == "on_cron"


class AutomationCursorRow(Row, frozen=True):
    """How far the log has been evaluated for automation."""

    scope: str
    step: int
    """How many decisions were taken. A decision counts if it names this number."""
    position: int
    """Changes up to this position have been evaluated."""
    until: datetime
    """Periods that were over by then have been evaluated."""
    proposal: str = ""
    """The last that counted, in part or as a whole."""


class AutomationHoldRow(Row, frozen=True):
    """A partition that waits, and that no change leads to: it is evaluated whenever an input of its
    asset has changed."""

    scope: str
    asset_key: str
    partition_key: str


AUTOMATIONS = Table(
    "automation", "automations", AutomationRow, key=["scope", "asset_key"], spread=32
)
AUTOMATION_CURSOR = Table("automation", "automation_cursor", AutomationCursorRow, key=["scope"])
AUTOMATION_HOLDS = Table(
    "automation",
    "automation_holds",
    AutomationHoldRow,
    key=["scope", "asset_key", "partition_key"],
    spread=32,
)
