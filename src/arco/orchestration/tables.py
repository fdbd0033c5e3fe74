"""Orchestration's tables. Those of a run are sharded by the run. Rows of finished runs move to
history after two days: late reports about them change nothing.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal

from arco.orchestration.states import (
    Gate,
    RequestState,
    RunState,
    RunTrigger,
    TaskState,
    TimerKind,
    TimerState,
)
from arco.state.table import LOOKED_UP_GROUP, WIDE_GROUP, History, Row, Table
from servo.contract.manifest import Category

KEPT_HOT = timedelta(days=2)
RUN_KEYS_KEPT = timedelta(days=30)
RUN_NAMESPACES = 32
"""A run of more namespaces does not name them: its row is written for each of its tasks."""


class DeploymentRow(Row, frozen=True):
    project: str
    deployment_id: str
    number: int
    manifest: str
    artifact: str
    assets: int
    schedules: int
    sensors: int
    message: str
    rollback_of: str
    created_at: datetime
    created_by: str


class DeployedAssetRow(Row, frozen=True):
    project: str
    asset_key: str
    asset_id: str
    transform: str
    definition: str
    deployment_id: str
    """Of an active asset, the deployment that last changed it; of another, the last that had it."""
    active: bool
    """Whether the current deployment has it."""
    previous_keys: list[str]
    shape: str = ""
    """Fingerprint of its partitions; empty for an asset without."""
    inputs: str = ""
    """Fingerprint of what its code reads; empty where that was never said."""
    key_sets: dict[str, str] = {}
    """By dynamic dimension, the name of its set of keys."""


class ProjectRow(Row, frozen=True):
    project: str
    deployment_id: str
    """The current one."""
    number: int
    reads: list[str] = []
    """Assets of other projects that its own read, or look values up in."""


class ProjectNamespaceRow(Row, frozen=True):
    """Whose a namespace is. All rows of deployed assets in it are that project's."""

    namespace: str
    project: str
    assets: int
    """How many active ones; another project may take a namespace that has none."""


class DeploymentPartRow(Row, frozen=True):
    """A part of a deployment that has not taken effect yet."""

    project: str
    deployment_id: str
    number: int
    asset_keys: list[str]
    asset_ids: list[str]
    renamed_from: list[str]
    """One for each key; empty for an asset that keeps its name."""
    removed: list[str]
    reads: list[str]
    packed: str
    """The deployed assets, as base64 of deflated JSON."""
    received_at: datetime
    schedules: str = ""
    """Schedules, likewise."""
    removed_schedules: list[str] = []
    declarations: str = ""
    """Declarations, likewise."""
    removed_declarations: list[str] = []


class DeclarationRow(Row, frozen=True):
    """Something other than an asset that a project's current deployment declares."""

    project: str
    kind: str
    name: str
    fingerprint: str
    deployment_id: str
    """The one that last changed it."""


class LastDeploymentRow(Row, frozen=True):
    name: str
    deployment_id: str
    """The newest deployment of any project."""


class RunKeyRow(Row, frozen=True):
    run_key: str
    run_id: str
    fingerprint: str
    received_at: datetime


class RunRequestRow(Row, frozen=True):
    request_key: str
    state: RequestState
    kind: RunTrigger
    reference: str
    selection: list[str]
    """As was asked; of long lists the first, `request` has all."""
    partitions: list[str]
    request: str
    """The whole request, as JSON."""
    fingerprint: str
    run_id: str
    """Its run. Of one that is pending the id that the run will have, and of one that was refused
    the id that it would have had, if somebody chose it."""
    reason: str
    hint: str
    until: datetime | None
    timeout_s: int
    priority: int
    requested_at: datetime
    requested_by: str
    decided_at: datetime | None


class RunRow(Row, frozen=True):
    run_id: str
    plan_id: str
    plan_fingerprint: str
    deployment_id: str
    run_key: str
    state: RunState
    trigger: RunTrigger
    triggered_by: str
    selection: list[str]
    partitions: list[str]
    priority: int
    tasks_total: int
    tasks_planned: int
    tasks_succeeded: int
    tasks_reused: int
    tasks_failed: int
    tasks_skipped: int
    tasks_cancelled: int
    retries: int
    timeout_s: int
    timed_out: bool
    retry_of: str
    created_at: datetime
    started_at: datetime | None
    cancel_requested_at: datetime | None
    cancel_reason: str
    finished_at: datetime | None
    pool: str = ""
    """The engine id, by its name on disk."""
    tasks_held: int = 0
    """Tasks whose output is held."""
    failed_by: str = ""
    """The task whose checks ended the run."""
    cancelled_by: str = ""
    """Who asked for the cancellation, where somebody did."""
    cancel_forced: bool = False
    """The cancellation does not wait for workers to stop."""
    selection_total: int = 0
    """How many there are where `selection` holds only the first; 0 where it holds all."""
    partitions_total: int = 0
    reference: str = ""
    """What caused it, beside `trigger`: for a tick, the schedule and the tick's name."""
    timeout_limit: str = ""
    """The limit that `timeout_s` comes from; empty where it is the run's own."""
    namespaces: list[str] | None = None
    """Those of the assets of its tasks. Null where only its tasks tell: while it is being planned,
    where there are many, and of runs that an earlier version of Arco planned."""

    @property
    def engine_id(self) -> str:
        """The local engine that serves it; empty for a run of any orchestrator."""
        return self.pool

    @property
    def tasks_done(self) -> int:
        return (
            self.tasks_succeeded
            + self.tasks_reused
            + self.tasks_failed
            + self.tasks_skipped
            + self.tasks_cancelled
        )


