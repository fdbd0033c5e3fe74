"""What can happen to deployments, runs and tasks.

| category | events | who |
|---|---|---|
| commands | DeploymentCreated, RunRequested, RunRequestWithdrawn, RunTriggered, RunCancelRequested, PartitionKeysChanged | people |
| parts of commands | DeploymentPart, DeploymentInstalled, TasksPlanned | whoever gave the command |
| acknowledgement | DispatchEnqueued | the dispatcher: the queue has it |
| controller facts | RunRequestRefused, TimerFired, AttemptLost, TasksCancelled | controllers |
| worker facts | TaskStarted, TaskFinished | workers |

That a task becomes ready or is skipped, or that a run ends, is no event: the fold computes it. All
facts may come twice, late and in any order; those about an attempt name it, and count only while it
is the active one.
"""  # noqa: E501

from __future__ import annotations

from datetime import datetime
from typing import ClassVar, Literal

from msgspec import UNSET, Struct, UnsetType, field

from arco.log.envelope import Payload
from arco.orchestration.declarations import (
    AcceptedBreak,
    DeployedDeclaration,
    DeployedNotification,
    PlainSchedule,
    speaks_of_contracts,
)
from arco.orchestration.limit_tables import Permit
from arco.orchestration.plan import PlanRequest
from arco.orchestration.states import RunTrigger
from servo.contract.manifest import DEFAULT_PROJECT, ColumnDef, SlaSpec
from servo.contract.task import TaskResult


class OrchestrationCommand(Payload, frozen=True, kw_only=True):
    COMMAND: ClassVar[bool] = True


