"""Histories that golden files are recorded from: each event type in its newest version.

To cover a new event type or version, add it to `newest`, or add a story to `STORIES`; then
run `python -m tests.golden.record`. `first_versions` was recorded by an earlier program.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET

from arco.automation.asset_events import (
    AutomationAdvanced,
    AutomationPaused,
    AutomationRequest,
    AutomationResumed,
)
from arco.automation.backfill_states import BackfillCause
from arco.automation.events import (
    BackfillAdvanced,
    BackfillCancelled,
    BackfillCreated,
    BackfillEnded,
    BackfillPaused,
    BackfillResumed,
    BackfillRetried,
    SchedulePaused,
    ScheduleResumed,
    ScheduleTicked,
)
from arco.automation.freshness_events import (
    FreshnessEvaluated,
    FreshnessObserved,
    FreshnessRunDue,
    SeriesData,
)
from arco.automation.freshness_tables import FreshnessStatus
from arco.automation.sensor_events import (
    EvaluationError,
    SensorEvaluated,
    SensorMessagePushed,
    SensorPaused,
    SensorReset,
    SensorResumed,
    cursor_digest,
)
from arco.catalog.column_rows import column_id
from arco.catalog.events import (
    AssetCreated,
    AssetUpdated,
    Column,
    ColumnAdded,
    ColumnDropped,
    ColumnUpdated,
    NamespaceCreated,
)
from arco.catalog.governance_events import (
    AssetGoverned,
    GovernedValue,
    NamespaceGoverned,
    TermCreated,
    TermDropped,
    TermUpdated,
    ValueRef,
)
from arco.catalog.schema_events import ColumnRenamed
from arco.execution.events import (
    QuarantineDecided,
    RecordedVersion,
    Version,
    VersionQuarantined,
    VersionsDamaged,
)
from arco.execution.tables import PARTITIONS
from arco.lineage.events import EdgeAdded, EdgeRemoved
from arco.log.envelope import Payload, Recorded, make_event
from arco.notifications.events import (
    NotificationAttempted,
    NotificationClaimed,
    NotificationRetried,
)
from arco.orchestration.declarations import (
    AcceptedBreak,
    DeployedAutomation,
    DeployedFreshness,
    DeployedNamespace,
    DeployedNotification,
    DeployedSchedule,
    DeployedSensor,
    PlainSchedule,
)
from arco.orchestration.deployments import packed
from arco.orchestration.events import (
    DeployedAsset,
    DeploymentCreated,
    DeploymentInstalled,
    DeploymentPart,
    DispatchEnqueued,
    RunAsset,
    RunCancelRequested,
    RunRequested,
    RunRequestRefused,
    RunRequestWithdrawn,
    RunTriggered,
    TaskFinished,
    TaskPlan,
    TasksCancelled,
    TasksPlanned,
    TaskStarted,
)
from arco.orchestration.limit_events import (
    AdmittedTask,
    DispatchPaused,
    DispatchResumed,
    LimitSet,
    LimitUnset,
    TasksAdmitted,
)
from arco.orchestration.limit_tables import LimitName, Permit
from arco.orchestration.packing import pack
from arco.orchestration.plan import Axis, Chunk, PlanRequest
from arco.orchestration.run_requests import request_fingerprint
from servo.contract import canonical
from servo.contract.identity import attempt_id
from servo.contract.manifest import ColumnDef, SecretRef, SlaSpec, TimeDimension
from servo.contract.sensing import SensorAnswer, SensorRun
from servo.contract.task import (
    CheckResult,
    ColumnInfo,
    ColumnLineage,
    ColumnSource,
    Cost,
    ErrorInfo,
    InputRef,
    Lineage,
    Materialization,
    MaterializationRef,
    ObjectRef,
    TaskResult,
    Truncated,
    Usage,
)
from tests.kit.runs import ANYTHING, Folding, Node, World

replace = msgspec.structs.replace


class Log(Folding):
    """A log whose events have fixed ids and times."""

    def record(self, payload: Payload, *, key: str = "", actor: str = "") -> Recorded:
        self.position += 1
        event = make_event(
            payload,
            id=f"01K0NEWEST{self.position:016d}",
            time=self.now,
            source="golden",
            tenant="acme",
            workspace="prod",
            idempotency_key=key,
            actor=actor,
        )
        recorded = Recorded(self.position, self.now, event, payload)
        self.log.append(recorded)
        return recorded

    def do(self, payload: Payload, *, key: str = "", actor: str = "ana") -> str:
        """Append and fold, a minute later; the event's id."""
        recorded = self.wait(60).record(payload, key=key, actor=actor)
        self.fold([recorded])
        return recorded.event.id


def newest() -> Log:
    log = Log()
    _catalog(log)
    _deployments(log)
    _runs(log)
    return log


