"""What deployments declare besides assets, limits, and what follows for people."""

from __future__ import annotations

import msgspec
from msgspec import UNSET

from arco.notifications.events import (
    NotificationAttempted,
    NotificationClaimed,
    NotificationRetried,
)
from arco.orchestration.declarations import (
    DeployedNotification,
    DeployedSchedule,
)
from arco.orchestration.deployments import packed
from arco.orchestration.events import (
    DeploymentCreated,
    DeploymentInstalled,
    DeploymentPart,
    DispatchEnqueued,
    RunAsset,
    RunTriggered,
    TaskFinished,
    TaskPlan,
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
from servo.contract import canonical
from servo.contract.identity import attempt_id
from servo.contract.task import (
    Cost,
    ErrorInfo,
    TaskResult,
    Usage,
)
from tests.golden.stories.recorded_log import Log
from tests.golden.stories.runs import deployed, ids_of_attempt

replace = msgspec.structs.replace


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
    log.do(TaskStarted(**ids_of_attempt("R1", "t1"), worker_id="w1"), actor="")
    log.do(DispatchPaused(reason="the database is upgraded"))
    log.do(replace(run, run_id="R2", permit=Permit(11, "fifth")))
    log.do(DispatchResumed(reason="it is back"))
    log.do(LimitUnset(scope="workspace", name=runs, reason="not needed"))
    log.do(LimitUnset(scope="workspace", name=runs))
    log.do(replace(run, run_id="R3", permit=UNSET))
    return log


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
            assets=(deployed("raw.orders", "A1"),),
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
            assets=(deployed("raw.orders", "A1"),),
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
    attempt = ids_of_attempt("R1", "t1")
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


def billed() -> Log:
    """Two attempts cost more than a rule allows for a run, and for an asset on one day."""
    log = Log()
    rule = DeployedNotification(
        name="bills", on=("cost",), to=("ops",), run_cost=3 * 10**9, day_cost=2 * 10**9
    )
    log.do(
        DeploymentCreated(
            deployment_id="D1",
            manifest="m1",
            artifact="z1",
            project="shop",
            assets=(deployed("raw.orders", "A1"),),
            total=1,
            declarations=(rule,),
        )
    )
    log.do(
        RunTriggered(
            run_id="R1", plan_id="P1", plan_fingerprint="fp", deployment_id="D1", tasks_total=2
        )
    )
    asset = RunAsset(key="raw.orders", asset_id="A1", max_attempts=1)
    tasks = tuple([TaskPlan(task_id=id, asset=0, partition=f"p=s:{id}") for id in ("t1", "t2")])
    log.do(TasksPlanned(run_id="R1", first=0, assets=(asset,), tasks=tasks), actor="")
    error = ErrorInfo(category="user_code", code="user_code.ValueError", message="4711")
    for id in ("t1", "t2"):
        attempt = ids_of_attempt("R1", id)
        log.do(DispatchEnqueued(**attempt, queue_name="d_x"), actor="")
        log.do(TaskStarted(**attempt, worker_id="w1"), actor="")
        result = TaskResult(
            attempt=1,
            outcome="failed",
            worker_id="w1",
            error=error,
            usage=Usage(wall_ms=1_000),
            cost=Cost(currency="EUR", cpu=2 * 10**9, memory=100),
            **attempt,
        )
        log.do(TaskFinished(result=result), actor="")
    return log
