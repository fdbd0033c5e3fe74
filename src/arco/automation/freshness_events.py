"""What orchestrators report about freshness, and what follows when a status changes.

| category | events |
|---|---|
| controller facts | FreshnessObserved, FreshnessEvaluated, FreshnessRunDue |
| derived | FreshnessChanged, FreshnessRestarted |
"""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from msgspec import Struct

from arco.automation.freshness_tables import FreshnessStatus, StaleCause
from arco.log.envelope import Payload


class SeriesData(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The newest data of a series."""

    series: str = ""
    partition: str = ""
    materialization_id: str
    made_at: datetime


class FreshnessObserved(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """The data that existed before a policy of this shape began.

    Newer data in the tables stays. `last`: this is the last event of them.
    """

    TYPE: ClassVar[str] = "automation.freshness_observed"
    asset_id: str
    shape: int
    data: tuple[SeriesData, ...] = ()
    last: bool = True


class FreshnessEvaluated(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """A series is fresh again, or stale.

    It counts if the policy still has that number, the newest data is still that version, and the
    series has the other status. A version that was stale by this policy does not become fresh
    again, so that machines with different zone data do not alternate.
    """

    TYPE: ClassVar[str] = "automation.freshness_evaluated"
    asset_id: str
    series: str = ""
    number: int
    status: FreshnessStatus
    materialization_id: str = ""
    partition: str = ""
    """The partition that was due, or now exists."""
    due_at: datetime | None = None
    cause: StaleCause = ""
    reason: str = ""


class FreshnessRunDue(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """A stale series requests a run. It counts if `asked` is the number of its requests before."""

    TYPE: ClassVar[str] = "automation.freshness_run_due"
    asset_id: str
    series: str = ""
    asset: str
    partitions: tuple[str, ...] = ()
    """As the command line takes them."""
    due_at: datetime
    asked: int = 0
    force: bool = False
    """Whether it runs even if it is up to date, because its age does not come from its inputs."""


class FreshnessChanged(Payload, frozen=True, kw_only=True):
    """Derived: a series went from FRESH to STALE, or back."""

    TYPE: ClassVar[str] = "automation.freshness_changed"
    asset_id: str
    asset: str
    series: str
    partition: str
    """What was due, or has come: of an asset with periods, one of them."""
    status: FreshnessStatus
    cause: StaleCause
    reason: str
    due_at: datetime | None


class FreshnessRestarted(Payload, frozen=True, kw_only=True):
    """Derived: no series of an asset is STALE any more, because its policy was removed, or its
    partitions changed. All series are evaluated again."""

    TYPE: ClassVar[str] = "automation.freshness_restarted"
    asset_id: str


EVENTS: tuple[type[Payload], ...] = (FreshnessObserved, FreshnessEvaluated, FreshnessRunDue)