def _catalog(log: Log) -> None:
    log.do(NamespaceCreated(namespace="sales"))
    columns = (Column(name="id", type="bigint", nullable=False), Column(name="mail", type="text"))
    id = log.do(AssetCreated(namespace="sales", name="orders", columns=columns))
    name = "sales.orders"
    log.do(AssetUpdated(asset_id=id, asset_key=name, description="orders", tags={"pii": "yes"}))
    log.do(AssetUpdated(asset_id=id, asset_key="sales.another", description="refused"))
    added = Column(name="amount", type="double", pii="", sensitivity="internal")
    log.do(ColumnAdded(asset_id=id, asset_key=name, column=added), key="add-amount")
    log.do(ColumnAdded(asset_id=id, asset_key=name, column=added), key="add-amount")
    mail, first = column_id(id, 1), column_id(id, 0)
    log.do(
        ColumnUpdated(asset_id=id, asset_key=name, column_id=mail, column_name="mail", name="email")
    )
    log.do(ColumnDropped(asset_id=id, asset_key=name, column_id=first, column_name="id"))


def _deployed(key: str, id: str, **fields: Any) -> DeployedAsset:
    return DeployedAsset(
        key=key, asset_id=id, transform=f"t-{key}", definition=f"d-{key}", **fields
    )


def _deployments(log: Log) -> None:
    column = ColumnDef(name="id", type="bigint", nullable=False, description="the order")
    orders = _deployed("raw.orders", "A1", owners=("ana",), tags={"x": "y"}, columns=(column,))
    log.do(
        DeploymentCreated(
            deployment_id="D1",
            manifest="m1",
            artifact="z1",
            project="shop",
            assets=(orders, _deployed("mart.income", "A2"), _deployed("mart.old", "A3")),
            total=3,
            schedules=1,
            sensors=1,
            message="first",
        )
    )
    parts = [
        [_deployed("mart.revenue", "A2", renamed_from="mart.income")],
        [_deployed("mart.held", "A4"), _deployed("mart.below", "A5")],
    ]
    for number, assets in enumerate(parts):
        log.do(
            DeploymentPart(
                project="shop",
                deployment_id="D2",
                parent="D1",
                number=number,
                asset_keys=tuple(asset.key for asset in assets),
                asset_ids=tuple(asset.asset_id for asset in assets),
                renamed_from=tuple(asset.renamed_from for asset in assets),
                removed=("mart.old",) if number == 0 else (),
                reads=("ops.calendar",) if number == 0 else (),
                packed=packed(assets),
            )
        )
    log.do(
        DeploymentCreated(
            deployment_id="D2",
            parent="D1",
            manifest="m2",
            artifact="z2",
            project="shop",
            total=4,
            parts=2,
            based_on="D1",
            message="second",
        )
    )
    log.do(DeploymentInstalled(project="shop", deployment_id="D2", parent="D1"))
    log.do(DeploymentPart(project="shop", deployment_id="never", parent="D2", number=0))


ASSETS = (
    RunAsset(key="raw.orders", asset_id="A1", delay_s=10, timeout_s=300, retry_on=("OSError",)),
    RunAsset(key="mart.held", asset_id="A4", priority=1),
)
LINEAGE = Lineage(
    read=(
        InputRef(
            asset="raw.orders",
            parameter="orders",
            materializations=(MaterializationRef(partition="p", materialization_id="M1", rows=3),),
            count=300,
            rows=900,
            bytes=9_000,
            last="q",
            fingerprint="f",
            listed_in=ObjectRef("inputs/R1/x.parquet", "x", 10),
        ),
    ),
    columns=(
        ColumnLineage(
            column="income",
            sources=(ColumnSource("raw.orders", "amount", "aggregation"),),
            method="sql",
            confidence="medium",
        ),
    ),
    influences=(ColumnSource("raw.orders", "id", "filter"),),
    method="mixed",
    confidence="medium",
    reason="from the query's text",
    coverage_percent=100,
)
CHECK = CheckResult(
    name="not_null",
    passed=False,
    message="id is null in 2 of 3 rows",
    kind="not_null",
    columns=("id",),
    status="failed",
    action="quarantine",
    failing=2,
    method="footer",
)


def _attempt(run: str, task: str) -> dict[str, Any]:
    return {"run_id": run, "task_id": task, "attempt_id": attempt_id(run, task, 1)}


def _runs(log: Log) -> None:
    for run in ("R1", "R2", "R3"):
        log.do(
            RunTriggered(
                run_id=run,
                plan_id=f"P{run}",
                plan_fingerprint="fp",
                deployment_id="D2",
                tasks_total=2,
                selection=("mart.*",),
                selection_total=300,
                partitions=("p",),
                partitions_total=200,
                timeout_s=3600,
            )
        )
        tasks = (TaskPlan(task_id="t0", asset=0, partition="p"), TaskPlan(task_id="t1", asset=1))
        text = pack(msgspec.json.encode(tasks))
        log.do(TasksPlanned(run_id=run, first=0, assets=ASSETS, packed=text, count=2), actor="")
        log.do(DispatchEnqueued(**_attempt(run, "t1"), queue_name="d_x"), actor="")
        log.do(TaskStarted(**_attempt(run, "t1"), worker_id="w1"), actor="")
    log.do(_held("R1", "M3"), actor="")
    log.do(_held("R3", "M5"), actor="")
    log.do(QuarantineDecided(asset_id="A4", materialization_id="M3", approved=True))
    log.do(RunCancelRequested(run_id="R2", force=True, reason="enough", in_steps=True))
    log.do(TasksCancelled(run_id="R2", task_ids=("t0", "t1"), force=True), actor="")


