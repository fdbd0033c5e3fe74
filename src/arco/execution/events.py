"""Events of outputs. Most are derived from what tasks report.

People and upkeep decide about outputs that exist: `VersionQuarantined` about a good one,
`QuarantineDecided` about a held one, `VersionsExpired` about those whose files may be deleted,
`VersionsDamaged` about those whose files are lost.
"""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from msgspec import Struct

from arco.execution.states import HoldStatus
from arco.log.envelope import Payload
from servo.contract.task import Cost, ErrorInfo, Materialization, TaskOutcome, Usage


class OutputAccepted(Payload, frozen=True, kw_only=True):
    """Derived: a task succeeded, and its output is the partition's newest good version."""

    TYPE: ClassVar[str] = "execution.output_accepted"
    materialization: Materialization
    warnings: int = 0
    """Failed checks that the asset's gating ignores or warns about."""


class OutputHeld(Payload, frozen=True, kw_only=True):
    """Derived: an output is held by checks until a decision."""

    TYPE: ClassVar[str] = "execution.output_held"
    materialization: Materialization
    status: HoldStatus
    reason: str


class OutputRejected(Payload, frozen=True, kw_only=True):
    """Derived: an output came too late, after a cancellation or from a stale attempt."""

    TYPE: ClassVar[str] = "execution.output_rejected"
    materialization: Materialization
    reason: str


class OutputRecorded(Payload, frozen=True, kw_only=True):
    """Derived: an output is good or held for the first time. Not for repeated or late outputs."""

    TYPE: ClassVar[str] = "execution.output_recorded"
    materialization: Materialization
    held: bool


class OutputMissed(Payload, frozen=True, kw_only=True):
    """Derived: a task failed for good; its partition stays as it is."""

    TYPE: ClassVar[str] = "execution.output_missed"
    asset_id: str
    partition: str
    run_id: str
    error: ErrorInfo


class PartitionFailed(Payload, frozen=True, kw_only=True):
    """Derived: the last attempt for a partition had no good output."""

    TYPE: ClassVar[str] = "execution.partition_failed"
    asset_id: str
    run_id: str
    held: bool
    """Whether it had an output that is held."""
    partition: str = ""
    code: str = ""
    bad_since: int = 0
    """The position of the attempt before if that had none either, or 0."""


class PartitionRecovered(Payload, frozen=True, kw_only=True):
    """Derived: a partition whose last attempt had no good output has one now."""

    TYPE: ClassVar[str] = "execution.partition_recovered"
    asset_id: str
    run_id: str
    bad_since: int
    """The position of that attempt."""
    partition: str = ""


class PartitionMaterialized(Payload, frozen=True, kw_only=True):
    """Derived: a partition has another current version. Not for held outputs."""

    TYPE: ClassVar[str] = "execution.partition_materialized"
    asset_id: str
    asset: str
    partition: str
    materialization_id: str
    made_at: datetime
    """When it was reported, also if it was held and approved later."""
    run_id: str = ""
    rows: int = 0
    bytes: int = 0
    files: int = 0
    schema_hash: str = ""
    again: bool = False
    """It was current before: it was released, or the version after it was quarantined."""


class VersionWithdrawn(Payload, frozen=True, kw_only=True):
    """Derived: a current version was quarantined. The one before it is current, if there is one."""

    TYPE: ClassVar[str] = "execution.version_withdrawn"
    asset_id: str
    partition: str
    materialization_id: str
    run_id: str
    position: int
    """Of the report that brought it."""
    previous_id: str = ""
    previous_schema_hash: str = ""
    previous_position: int = 0


class SupersededHeld(Payload, frozen=True, kw_only=True):
    """Derived: a good version that was not current was quarantined."""

    TYPE: ClassVar[str] = "execution.superseded_held"
    asset_id: str
    partition: str
    materialization_id: str
    position: int
    """Of the report that brought it."""


class CostIncurred(Payload, frozen=True, kw_only=True):
    """Derived: the usage of an attempt, good or not."""

    TYPE: ClassVar[str] = "execution.cost_incurred"
    asset_id: str
    asset: str
    partition: str
    run_id: str
    task_id: str
    attempt: int
    attempt_id: str
    outcome: TaskOutcome
    usage: Usage
    cost: Cost


class AttemptRecorded(Payload, frozen=True, kw_only=True):
    """Derived: the usage of an attempt was recorded; once for each."""

    TYPE: ClassVar[str] = "execution.attempt_recorded"
    asset_id: str
    attempt: int
    wall_ms: int
    run_id: str = ""
    cost: int = 0
    """In 10⁻⁹ of the currency's unit."""
    currency: str = ""


class QuarantineDecided(Payload, frozen=True, kw_only=True):
    """A command: a held output is approved or rejected."""

    TYPE: ClassVar[str] = "execution.quarantine_decided"
    COMMAND: ClassVar[bool] = True
    asset_id: str
    materialization_id: str
    approved: bool
    reason: str = ""


class RecordedVersion(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The row of a good version, for a fold that cannot read it because it is in history."""

    materialization_id: str
    partition_key: str
    version: int
    run_id: str
    task_id: str
    attempt_id: str
    path: str
    files: int
    rows: int
    bytes: int
    schema_hash: str
    fingerprint: str
    created_at: datetime
    position: int
    metadata: dict[str, str] = {}
    superseded_at: datetime | None = None
    details: str = ""


class VersionQuarantined(Payload, frozen=True, kw_only=True):
    """A command: a good version is held until a decision."""

    TYPE: ClassVar[str] = "execution.version_quarantined"
    COMMAND: ClassVar[bool] = True
    asset_id: str
    asset: str
    version: RecordedVersion
    previous: RecordedVersion | None = None
    """The newest good version of its partition before it: current again if it was current."""
    partition_version: int = 0
    """The row version of the partition that this was decided from."""
    reason: str = ""


class HoldEnded(Payload, frozen=True, kw_only=True):
    """Derived: a decision about a held output, for tasks that wait for it."""

    TYPE: ClassVar[str] = "execution.hold_ended"
    asset_id: str
    asset: str
    materialization_id: str
    approved: bool
    reason: str = ""
    position: int = 0
    """Of the report that brought it."""


class Version(Struct, frozen=True, omit_defaults=True, gc=False):
    materialization_id: str
    reason: str = ""


class VersionsExpired(Payload, frozen=True, kw_only=True):
    """A command: the files of these versions may be deleted; none is current or held."""

    TYPE: ClassVar[str] = "execution.versions_expired"
    COMMAND: ClassVar[bool] = True
    asset_id: str
    versions: tuple[Version, ...]


class VersionsDamaged(Payload, frozen=True, kw_only=True):
    """A command: files of these versions are missing or unreadable. A current one among them is
    no longer up to date, so that the next plan writes its partition again."""

    TYPE: ClassVar[str] = "execution.versions_damaged"
    COMMAND: ClassVar[bool] = True
    asset_id: str
    versions: tuple[Version, ...]


EVENTS: tuple[type[Payload], ...] = (
    QuarantineDecided,
    VersionQuarantined,
    VersionsExpired,
    VersionsDamaged,
)