class DeployedAsset(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    key: str
    asset_id: str
    transform: str = ""
    renamed_from: str = ""
    definition: str = ""
    """Fingerprint of what the catalog shows. The values are given only when it changed."""
    description: str = ""
    owners: tuple[str, ...] = ()
    tags: dict[str, str] = {}
    columns: tuple[ColumnDef, ...] = ()
    kind: str = ""
    code: str = ""
    continued: bool = False
    """These are more columns of the asset before it, whose columns are too many for one event."""
    shape: str = ""
    """Fingerprint of its partitions; empty for an asset without."""
    inputs: tuple[tuple[str, str], ...] | None = None
    """Keys and parameters of what its code reads. Older versions do not say it."""
    sla: SlaSpec | None = None
    terms: tuple[str, ...] = ()
    links: dict[str, str] = {}
    deprecated: str = ""
    key_sets: dict[str, str] = {}
    """By dynamic dimension, the name of its set of keys."""


def _is_newer(asset: DeployedAsset) -> bool:
    """Whether it has fields that older programs do not read."""
    return asset.inputs is not None


def _is_of_6(declaration: DeployedDeclaration) -> bool:
    return isinstance(declaration, DeployedNotification) and "cost" in declaration.on


class DeploymentCreated(OrchestrationCommand, frozen=True, kw_only=True, omit_defaults=True):
    """A project's manifest becomes the one that runs are planned from.

    Version 1 has all assets of the manifest. Version 2 has those that changed since the
    parent, and the keys of those that left; a large change is in parts, which are in the log
    before this command. It takes effect with the `DeploymentInstalled` in the same batch.
    Version 3 has schedules that changed, too; version 4 has all kinds of declarations; version 5
    has inputs, code and governance of assets, and schema changes that are accepted; version 6 has
    the sets of keys of their dynamic dimensions, and notification rules about costs; version 7 has
    contracts.
    """

    TYPE: ClassVar[str] = "orchestration.deployment_created"
    VERSION: ClassVar[int] = 7
    deployment_id: str
    parent: str = ""
    """The project's deployment that this was built on; refused if another has come in between."""
    manifest: str
    artifact: str
    assets: tuple[DeployedAsset, ...] = ()
    schedules: int = 0
    sensors: int = 0
    message: str = ""
    rollback_of: str = ""
    project: str = DEFAULT_PROJECT
    total: int | None = None
    """How many assets the project has with this deployment. None in version 1."""
    removed: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    """Assets of other projects that the manifest's assets read."""
    parts: int = 0
    based_on: str = ""
    """The newest deployment of any project when inputs across projects were checked; refused
    if another has come in between. Empty if there was nothing to check."""
    changed_schedules: tuple[PlainSchedule, ...] = ()
    """Of version 3, as the next."""
    removed_schedules: tuple[str, ...] = ()
    declarations: tuple[DeployedDeclaration, ...] = ()
    """Those that are new, or differ from what the project had."""
    removed_declarations: tuple[str, ...] = ()
    """Ids."""
    accepted: tuple[AcceptedBreak, ...] = ()

    @property
    def lowest_version(self) -> int:
        if speaks_of_contracts(self.declarations, self.removed_declarations):
            return 7
        if any(asset.key_sets for asset in self.assets) or any(map(_is_of_6, self.declarations)):
            return 6
        if self.accepted or any(map(_is_newer, self.assets)):
            return 5
        if self.declarations or self.removed_declarations:
            return 4
        if self.changed_schedules or self.removed_schedules:
            return 3
        return 1 if self.total is None else 2


class DeploymentPart(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """Some of the assets of a deployment that is yet to be created. Without effect by itself."""

    TYPE: ClassVar[str] = "orchestration.deployment_part"
    VERSION: ClassVar[int] = 6
    project: str = DEFAULT_PROJECT
    deployment_id: str
    parent: str = ""
    """A part of a deployment that was built on another than the current one is forgotten."""
    number: int
    """From 0."""
    asset_keys: tuple[str, ...] = ()
    asset_ids: tuple[str, ...] = ()
    renamed_from: tuple[str, ...] = ()
    """One for each key; empty for an asset that keeps its name."""
    removed: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    packed: str = ""
    """The `DeployedAsset`s, as base64 of deflated JSON."""
    schedules: str = ""
    """`DeployedSchedule`s, likewise. Of version 2, as the next."""
    removed_schedules: tuple[str, ...] = ()
    declarations: str = ""
    """`DeployedDeclaration`s, likewise."""
    removed_declarations: tuple[str, ...] = ()
    """Ids."""
    has_contracts: bool = False
    """Whether some of the declarations speak of contracts."""

    @property
    def lowest_version(self) -> int:
        if self.has_contracts:
            return 6
        if self.packed:  # with what version 6 of DeploymentCreated has of assets
            return 5
        if self.declarations or self.removed_declarations:
            return 3
        return 2 if self.schedules or self.removed_schedules else 1


class DeploymentInstalled(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """The parts of a deployment take effect, all at once, if the command before it was applied."""

    TYPE: ClassVar[str] = "orchestration.deployment_installed"
    project: str = DEFAULT_PROJECT
    deployment_id: str
    parent: str = ""


class RunAsset(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What the fold needs of an asset to decide about its tasks."""

    key: str
    asset_id: str
    max_attempts: int = 3
    delay_s: int = 60
    max_delay_s: int = 3600
    retry_on: tuple[str, ...] = ()
    never_on: tuple[str, ...] = ()
    timeout_s: int = 0
    priority: int = 0
    pool: str = ""


class RunRequested(OrchestrationCommand, frozen=True, kw_only=True, omit_defaults=True):
    """A request for a run, which an orchestrator plans or refuses later.

    Its key is the run's key: however often it is planned, it leads to one run.
    """

    TYPE: ClassVar[str] = "orchestration.run_requested"
    request_key: str
    request: PlanRequest | None = None
    packed: str = ""
    """Of a large request the same, as base64 of deflated JSON."""
    fingerprint: str
    """Of the request: the same key with another one is a conflict."""
    kind: RunTrigger = RunTrigger.MANUAL
    reference: str = ""
    """What caused it: for a tick, the schedule and the tick's name."""
    run_id: str = ""
    """The id that its run will have, if the requester chose it."""
    until: datetime | None = None
    """Periods that end later do not exist for it; None: when it is planned."""
    timeout_s: int = 0
    priority: int = 0


class RunRequestWithdrawn(OrchestrationCommand, frozen=True, kw_only=True):
    """A request for a run is withdrawn. Only before it is planned."""

    TYPE: ClassVar[str] = "orchestration.run_request_withdrawn"
    request_key: str
    reason: str = ""


RefusalCode = Literal["", "partitions_gone", "backfill_cancelled", "withdrawn", "merged"]
"""Why a request led to no run; empty: it cannot be planned. `merged`: its key was used before."""


class RunRequestRefused(Payload, frozen=True, kw_only=True):
    """A request cannot be planned. Final: its key starts no run after this."""

    TYPE: ClassVar[str] = "orchestration.run_request_refused"
    VERSION: ClassVar[int] = 2
    request_key: str
    reason: str
    hint: str = ""
    code: RefusalCode = ""

    @property
    def lowest_version(self) -> int:
        return 2 if self.code else 1


class RunTriggered(OrchestrationCommand, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "orchestration.run_triggered"
    VERSION: ClassVar[int] = 3
    run_id: str
    plan_id: str
    plan_fingerprint: str
    deployment_id: str
    tasks_total: int
    run_key: str = ""
    request_fingerprint: str = ""
    """Of what was asked for: the same `run_key` with another one is a conflict."""
    trigger: RunTrigger = RunTrigger.MANUAL
    triggered_by: str = ""
    selection: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    """As was asked; of long lists the first, the plan has all."""
    timeout_s: int = 0
    priority: int = 0
    retry_of: str = ""
    engine_id: str = field(default="", name="pool")
    """The local engine that serves it; empty for any orchestrator. In the log it is `pool`."""
    selection_total: int = 0
    """How many there are where the list holds only the first; 0 where it holds all."""
    partitions_total: int = 0
    reference: str | UnsetType = UNSET
    """What caused it, beside `trigger`, which tells the kind of cause. Unset in version 1, whose
    encoding, and so the fingerprint of the command, stays what it was."""
    permit: Permit | UnsetType = UNSET
    """Where a limit of runs is set: that there was room for it."""
    timeout_limit: str | UnsetType = UNSET
    """The limit that `timeout_s` comes from, where it is not the run's own."""

    @property
    def lowest_version(self) -> int:
        if self.permit or self.timeout_limit:
            return 3
        return 2 if self.reference else 1


class TaskPlan(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    task_id: str
    asset: int
    """Index into the assets beside it."""
    partition: str = ""
    deps: tuple[int, ...] = ()
    """Indexes of tasks in the whole plan, all smaller than this task's own."""
    reused: str = ""
    """The materialization that makes it unnecessary."""
    tenant: str = ""


class TasksPlanned(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """A slice of a run's plan. The run starts when all its tasks are there.

    Written and read by `plan_events.py`: slices of a large plan are compressed.
    """

    TYPE: ClassVar[str] = "orchestration.tasks_planned"
    VERSION: ClassVar[int] = 3
    run_id: str
    first: int
    """Index of the first of these tasks."""
    assets: tuple[RunAsset, ...] = ()
    tasks: tuple[TaskPlan, ...] = ()
    packed: str = ""
    """Of a large plan the tasks, as base64 of deflated JSON."""
    count: int = 0
    """How many tasks are packed: for people who read the log."""

    @property
    def lowest_version(self) -> int:
        if any(asset.pool for asset in self.assets):
            return 3
        return 2 if self.packed else 1


class RunCancelRequested(OrchestrationCommand, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "orchestration.run_cancel_requested"
    VERSION: ClassVar[int] = 2
    run_id: str
    force: bool = False
    """Do not wait for the workers to stop."""
    reason: str = ""
    in_steps: bool = False
    """Only the run's row changes here; `TasksCancelled` facts end its tasks in chunks.
    Without it, as in version 1, this one fact ends all tasks that wait."""

    @property
    def lowest_version(self) -> int:
        return 2 if self.in_steps else 1


class TasksCancelled(Payload, frozen=True, kw_only=True):
    """Tasks of a run that is being cancelled do not run any more.

    Those that are with a worker are left to it, unless `force` is set.
    """

    TYPE: ClassVar[str] = "orchestration.tasks_cancelled"
    run_id: str
    task_ids: tuple[str, ...]
    force: bool = False


class DispatchEnqueued(Payload, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "orchestration.dispatch_enqueued"
    run_id: str
    task_id: str
    attempt_id: str
    redelivery: int = 0
    queue_name: str = ""


class TaskStarted(Payload, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "orchestration.task_started"
    run_id: str
    task_id: str
    attempt_id: str
    worker_id: str


class TaskFinished(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """Written and read by `results.py`: a large result is compressed."""

    TYPE: ClassVar[str] = "orchestration.task_finished"
    VERSION: ClassVar[int] = 2
    result: TaskResult
    packed: str = ""
    """Of a large result its columns, checks and lineage, as base64 of deflated JSON."""
    parts: dict[str, int] = {}
    """What is packed, and how many there are of it: for people who read the log."""

    @property
    def lowest_version(self) -> int:
        return 2 if self.packed else 1


class TimerFired(Payload, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "orchestration.timer_fired"
    run_id: str
    timer_id: str


class AttemptLost(Payload, frozen=True, kw_only=True):
    """An attempt is lost: no worker runs it, and none will report."""

    TYPE: ClassVar[str] = "orchestration.attempt_lost"
    run_id: str
    task_id: str
    attempt_id: str
    reason: str
    worker_id: str = ""


class PartitionKeysChanged(OrchestrationCommand, frozen=True, kw_only=True):
    """Keys of a dynamic partition dimension are added or removed."""

    TYPE: ClassVar[str] = "orchestration.partition_keys_changed"
    keys: str
    """The name of the set."""
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


COMMANDS: tuple[type[OrchestrationCommand], ...] = (
    DeploymentCreated,
    RunRequested,
    RunRequestWithdrawn,
    RunTriggered,
    RunCancelRequested,
    PartitionKeysChanged,
)
EVENTS: tuple[type[Payload], ...] = (
    *COMMANDS,
    DeploymentPart,
    DeploymentInstalled,
    RunRequestRefused,
    TasksPlanned,
    DispatchEnqueued,
    TaskStarted,
    TaskFinished,
    TimerFired,
    AttemptLost,
    TasksCancelled,
)