def _held(run: str, id: str) -> TaskFinished:
    made = Materialization(
        materialization_id=id,
        asset="mart.held",
        asset_id="A4",
        partition="",
        path=f"data/mart/held/_/{id}",
        file_count=2_000,
        rows=3,
        bytes=300,
        schema_hash="s",
        fingerprint="f",
        metadata={"note": "x"},
        details=ObjectRef(f"data/mart/held/_/{id}/_result-x.json", "x", 10),
        **_attempt(run, "t1"),
    )
    details = {
        "schema": [ColumnInfo(name="id", type="bigint")],
        "files": ["part-0.parquet"],
        "checks": [CHECK],
        "lineage": LINEAGE,
    }
    return TaskFinished(
        result=TaskResult(
            attempt=1,
            outcome="succeeded",
            worker_id="w1",
            materialization=made,
            gate="quarantine",
            instead=MaterializationRef(partition="", materialization_id="M0", rows=1),
            usage=Usage(wall_ms=1_000, cpu_ms=500),
            cost=Cost(currency="EUR", cpu=100),
            truncated=(Truncated("files", 1, 2_000),),
            **_attempt(run, "t1"),
        ),
        packed=pack(msgspec.json.encode(details)),
        parts={"schema": 1, "files": 1, "checks": 1},
    )


def damaged() -> Log:
    """Files are lost of a current version, and of one that is not current."""
    log = newest()
    lost = Version("M3", "1 of 2 files are missing"), Version("M5", "its files have 0 bytes")
    log.do(VersionsDamaged(asset_id="A4", versions=lost))
    return log


def searched() -> Log:
    """Documents of assets come from commands and from code; one moves to another namespace."""
    log = newest()
    query = "SELECT sum(amount) AS revenue FROM {{ ref('raw.orders') }}"
    revenue = _deployed("mart.revenue", "A2", kind="sql", code=query, description="Révenue")
    log.do(
        DeploymentCreated(
            deployment_id="D3",
            parent="D2",
            manifest="m3",
            artifact="z3",
            project="shop",
            assets=(
                replace(revenue, definition="d3"),
                _deployed("gold.below", "A5", renamed_from="mart.below", kind="python", code="x"),
            ),
            total=4,
        )
    )
    return log


def scheduled() -> Log:
    """Schedules come, change, pause and go; ticks ask for runs, and so do people."""
    log = Log()
    schedule = PlainSchedule(
        name="nightly",
        cron="30 2 * * *",
        timezone="Europe/Berlin",
        selection=("raw.*",),
        partitions=("date=2026-01-01",),
        config={"top": 3},
        catchup="all",
        catchup_limit=5,
        overlap="queue",
    )
    log.do(
        DeploymentCreated(
            deployment_id="D1",
            manifest="m1",
            artifact="z1",
            project="shop",
            assets=(_deployed("raw.orders", "A1"),),
            total=1,
            schedules=2,
            changed_schedules=(schedule, replace(schedule, name="hourly", cron="0 * * * *")),
        )
    )
    log.do(
        DeploymentPart(
            project="shop",
            deployment_id="D2",
            parent="D1",
            number=0,
            schedules=packed([replace(schedule, cron="0 3 * * *")]),
            removed_schedules=("hourly",),
        )
    )
    log.do(
        DeploymentCreated(
            deployment_id="D2",
            parent="D1",
            manifest="m2",
            artifact="z2",
            project="shop",
            total=1,
            schedules=1,
            parts=1,
        )
    )
    log.do(DeploymentInstalled(project="shop", deployment_id="D2", parent="D1"))
    tick = ScheduleTicked(
        schedule_id="shop/nightly",
        timing="0 3 * * * Europe/Berlin",
        tick="2026-01-02T03:00",
        scheduled_at=datetime(2026, 1, 2, 2),
        missed=7,
        missed_at_least=True,
    )
    log.wait(26 * 3600)
    log.do(tick, actor="")
    skipped = replace(
        tick,
        tick="2026-01-03T03:00",
        scheduled_at=datetime(2026, 1, 3, 2),
        outcome="skipped",
        reason="run R1 is still active",
        missed=0,
        missed_at_least=False,
    )
    log.wait(24 * 3600)
    log.do(skipped, actor="")
    log.do(SchedulePaused(schedule_id="shop/nightly", reason="the source is down"))
    log.do(ScheduleResumed(schedule_id="shop/nightly", catchup="latest"))
    request = PlanRequest(selection=("raw.orders",), force=True)
    print_of = request_fingerprint(request)
    for key in ("k1", "k2", "k3"):
        log.do(
            RunRequested(
                request_key=key,
                fingerprint=print_of,
                request=request,
                reference="ticket 7",
                run_id=f"R-{key}",
                until=datetime(2026, 1, 3),
                timeout_s=60,
                priority=3,
            )
        )
    log.do(RunRequestWithdrawn(request_key="k1", reason="a mistake"))
    log.do(RunRequestRefused(request_key="k2", reason="no such asset", hint="look"), actor="")
    log.do(
        RunTriggered(
            run_id="R-k3",
            plan_id="P1",
            plan_fingerprint="fp",
            deployment_id="D2",
            tasks_total=0,
            run_key="k3",
            request_fingerprint=print_of,
            reference="ticket 7",
        )
    )
    return log


