"""Contracts: declared, kept, broken, accepted and removed."""

from __future__ import annotations

import msgspec

from arco.catalog.contract_events import ContractSet, ContractWithdrawn
from arco.execution.events import QuarantineDecided
from arco.orchestration.declarations import (
    AcceptedBreak,
    DeployedContract,
    DeployedNotification,
)
from arco.orchestration.deployments import packed
from arco.orchestration.events import DeploymentCreated, DeploymentInstalled, DeploymentPart
from servo.contract.manifest import (
    Check,
    ColumnDef,
    ContractStatement,
    FreshnessSpec,
    Retention,
)
from servo.contract.task import CheckResult
from tests.golden.stories.catalog import reported_output, start_task
from tests.golden.stories.recorded_log import Log
from tests.golden.stories.runs import deployed as deployed_asset

replace = msgspec.structs.replace


def promised() -> Log:
    """A contract is declared, kept, broken, accepted, approved, replaced; one is people's."""
    log = Log()
    columns = (ColumnDef(name="id", type="bigint", nullable=False), ColumnDef(name="amount"))
    contract = DeployedContract(
        name="mart.held",
        version="1.0.0",
        description="orders of the shop",
        terms="for reports",
        owner="ana@example.org",
        consumers=("raw.orders", "finance@example.org", "finance"),
        columns=columns,
        key=("id",),
        checks=(Check(kind="row_count", name="row_count", params={"min": "1"}),),
        freshness=FreshnessSpec(max_age_s=3600),
        retention=Retention(days=30, versions=2),
    )
    tell = DeployedNotification(
        name="promises", on=("contract_breach", "recovered"), to=("owners", "consumers", "ops")
    )
    held = deployed_asset("mart.held", "A4", owners=("ana@example.org",))
    orders = deployed_asset("raw.orders", "A1", owners=("bo@example.org",))
    deployed = DeploymentCreated(
        deployment_id="D1",
        manifest="m1",
        artifact="z1",
        project="shop",
        assets=(held, orders),
        total=2,
        declarations=(contract, tell),
    )
    log.do(deployed)
    for run in ("R1", "R2", "R3", "R4", "R5"):
        start_task(log, run)
    kept = CheckResult(name="contract", kind="contract", passed=True, contract="1.0.0")
    broken = replace(
        kept,
        passed=False,
        status="failed",
        action="block",
        columns=("amount",),
        message="amount was removed (promised by version 1.0.0 to raw.orders)",
    )
    log.do(reported_output("R1", "M1", checks=(kept,)), actor="")
    log.do(reported_output("R2", "M2", gate="block", checks=(broken,)), actor="")
    log.do(reported_output("R2", "M2", gate="block", checks=(broken,)), actor="")
    log.do(reported_output("R3", "M3", gate="block", checks=(broken,)), actor="")
    log.do(QuarantineDecided(asset_id="A4", materialization_id="M3", approved=True, reason="fine"))
    count = replace(broken, name="contract:row_count", kind="row_count", columns=())
    log.do(reported_output("R4", "M4", gate="quarantine", checks=(kept, count)), actor="")
    log.do(reported_output("R5", "M5", checks=(kept,)), actor="")
    accepted = AcceptedBreak(asset="mart.held", asset_id="A4", column="amount", reason="agreed")
    log.do(
        replace(
            deployed,
            deployment_id="D2",
            parent="D1",
            assets=(),
            declarations=(),
            accepted=(accepted,),
        )
    )
    second = replace(contract, version="2.0.0", columns=columns[:1], consumers=("finance",))
    log.do(
        DeploymentPart(
            project="shop",
            deployment_id="D3",
            parent="D2",
            number=0,
            declarations=packed([second]),
            has_contracts=True,
        )
    )
    log.do(replace(deployed, deployment_id="D3", parent="D2", assets=(), declarations=(), parts=1))
    log.do(DeploymentInstalled(project="shop", deployment_id="D3", parent="D2"))
    own = ContractStatement(name="raw.orders", version="1.0.0", columns=columns, key=("id",))
    about = ContractSet(asset_id="A1", namespace="raw", name="orders", contract=own)
    log.do(replace(about, consumer_ids={"mart.held": "A4"}))
    log.do(replace(about, contract=replace(own, columns=columns[:1])))
    log.do(replace(about, contract=replace(own, version="1.1.0", terms="free"), expected_version=1))
    log.do(replace(about, contract=replace(own, version="2.0.0", key=())))
    log.do(ContractSet(asset_id="A4", namespace="mart", name="held", contract=own))
    log.do(ContractWithdrawn(asset_id="A4", namespace="mart", name="held", reason="in code"))
    log.do(ContractWithdrawn(asset_id="A1", namespace="raw", name="orders", reason="nobody reads"))
    log.do(
        replace(
            deployed,
            deployment_id="D4",
            parent="D3",
            assets=(),
            declarations=(),
            removed_declarations=("contract/mart.held",),
            accepted=(replace(accepted, column="*", reason="over"),),
        )
    )
    third = replace(contract, version="3.0.0")
    log.do(replace(deployed, deployment_id="D5", parent="D4", assets=(), declarations=(third,)))
    start_task(log, "R6")
    log.do(
        reported_output("R6", "M6", gate="block", checks=(replace(broken, contract="3.0.0"),)),
        actor="",
    )
    return log
