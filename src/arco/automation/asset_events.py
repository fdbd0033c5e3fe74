"""What can happen to the automation of assets.

| category | events | who |
|---|---|---|
| commands | AutomationPaused, AutomationResumed | people |
| controller facts | AutomationAdvanced | orchestrators |

Declarations, changes and removals are derived facts of deployments.
"""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar, Literal

from msgspec import Struct

from arco.log.envelope import Payload

ResumeCatchup = Literal["none", "all"]


class AutomationPaused(Payload, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "automation.automation_paused"
    COMMAND: ClassVar[bool] = True
    asset: str
    reason: str = ""


class AutomationResumed(Payload, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "automation.automation_resumed"
    COMMAND: ClassVar[bool] = True
    asset: str
    catchup: ResumeCatchup = "none"
    """Whether versions that were replaced during the pause count."""


class AutomationRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Partitions to run, the same of each of these assets."""

    assets: tuple[str, ...]
    partitions: tuple[str, ...] = ()
    cause: str = ""
    """The version, or what else caused it, for people."""


class HeldPartition(Struct, frozen=True, order=True):
    """A partition that waits for an input that does not depend on its time."""

    asset: str
    partition: str


class AutomationAdvanced(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """The changes of the log were evaluated: these partitions are to run.

    The fold accepts it if `step` is the number of decisions before it, and leaves out assets whose
    automation is not active. The events of one proposal are accepted in order.
    """

    TYPE: ClassVar[str] = "automation.automation_advanced"
    VERSION: ClassVar[int] = 2
    proposal: str = ""
    """The same in all events of one proposal."""
    part: int = 0
    """Which of them it is. One after the first counts only if the last that counted is the one
    before it."""
    step: int
    position: int
    """Changes up to this position have been evaluated."""
    until: datetime
    """Likewise periods that were over by then."""
    requests: tuple[AutomationRequest, ...] = ()
    ticked: tuple[str, ...] = ()
    """Assets by `on_cron` with a tick up to `until` that this deals with."""
    ticked_position: int = 0
    """Changes up to there belong to those ticks."""
    has_more: bool = False
    """Not everything was evaluated or requested yet: the cursor stays."""
    held: tuple[HeldPartition, ...] = ()
    """Partitions that wait and that no later change leads to: stored, so that the cursor moves."""
    released: tuple[HeldPartition, ...] = ()
    """Stored partitions that do not wait any more."""

    @property
    def lowest_version(self) -> int:
        return 2 if self.held or self.released else 1


EVENTS: tuple[type[Payload], ...] = (AutomationPaused, AutomationResumed, AutomationAdvanced)