def backfilled() -> Log:
    """A backfill goes through all of its states; a chunk of it fails, and one is gone."""
    log = Log()
    axes = (Axis(name="date", spans=(738_886, 738_896), size=4, blocks=3, keys=10),)
    first = Chunk(axes=axes, newest_first=True)
    request = PlanRequest(
        selection=("raw.orders",),
        partitions=("date=2024-01-01..2024-01-10",),
        max_tasks=200_000,
        chunk=first,
        deployments=("shop/D1",),
    )
    log.do(
        BackfillCreated(
            backfill_id="B1",
            request=request,
            until=datetime(2026, 1, 1),
            partitions=10,
            chunks=3,
            chunk_size=4,
            max_concurrent_runs=2,
            failure_threshold="50%",
            reason="a correction",
        )
    )
    log.do(BackfillPaused(backfill_id="B1", reason="the source is down"))
    log.do(BackfillResumed(backfill_id="B1"))
    log.do(BackfillAdvanced(backfill_id="B1", step=2, chunks=2), actor="")
    log.do(
        RunTriggered(
            run_id="R1",
            plan_id="P1",
            plan_fingerprint="fp",
            deployment_id="D1",
            tasks_total=1,
            run_key="backfill:B1:0",
            request_fingerprint=request_fingerprint(request),
            trigger="backfill",
            reference="B1:0",
            priority=-1_000,
        )
    )
    asset = RunAsset(key="raw.orders", asset_id="A1", max_attempts=1)
    task = TaskPlan(task_id="t1", asset=0, partition="date=d:2024-01-10")
    log.do(TasksPlanned(run_id="R1", first=0, assets=(asset,), tasks=(task,)), actor="")
    log.do(RunCancelRequested(run_id="R1", reason="a mistake"))
    refusal = RunRequestRefused(request_key="backfill:B1:1", reason="gone", code="partitions_gone")
    log.do(refusal, actor="")
    log.do(BackfillCancelled(backfill_id="B1", reason="a mistake"))
    log.do(BackfillRetried(backfill_id="B1", chunks=(0, 1)))
    log.do(BackfillAdvanced(backfill_id="B1", step=5, chunks=2), actor="")
    for key in ("backfill:B1:0:2", "backfill:B1:2"):
        log.do(RunRequestRefused(request_key=key, reason="inputs are missing"), actor="")
    log.do(
        BackfillEnded(
            backfill_id="B1",
            step=6,
            cause=BackfillCause.NOT_ALL_GOOD,
            reason="of its partitions 6 failed",
        ),
        actor="",
    )
    return log


def limited() -> Log:
    """Limits are set and unset, dispatch is paused and resumed, tasks and runs are let in."""
    log = Log()
    tasks, runs = LimitName.CONCURRENT_TASKS, LimitName.CONCURRENT_RUNS
    log.do(LimitSet(scope="pool:jdbc", name=tasks, value=2, reason="the database has few"))
    log.do(LimitSet(scope="workspace", name=runs, value=1))
    log.do(LimitSet(scope="tenant:acme", name=LimitName.WEIGHT, value=0))
    run = RunTriggered(
        run_id="R1",
        plan_id="P1",
        plan_fingerprint="fp",
        deployment_id="D1",
        tasks_total=2,
        timeout_s=3600,
        timeout_limit=LimitName.RUN_DURATION.value,
        permit=Permit(3, "first"),
    )
    log.do(run)
    log.do(replace(run, run_id="R2", permit=Permit(3, "second")))
    log.do(replace(run, run_id="R2", permit=UNSET))
    asset = RunAsset(key="raw.orders", asset_id="A1", max_attempts=1, pool="jdbc")
    planned = (TaskPlan(task_id="t1", asset=0), TaskPlan(task_id="t2", asset=0))
    log.do(TasksPlanned(run_id="R1", first=0, assets=(asset,), tasks=planned), actor="")

    def admitted(position: int, proposal: str, *tasks: str) -> TasksAdmitted:
        these = tuple(AdmittedTask("R1", id, attempt_id("R1", id, 1)) for id in tasks)
        return TasksAdmitted(permit=Permit(position, proposal), tasks=these)

    log.do(admitted(7, "third", "t1"), actor="")
    log.do(admitted(7, "fourth", "t2"), actor="")
    log.do(TaskStarted(**_attempt("R1", "t1"), worker_id="w1"), actor="")
    log.do(DispatchPaused(reason="the database is upgraded"))
    log.do(replace(run, run_id="R2", permit=Permit(11, "fifth")))
    log.do(DispatchResumed(reason="it is back"))
    log.do(LimitUnset(scope="workspace", name=runs, reason="not needed"))
    log.do(LimitUnset(scope="workspace", name=runs))
    log.do(replace(run, run_id="R3", permit=UNSET))
    return log


