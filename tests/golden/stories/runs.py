"""Deployments, runs and their outputs, in the newest versions of their events."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec

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
from arco.execution.events import (
    QuarantineDecided,
    RecordedVersion,
    Version,
    VersionQuarantined,
    VersionsDamaged,
)
from arco.execution.tables import PARTITIONS
from arco.orchestration.deployments import packed
from arco.orchestration.events import (
    DeployedAsset,
    DeploymentCreated,
    DeploymentInstalled,
    DeploymentPart,
    DispatchEnqueued,
    RunAsset,
    RunCancelRequested,
    RunTriggered,
    TaskFinished,
    TaskPlan,
    TasksCancelled,
    TasksPlanned,
    TaskStarted,
)
from arco.orchestration.packing import pack
from servo.contract.identity import attempt_id
from servo.contract.manifest import ColumnDef
from servo.contract.task import (
    CheckResult,
    ColumnInfo,
    ColumnLineage,
    ColumnSource,
    Cost,
    InputRef,
    Lineage,
    Materialization,
    MaterializationRef,
    ObjectRef,
    TaskResult,
    Truncated,
    Usage,
)
from tests.golden.stories.recorded_log import Log
from tests.kit.runs import ANYTHING, Folding, Node, World

replace = msgspec.structs.replace


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


def deployed(key: str, id: str, **fields: Any) -> DeployedAsset:
    return DeployedAsset(
        key=key, asset_id=id, transform=f"t-{key}", definition=f"d-{key}", **fields
    )


def _deployments(log: Log) -> None:
    column = ColumnDef(name="id", type="bigint", nullable=False, description="the order")
    orders = deployed("raw.orders", "A1", owners=("ana",), tags={"x": "y"}, columns=(column,))
    log.do(
        DeploymentCreated(
            deployment_id="D1",
            manifest="m1",
            artifact="z1",
            project="shop",
            assets=(orders, deployed("mart.income", "A2"), deployed("mart.old", "A3")),
            total=3,
            schedules=1,
            sensors=1,
            message="first",
        )
    )
    parts = [
        [deployed("mart.revenue", "A2", renamed_from="mart.income")],
        [deployed("mart.held", "A4"), deployed("mart.below", "A5")],
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


def ids_of_attempt(run: str, task: str) -> dict[str, Any]:
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
        log.do(DispatchEnqueued(**ids_of_attempt(run, "t1"), queue_name="d_x"), actor="")
        log.do(TaskStarted(**ids_of_attempt(run, "t1"), worker_id="w1"), actor="")
    log.do(held_output("R1", "M3"), actor="")
    log.do(held_output("R3", "M5"), actor="")
    log.do(QuarantineDecided(asset_id="A4", materialization_id="M3", approved=True))
    log.do(RunCancelRequested(run_id="R2", force=True, reason="enough", in_steps=True))
    log.do(TasksCancelled(run_id="R2", task_ids=("t0", "t1"), force=True), actor="")


def held_output(run: str, id: str) -> TaskFinished:
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
        **ids_of_attempt(run, "t1"),
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
            **ids_of_attempt(run, "t1"),
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


def run_by_chance(seed: int) -> Callable[[], Folding]:
    """All that could happen to a run, as it happened in one world."""
    dag = (Node(), Node((0,)), Node((0,)), Node((1, 2)), Node(reused=True), Node((3,)))

    def play() -> Folding:
        return World(dag, seed, fates=ANYTHING, chaos=True).played()

    return play


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
