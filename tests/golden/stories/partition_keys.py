"""Keys of dynamic dimensions that come and go, with what fails and is stale meanwhile."""

from __future__ import annotations

from arco.automation.freshness_events import FreshnessEvaluated, FreshnessObserved
from arco.automation.freshness_tables import FreshnessStatus
from arco.orchestration.declarations import DeployedFreshness
from arco.orchestration.deployments import packed
from arco.orchestration.events import (
    DeploymentCreated,
    DeploymentInstalled,
    DeploymentPart,
    DispatchEnqueued,
    PartitionKeysChanged,
    RunAsset,
    RunTriggered,
    TaskFinished,
    TaskPlan,
    TasksPlanned,
    TaskStarted,
)
from servo.contract.manifest import DynamicDimension
from servo.contract.task import ErrorInfo, TaskResult
from tests.golden.stories.recorded_log import Log
from tests.golden.stories.runs import deployed, ids_of_attempt

KEYS = ("eu", "us")


def keys_removed() -> Log:
    """Two partitions fail and are stale; then the key of one of them is removed."""
    log = Log()
    policy = DeployedFreshness(
        name="raw.visits",
        max_age_s=60,
        partitions=(DynamicDimension(name="region", keys="regions"),),
    )
    log.do(
        DeploymentCreated(
            deployment_id="D1",
            manifest="m1",
            artifact="z1",
            project="shop",
            assets=(deployed("raw.visits", "A1", shape="s", key_sets={"region": "regions"}),),
            total=1,
            declarations=(policy,),
        )
    )
    log.do(PartitionKeysChanged(keys="regions", added=KEYS))
    log.do(
        RunTriggered(
            run_id="R1", plan_id="P1", plan_fingerprint="fp", deployment_id="D1", tasks_total=2
        )
    )
    tasks = tuple([TaskPlan(task_id=key, asset=0, partition=f"region=s:{key}") for key in KEYS])
    asset = RunAsset(key="raw.visits", asset_id="A1", max_attempts=1)
    log.do(TasksPlanned(run_id="R1", first=0, assets=(asset,), tasks=tasks), actor="")
    error = ErrorInfo(category="user_code", code="user_code.ValueError", message="4711")
    for key in KEYS:
        attempt = ids_of_attempt("R1", key)
        log.do(DispatchEnqueued(**attempt, queue_name="d_x"), actor="")
        log.do(TaskStarted(**attempt, worker_id="w1"), actor="")
        result = TaskResult(attempt=1, outcome="failed", worker_id="w1", error=error, **attempt)
        log.do(TaskFinished(result=result), actor="")
    log.do(FreshnessObserved(asset_id="A1", shape=1), actor="")
    for key in KEYS:
        stale = FreshnessEvaluated(
            asset_id="A1",
            series=f"region=s:{key}",
            number=1,
            status=FreshnessStatus.STALE,
            partition=f"region=s:{key}",
            due_at=log.now,
            cause="never_materialized",
            reason="it was never materialized",
        )
        log.do(stale, actor="")
    log.do(PartitionKeysChanged(keys="regions", removed=("us",)))
    clicks = deployed("raw.clicks", "A2", shape="s", key_sets={"region": "regions"})
    log.do(
        DeploymentPart(
            project="shop",
            deployment_id="D2",
            parent="D1",
            number=0,
            asset_keys=(clicks.key,),
            asset_ids=(clicks.asset_id,),
            renamed_from=("",),
            packed=packed([clicks]),
        )
    )
    log.do(
        DeploymentCreated(
            deployment_id="D2",
            parent="D1",
            manifest="m2",
            artifact="z2",
            project="shop",
            total=2,
            parts=1,
        )
    )
    log.do(DeploymentInstalled(project="shop", deployment_id="D2", parent="D1"))
    return log