def _by_chance(seed: int) -> Callable[[], Folding]:
    """All that could happen to a run, as it happened in one world."""
    dag = (Node(), Node((0,)), Node((0,)), Node((1, 2)), Node(reused=True), Node((3,)))

    def play() -> Folding:
        return World(dag, seed, fates=ANYTHING, chaos=True).played()

    return play


def declared() -> Log:
    """Declarations come and change in a small deployment, and leave in a large one."""
    log = Log()
    nightly = DeployedSchedule(name="nightly", cron="30 2 * * *", selection=("raw.*",))
    log.do(
        DeploymentCreated(
            deployment_id="D1",
            manifest="m1",
            artifact="z1",
            project="shop",
            assets=(_deployed("raw.orders", "A1"),),
            total=1,
            schedules=3,
            declarations=(
                nightly,
                replace(nightly, name="hourly", cron="0 * * * *"),
                replace(nightly, name="weekly", cron="0 0 * * 1"),
            ),
        )
    )
    log.do(
        DeploymentPart(
            project="shop",
            deployment_id="D2",
            parent="D1",
            number=0,
            declarations=packed([replace(nightly, cron="0 3 * * *")]),
            removed_declarations=("schedule/hourly",),
        )
    )
    log.do(
        DeploymentCreated(
            deployment_id="D2",
            parent="D1",
            manifest="m2",
            artifact="z2",
            project="shop",
            total=1,
            schedules=2,
            parts=1,
        )
    )
    log.do(DeploymentInstalled(project="shop", deployment_id="D2", parent="D1"))
    log.do(
        DeploymentCreated(
            deployment_id="D3",
            parent="D2",
            manifest="m3",
            artifact="z3",
            project="shop",
            total=1,
            removed_declarations=("schedule/weekly",),
        )
    )
    return log


def aged() -> Log:
    """A policy begins with data of before; it becomes stale, asks for a run, and is removed."""
    log = Log()
    policy = DeployedFreshness(
        name="raw.orders",
        max_age_s=60,
        cron="* * * * *",
        timezone="Europe/Berlin",
        request_run=True,
        partitions=(TimeDimension(name="date", every="day", start="2025-01-01"),),
        upstream=("raw.events",),
    )
    log.do(
        DeploymentCreated(
            deployment_id="D1",
            manifest="m1",
            artifact="z1",
            project="shop",
            assets=(_deployed("raw.orders", "A1"), _deployed("raw.rates", "A2")),
            total=2,
            declarations=(policy, DeployedFreshness(name="raw.rates", max_age_s=60)),
        )
    )
    data = SeriesData(partition="date=d:2025-01-01", materialization_id="M1", made_at=log.now)
    log.do(FreshnessObserved(asset_id="A1", shape=1, data=(data,)), actor="")
    log.do(FreshnessObserved(asset_id="A2", shape=1), actor="")
    stale = FreshnessEvaluated(
        asset_id="A1",
        number=1,
        status=FreshnessStatus.STALE,
        materialization_id="M1",
        partition="date=d:2025-01-02",
        due_at=log.now,
        cause="no_recent_run",
        reason="date=2025-01-02 is missing",
    )
    for _ in range(2):
        log.do(stale, actor="")
    due = FreshnessRunDue(
        asset_id="A1", asset="raw.orders", partitions=("date=2025-01-02",), due_at=log.now
    )
    for _ in range(2):
        log.do(due, actor="")
    log.do(
        DeploymentCreated(
            deployment_id="D2",
            parent="D1",
            manifest="m2",
            artifact="z2",
            project="shop",
            total=2,
            removed_declarations=("freshness/raw.rates",),
        )
    )
    return log