class RunOrderRow(Row, frozen=True):
    """What of a run tells whether it is in a list, and where."""

    run_id: str
    state: RunState
    created_at: datetime
    namespaces: list[str] | None = None


class TaskRow(Row, frozen=True):
    run_id: str
    task_id: str
    index: int
    asset_key: str
    asset_id: str
    partition_key: str
    tenant: str
    state: TaskState
    attempt: int
    """0 before it is ready."""
    attempt_id: str
    """Of the active or last attempt: reports of others change nothing."""
    max_attempts: int
    deps_total: int
    deps_satisfied: int
    upstream: list[int]
    """Only while the plan is incomplete: the indexes it waits for."""
    downstream: list[str]
    priority: int
    timeout_s: int
    retry_delay_s: int
    retry_max_delay_s: int
    retry_on: list[str]
    never_on: list[str]
    redelivery: int
    worker_id: str
    ready_at: datetime | None
    dispatched_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    retry_not_before: datetime | None
    materialization_id: str
    path: str
    adopted: bool
    error_category: Category | Literal[""]
    error_code: str
    error_message: str
    error_hint: str
    wall_ms: int
    cpu_ms: int
    peak_memory_kib: int
    rows: int = 0
    bytes: int = 0
    gate: Gate = ""
    error_place: str = ""
    """The file and line of the author's that an error comes from: `shop/raw.py:12`."""
    pool: str = ""
    """The pool that it takes a slot of while it is in flight; empty for none."""


class TaskOrderRow(Row, frozen=True):
    """The columns of a task that decide whether and where it is in a list."""

    run_id: str
    task_id: str
    index: int
    asset_key: str
    state: TaskState
    finished_at: datetime | None


class TimerRow(Row, frozen=True):
    run_id: str
    timer_id: str
    kind: TimerKind
    task_id: str
    attempt: int
    fire_at: datetime
    state: TimerState
    ended_at: datetime | None


class KeySetAssetRow(Row, frozen=True):
    """An asset that has a dynamic dimension with this set of keys, or had one."""

    keys: str
    asset_id: str
    dimensions: list[str]


class DynamicKeyRow(Row, frozen=True):
    keys: str
    key: str
    added_at: datetime
    added_by: str


PROJECTS = Table("orchestration", "projects", ProjectRow, key=["project"])
DEPLOYMENTS = Table("orchestration", "deployments", DeploymentRow, key=["project", "deployment_id"])
DEPLOYED_ASSETS = Table(
    "orchestration",
    "deployed_assets",
    DeployedAssetRow,
    key=["project", "asset_key"],
    group_rows=LOOKED_UP_GROUP,
)
PROJECT_NAMESPACES = Table(
    "orchestration", "project_namespaces", ProjectNamespaceRow, key=["namespace"]
)
DEPLOYMENT_PARTS = Table(
    "orchestration",
    "deployment_parts",
    DeploymentPartRow,
    key=["project", "deployment_id", "number"],
)
DECLARATIONS = Table(
    "orchestration", "declarations", DeclarationRow, key=["project", "kind", "name"]
)
LAST_DEPLOYMENT = Table("orchestration", "last_deployment", LastDeploymentRow, key=["name"])
RUN_KEYS = Table(
    "orchestration",
    "run_keys",
    RunKeyRow,
    key=["run_key"],
    history=History("received_at", RUN_KEYS_KEPT),
)
RUN_REQUESTS = Table(
    "orchestration",
    "run_requests",
    RunRequestRow,
    key=["request_key"],
    history=History("decided_at", KEPT_HOT),
)
RUNS = Table(
    "orchestration", "runs", RunRow, key=["run_id"], history=History("finished_at", KEPT_HOT)
)
RUN_ORDER = RUNS.view(RunOrderRow)
TASKS = Table(
    "orchestration",
    "tasks",
    TaskRow,
    key=["run_id", "task_id"],
    history=History("finished_at", KEPT_HOT),
    group_rows=WIDE_GROUP,
)
TASK_ORDER = TASKS.view(TaskOrderRow)
TIMERS = Table(
    "orchestration",
    "timers",
    TimerRow,
    key=["run_id", "timer_id"],
    history=History("ended_at", KEPT_HOT),
)
DYNAMIC_KEYS = Table("orchestration", "dynamic_keys", DynamicKeyRow, key=["keys", "key"])
KEY_SET_ASSETS = Table("orchestration", "key_set_assets", KeySetAssetRow, key=["keys", "asset_id"])
