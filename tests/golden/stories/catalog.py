"""Governance, schemas, search and lineage."""

from __future__ import annotations

from typing import Any

import msgspec

from arco.catalog.column_rows import column_id
from arco.catalog.events import AssetCreated, Column, ColumnDropped, ColumnUpdated, NamespaceCreated
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
from arco.lineage.events import EdgeAdded, EdgeRemoved
from arco.orchestration.declarations import (
    AcceptedBreak,
    DeployedNamespace,
)
from arco.orchestration.events import (
    DeploymentCreated,
    DispatchEnqueued,
    RunTriggered,
    TaskFinished,
    TaskPlan,
    TasksPlanned,
    TaskStarted,
)
from servo.contract.manifest import ColumnDef, SlaSpec
from servo.contract.task import (
    CheckResult,
    ColumnInfo,
    Materialization,
    TaskResult,
)
from tests.golden.stories.recorded_log import Log
from tests.golden.stories.runs import ASSETS, deployed, ids_of_attempt, newest

replace = msgspec.structs.replace


def searched() -> Log:
    """Documents of assets come from commands and from code; one moves to another namespace."""
    log = newest()
    query = "SELECT sum(amount) AS revenue FROM {{ ref('raw.orders') }}"
    revenue = deployed("mart.revenue", "A2", kind="sql", code=query, description="Révenue")
    log.do(
        DeploymentCreated(
            deployment_id="D3",
            parent="D2",
            manifest="m3",
            artifact="z3",
            project="shop",
            assets=(
                replace(revenue, definition="d3"),
                deployed("gold.below", "A5", renamed_from="mart.below", kind="python", code="x"),
            ),
            total=4,
        )
    )
    return log


def traced() -> Log:
    """Code says what it reads, people what it does not say."""
    log = newest()
    above, below = deployed("crm.contacts", "B1"), deployed("crm.people", "B2")
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
    orders = deployed(
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


def columns_as_expected() -> Log:
    """Columns and terms change where they have the version that the caller has read."""
    log = Log()
    log.do(NamespaceCreated(namespace="crm"))
    columns = (Column(name="mail", type="text"), Column(name="note", type="text"))
    asset = log.do(AssetCreated(namespace="crm", name="leads", columns=columns))
    ids: list[dict[str, Any]] = [
        {"asset_id": asset, "column_id": column_id(asset, n)} for n in (0, 1)
    ]
    mail, note = ids
    read = log.log[-1].position
    named: dict[str, Any] = {"asset_key": "crm.leads", "column_name": "mail"}
    for name in ("an address", "too late"):
        log.do(ColumnUpdated(**mail, **named, description=name, expected_version=read))
    changed = log.log[-2].position
    for version in (read, changed):
        log.do(ColumnRenamed(**mail, **named, new_name="email", expected_version=version))
    for version in (changed, read):
        log.do(ColumnDropped(**note, column_name="note", expected_version=version))
    log.do(TermCreated(term="lead", description="A person who may buy"))
    for version in (read, log.log[-1].position):
        log.do(TermDropped(term="lead", expected_version=version))
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
            assets=(deployed("mart.held", "A4", columns=columns),),
            total=1,
        )
    )
    id, note = ColumnInfo(name="id", type="bigint"), ColumnInfo(name="note", type="string")
    amount = ColumnInfo(name="amt", type="double", field_id=3)
    for run in ("R1", "R2", "R3"):
        start_task(log, run)
    log.do(reported_output("R1", "M1", replace(id, nulls=0), note, amount), actor="")
    renamed = (columns[0], ColumnDef(name="remark", renamed_from="note"))
    log.do(
        DeploymentCreated(
            deployment_id="D2",
            parent="D1",
            manifest="m2",
            artifact="z2",
            project="shop",
            assets=(replace(deployed("mart.held", "A4", columns=renamed), definition="d2"),),
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
    log.do(
        reported_output(
            "R2", "M2", id, replace(note, name="remark"), replace(amount, name="amount")
        )
    )
    log.do(reported_output("R3", "M3", id, gate="block"), actor="")
    return log


def start_task(log: Log, run: str) -> None:
    """One task of `mart.held` has started."""
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
    log.do(DispatchEnqueued(**ids_of_attempt(run, "t1"), queue_name="d_x"), actor="")
    log.do(TaskStarted(**ids_of_attempt(run, "t1"), worker_id="w1"), actor="")


def reported_output(
    run: str,
    id: str,
    *columns: ColumnInfo,
    gate: Any = "continue",
    checks: tuple[CheckResult, ...] = (),
) -> TaskFinished:
    version = Materialization(
        materialization_id=id,
        asset="mart.held",
        asset_id="A4",
        partition="",
        path=f"data/mart/held/_/{id}",
        schema=columns,
        **ids_of_attempt(run, "t1"),
    )
    result = TaskResult(
        attempt=1,
        outcome="succeeded",
        worker_id="w1",
        materialization=version,
        gate=gate,
        checks=checks,
        **ids_of_attempt(run, "t1"),
    )
    return TaskFinished(result=result)