def notified() -> Log:
    """An asset fails; the message of that is sent at the second attempt."""
    log = Log()
    rule = DeployedNotification(
        name="failures", on=("asset_failed", "recovered"), to=("ops",), interval_s=30
    )
    log.do(
        DeploymentCreated(
            deployment_id="D1",
            manifest="m1",
            artifact="z1",
            project="shop",
            assets=(_deployed("raw.orders", "A1"),),
            total=1,
            declarations=(rule,),
        )
    )
    log.do(
        RunTriggered(
            run_id="R1",
            plan_id="P1",
            plan_fingerprint="fp",
            deployment_id="D1",
            tasks_total=1,
        )
    )
    asset = RunAsset(key="raw.orders", asset_id="A1", max_attempts=1)
    plan = TasksPlanned(
        run_id="R1",
        first=0,
        assets=(asset,),
        tasks=(TaskPlan(task_id="t1", asset=0, partition=""),),
    )
    log.do(plan, actor="")
    attempt = _attempt("R1", "t1")
    log.do(DispatchEnqueued(**attempt, queue_name="d_x"), actor="")
    log.do(TaskStarted(**attempt, worker_id="w1"), actor="")
    error = ErrorInfo(category="user_code", code="user_code.ValueError", message="4711")
    result = TaskResult(attempt=1, outcome="failed", worker_id="w1", error=error, **attempt)
    log.do(TaskFinished(result=result), actor="")
    sent = {"rule": "shop/failures", "receiver": "ops", "sequence": 1}
    its = {"rule_id": "shop/failures", "notification_id": canonical.fingerprint(sent)[:16]}
    log.do(NotificationClaimed(**its, attempt=1, claimed_by="o1"), actor="")
    log.do(NotificationClaimed(**its, attempt=1, claimed_by="o2"), actor="")
    failed = NotificationAttempted(
        **its, attempt=1, delivered=False, detail="example.org answered 503"
    )
    log.do(failed, actor="")
    log.do(NotificationRetried(**its))
    log.do(NotificationClaimed(**its, attempt=2, claimed_by="o2"), actor="")
    log.do(NotificationAttempted(**its, attempt=2, delivered=True, detail="200 OK"), actor="")
    return log


def sensed() -> Log:
    """Sensors are evaluated, fail, pause, are reset and pushed to; keys repeat."""
    log = Log()
    poll = DeployedSensor(
        name="poll",
        selection=("raw.orders",),
        interval_s=300,
        timeout_s=30,
        module="shop.sensors",
        variable="poll",
        root="src",
        transform="f1",
        secrets={"token": SecretRef(provider="env", path="TOKEN")},
    )
    hook = DeployedSensor(
        name="hook", type="webhook", selection=("raw.orders",), module="shop.sensors", variable="h"
    )
    plain = DeployedSensor(name="plain", type="webhook", selection=("raw.*",), has_function=False)
    log.do(
        DeploymentCreated(
            deployment_id="D1",
            manifest="m1",
            artifact="z1",
            project="shop",
            assets=(_deployed("raw.orders", "A1"),),
            total=1,
            sensors=3,
            declarations=(poll, hook, plain),
        )
    )
    first = SensorEvaluated(
        sensor_id="shop/poll",
        number=0,
        started_from=cursor_digest(""),
        answer=SensorAnswer(
            cursor="10",
            runs=(
                SensorRun("a", ("date=2026-01-01",), {"path": "x"}, False),
                SensorRun("b"),
                SensorRun("b"),
            ),
            keys={"clients": ("acme", "bob")},
            more=True,
        ),
        worker_id="w1",
        log="logs/sensors/shop-poll/1.n",
        wall_ms=12,
    )
    log.do(first, actor="")
    log.do(first, actor="")  # again: it changes nothing
    again = SensorAnswer(runs=(SensorRun("a"),))
    second = SensorEvaluated(
        sensor_id="shop/poll",
        number=1,
        started_from=cursor_digest("10"),
        packed=pack(msgspec.json.encode(again)),
    )
    log.do(second, actor="")
    failed = SensorEvaluated(
        sensor_id="shop/poll",
        number=2,
        started_from=cursor_digest("10"),
        error=EvaluationError(code="user_code.KeyError", message="'x'", hint="h", place="s.py:3"),
    )
    log.do(failed, actor="")
    log.do(SensorPaused(sensor_id="shop/poll", reason="the source is down"))
    log.do(SensorResumed(sensor_id="shop/poll"))
    log.do(SensorReset(sensor_id="shop/poll", cursor="5", reason="once more"))
    for sensor, message in (("shop/hook", "m1"), ("shop/hook", "m1"), ("shop/plain", "m1")):
        log.do(SensorMessagePushed(sensor_id=sensor, message_id=message, payload='{"n":1}'))
    dealt = SensorEvaluated(
        sensor_id="shop/hook",
        number=0,
        started_from=cursor_digest(""),
        answer=SensorAnswer(skip_reason="not for us"),
        message_id="m1",
    )
    log.do(dealt, actor="")
    return log


