"""What can happen to the automation of assets.

| category | events | who |
|---|---|---|
| commands | AutomationPaused, AutomationResumed | people |
| controller facts | AutomationAdvanced | orchestrators |

That it is declared, differs or has left is said by deployments, as derived facts.
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
    """Whether what was replaced during the pause counts."""


class AutomationRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Partitions to make, the same of each of these assets."""

    assets: tuple[str, ...]
    partitions: tuple[str, ...] = ()
    cause: str = ""
    """The version, or what else caused it, for people."""


class HeldPartition(Struct, frozen=True, order=True):
    """A partition that waits for what partitions of all times read alike."""

    asset: str
    partition: str


class AutomationAdvanced(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """What changed in the log was looked through: these partitions are to be made.

    The fold takes it if so many decisions were taken before, and leaves out assets whose
    automation is not active then. Of a proposal in several events it takes one after the other.
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
    """Changes up to this position have been dealt with."""
    until: datetime
    """Likewise periods that were over by then."""
    requests: tuple[AutomationRequest, ...] = ()
    ticked: tuple[str, ...] = ()
    """Assets by `on_cron` with a tick up to `until` that this deals with."""
    ticked_position: int = 0
    """What changed up to there belongs to those ticks."""
    has_more: bool = False
    """Not all was looked at, or asked for, yet: the cursor stays."""
    held: tuple[HeldPartition, ...] = ()
    """What waits, and no later change leads to: it is kept, so that the cursor can move on."""
    released: tuple[HeldPartition, ...] = ()
    """What was kept, and waits no more."""

    @property
    def lowest_version(self) -> int:
        return 2 if self.held or self.released else 1


EVENTS: tuple[type[Payload], ...] = (AutomationPaused, AutomationResumed, AutomationAdvanced)