def automated() -> Log:
    """Automation of assets: declared, asked for, refused where it is late, paused and resumed."""
    log = Log()
    eager = DeployedAutomation(name="raw.totals", when="eager")
    first = DeploymentCreated(
        deployment_id="D1",
        manifest="m1",
        artifact="z1",
        project="shop",
        assets=(_deployed("raw.orders", "A1"), _deployed("raw.totals", "A2")),
        total=2,
        declarations=(
            eager,
            DeployedAutomation(
                name="raw.report", when="on_cron", cron="0 6 * * *", timezone="Europe/Berlin"
            ),
        ),
    )
    log.do(first)
    asked = AutomationRequest(
        assets=("raw.report", "raw.totals"),
        partitions=("date=2025-01-01..2025-01-03",),
        cause="raw.orders[date=2025-01-01] M1 of run R1 is new",
    )
    until = datetime(2025, 1, 4, 6)
    advanced = AutomationAdvanced(
        proposal="P1",
        step=0,
        position=1,
        until=until,
        requests=(asked,),
        ticked=("raw.report",),
        ticked_position=1,
    )
    log.do(replace(advanced, step=0, ticked=(), ticked_position=0, has_more=True))
    advanced = replace(advanced, part=1, step=1)
    log.do(advanced)
    log.do(replace(advanced, proposal="P2"))  # of another orchestrator
    log.do(replace(advanced, proposal="P2", part=2, step=2))
    log.do(replace(advanced, proposal="P3", part=0, step=2, position=1_000))  # of the future
    advanced = replace(advanced, proposal="P4", part=0)
    log.do(AutomationPaused(asset="raw.totals", reason="the source is down"))
    log.do(replace(advanced, step=2, position=3))  # leaves the paused one out
    log.do(AutomationResumed(asset="raw.totals", catchup="all"))
    log.do(AutomationPaused(asset="raw.unknown"))
    log.do(
        DeploymentCreated(
            deployment_id="D2",
            parent="D1",
            manifest="m2",
            artifact="z2",
            project="shop",
            total=2,
            declarations=(replace(eager, when="on_missing"),),
            removed_declarations=("automation/raw.report",),
        )
    )
    return log


def traced() -> Log:
    """Code says what it reads, people what it does not say."""
    log = newest()
    above, below = _deployed("crm.contacts", "B1"), _deployed("crm.people", "B2")
    reads = (("crm.contacts", "contacts"), ("raw.orders", "orders"))
    log.do(
        DeploymentCreated(
            deployment_id="D9",
            manifest="m9",
            artifact="z9",
            project="people",
            assets=(
                msgspec.structs.replace(above, inputs=()),
                msgspec.structs.replace(below, inputs=reads),
            ),
            total=2,
        )
    )
    log.do(
        EdgeAdded(
            source_id="B1",
            target_id="B2",
            source_column="mail",
            target_column="contact",
            kind="identity",
            masked=True,
            owner="sales-ops",
            description="nightly export",
        )
    )
    log.do(EdgeAdded(source_id="B1", target_id="B1"))
    log.do(EdgeAdded(source_id="B0", target_id="B2", owner="ana"))
    log.do(EdgeRemoved(source_id="B0", target_id="B2"))
    log.do(EdgeRemoved(source_id="B1", target_id="B2", source_column="x", target_column="contact"))
    return log


def governed() -> Log:
    """Code and people speak of the same things; one of them withdraws something."""
    log = Log()
    log.do(TermCreated(term="order", description="A purchase", owners=("ana",)))
    log.do(TermCreated(term="lead", description="A person who may buy"))
    log.do(TermUpdated(term="order", description="A paid purchase", links={"w": "https://w.x"}))
    column = ColumnDef(name="mail", type="text", pii="email", terms=("lead",))
    orders = _deployed(
        "sales.orders",
        "A1",
        description="from code",
        owners=("ana", "bo"),
        tags={"tier": "gold"},
        columns=(column,),
        sla=SlaSpec(max_age_s=3600, cron="0 8 * * *", timezone="Europe/Berlin"),
        terms=("order",),
        links={"runbook": "https://runbook.x"},
        deprecated="use sales.purchases",
    )
    sales = DeployedNamespace(name="sales", owners=("team",), tags={"area": "shop"})
    first = log.do(
        DeploymentCreated(
            deployment_id="D1",
            manifest="m1",
            artifact="z1",
            project="shop",
            assets=(orders,),
            total=1,
            declarations=(sales,),
        )
    )
    about = AssetGoverned(asset_id="A1", asset_key="sales.orders")
    values = (
        GovernedValue(field="description", value="from people"),
        GovernedValue(field="owners", entry="cy"),
        GovernedValue(field="tags", entry="tier", value="silver"),
        GovernedValue(field="terms", entry="lead"),
    )
    log.do(replace(about, set=values), actor="cy")
    log.do(replace(about, withdraw=(ValueRef(field="owners", entry="ana"),)), actor="cy")
    log.do(replace(about, withdraw=(ValueRef(field="terms"),), expected_version=99), actor="cy")
    mail = replace(about, column_id=column_id(first, 0), column_name="mail")
    log.do(replace(mail, set=(GovernedValue(field="pii", value="none"),)))
    slow = GovernedValue(field="sla", value='{"availability":"99.5"}')
    log.do(NamespaceGoverned(namespace="sales", set=(slow, values[1])))
    log.do(TermDropped(term="order"))
    log.do(TermDropped(term="lead", force=True))
    return log


def quarantined() -> Folding:
    """A person holds a version, and releases it."""
    log = newest()
    held = RecordedVersion(
        materialization_id="M3",
        partition_key="",
        version=1,
        run_id="R1",
        task_id="t1",
        attempt_id="a",
        path="data/mart/held/_/M3",
        files=2_000,
        rows=3,
        bytes=300,
        schema_hash="s",
        fingerprint="f",
        created_at=datetime(2025, 1, 1),
        position=1,
        metadata={"note": "x"},
        superseded_at=datetime(2025, 1, 2),
        details="data/mart/held/_/M3/_result-x.json",
    )
    # One that the fold does not know any more, and so one that it does.
    before = replace(held, materialization_id="M0", path="data/mart/held/_/M0", position=0)
    late = VersionQuarantined(
        asset_id="A4", asset="mart.held", version=held, previous=before, reason="half of the shops"
    )
    log.do(late)
    current = log.get(PARTITIONS, ("A4", ""))
    assert current is not None
    log.do(replace(late, partition_version=current[0]))
    log.do(replace(late, reason="again"))
    log.do(QuarantineDecided(asset_id="A4", materialization_id="M3", approved=True, reason="fine"))
    return log


def schemas() -> Log:
    """A schema is declared, comes out, changes; one is held, a break accepted, a column renamed."""
    log = Log()
    columns = (ColumnDef(name="id", type="bigint", nullable=False), ColumnDef(name="note"))
    log.do(
        DeploymentCreated(
            deployment_id="D1",
            manifest="m1",
            artifact="z1",
            project="shop",
            assets=(_deployed("mart.held", "A4", columns=columns),),
            total=1,
        )
    )
    id, note = ColumnInfo(name="id", type="bigint"), ColumnInfo(name="note", type="string")
    amount = ColumnInfo(name="amt", type="double", field_id=3)
    for run in ("R1", "R2", "R3"):
        log.do(
            RunTriggered(
                run_id=run,
                plan_id=f"P{run}",
                plan_fingerprint="fp",
                deployment_id="D1",
                tasks_total=1,
            )
        )
        tasks = (TaskPlan(task_id="t1", asset=0),)
        log.do(TasksPlanned(run_id=run, first=0, assets=ASSETS[1:], tasks=tasks), actor="")
        log.do(DispatchEnqueued(**_attempt(run, "t1"), queue_name="d_x"), actor="")
        log.do(TaskStarted(**_attempt(run, "t1"), worker_id="w1"), actor="")
    log.do(_output("R1", "M1", replace(id, nulls=0), note, amount), actor="")
    renamed = (columns[0], ColumnDef(name="remark", renamed_from="note"))
    log.do(
        DeploymentCreated(
            deployment_id="D2",
            parent="D1",
            manifest="m2",
            artifact="z2",
            project="shop",
            assets=(replace(_deployed("mart.held", "A4", columns=renamed), definition="d2"),),
            total=1,
            accepted=(
                AcceptedBreak(asset="mart.held", asset_id="A4", column="note", reason="agreed"),
            ),
        )
    )
    column = column_id(log.log[-2].event.id, 2)
    log.do(
        ColumnRenamed(
            asset_id="A4",
            asset_key="mart.held",
            column_id=column,
            column_name="amt",
            new_name="amount",
            reason="a word",
        )
    )
    log.do(_output("R2", "M2", id, replace(note, name="remark"), replace(amount, name="amount")))
    log.do(_output("R3", "M3", id, gate="block"), actor="")
    return log


def _output(run: str, id: str, *columns: ColumnInfo, gate: Any = "continue") -> TaskFinished:
    version = Materialization(
        materialization_id=id,
        asset="mart.held",
        asset_id="A4",
        partition="",
        path=f"data/mart/held/_/{id}",
        schema=columns,
        **_attempt(run, "t1"),
    )
    result = TaskResult(
        attempt=1,
        outcome="succeeded",
        worker_id="w1",
        materialization=version,
        gate=gate,
        **_attempt(run, "t1"),
    )
    return TaskFinished(result=result)


STORIES: dict[str, Callable[[], Folding]] = {
    "newest_versions": newest,
    "damaged_versions": damaged,
    "schedules_and_requests": scheduled,
    "backfills": backfilled,
    "limits": limited,
    "declarations": declared,
    "notifications": notified,
    "freshness": aged,
    "run_by_chance_1": _by_chance(1),
    "run_by_chance_2": _by_chance(2),
    "run_by_chance_3": _by_chance(3),
    "states_of_assets": newest,
    "sensors": sensed,
    "automation_of_assets": automated,
    "lineage_edges": traced,
    "governance": governed,
    "search": searched,
    "quarantine_by_hand": quarantined,
    "schemas": schemas,
}
