"""Orchestration's fold, in four stages.

deployments   one key for each project: which manifest holds, and who is who in it
dynamic_keys  one key for each set of partition keys
run_keys      one key for each run key: a trigger counts once
runs          one key for each run: everything about it (`runs.py`)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from arco.catalog.events import AssetDeclared, AssetMoved, Column
from arco.orchestration.events import (
    AttemptLost,
    DeployedAsset,
    DeploymentCreated,
    DispatchEnqueued,
    PartitionKeysChanged,
    RunCancelRequested,
    RunTriggered,
    TaskFinished,
    TasksCancelled,
    TasksPlanned,
    TaskStarted,
    TimerFired,
)
from arco.orchestration.runs import RunAdmitted, fold_run
from arco.orchestration.tables import (
    DEP_SATISFACTION,
    DEPLOYED_ASSETS,
    DEPLOYMENTS,
    DISPATCH_OUTBOX,
    DYNAMIC_KEYS,
    PROJECTS,
    RUN_KEYS,
    RUNS,
    TASKS,
    TIMERS,
    DeployedAssetRow,
    DeploymentRow,
    DynamicKeyRow,
    ProjectRow,
    RunKeyRow,
)
from arco.state.fold import Change, Delete, Emit, Fact, Put, Rows, Stage
from arco.state.system import applied, refused
from arco.state.table import Key

PROJECT = "main"
"""The one project of a workspace."""

replace = msgspec.structs.replace


def fold_deployments(rows: Rows, fact: Fact) -> Iterator[Change]:
    match fact.payload:
        case DeploymentCreated() as e:
            yield from _deploy(rows, fact, e)


def _deploy(rows: Rows, fact: Fact, e: DeploymentCreated) -> Iterator[Change]:
    project = rows.get(PROJECTS, PROJECT)
    current = "" if project is None else project.deployment_id
    if e.parent != current:
        yield refused(
            fact, "deployment_moved", f"deployment {current} came in between; deploy again"
        )
        return
    known = {row.asset_key: row for row in rows.scan(DEPLOYED_ASSETS, PROJECT)}
    leaving = {asset.renamed_from for asset in e.assets}
    clash = next((a for a in e.assets if _clashes(known, leaving, a)), None)
    if clash is not None:
        yield refused(fact, "asset_id_changed", f"{clash.key} has another id already")
        return
    twins = _twins(e.assets)
    if twins:
        both = " and ".join(twins)
        yield refused(
            fact,
            "asset_id_taken",
            f"{both} have one id; rename in one deployment, "
            "and add what takes the old name in the next",
        )
        return
    number = 1 if project is None else project.number + 1
    yield Put(DEPLOYMENTS, _deployment(fact, e, number))
    yield Put(PROJECTS, ProjectRow(PROJECT, e.deployment_id, number))
    yield from _deploy_assets(known, e)
    yield applied(fact)


def _twins(assets: Iterable[DeployedAsset]) -> tuple[str, ...]:
    """Two assets with the same id, if there are any: data of one would be taken for the other's."""
    seen: dict[str, str] = {}
    for asset in assets:
        if asset.asset_id in seen:
            return seen[asset.asset_id], asset.key
        seen[asset.asset_id] = asset.key
    return ()


def _clashes(known: dict[str, DeployedAssetRow], leaving: set[str], asset: DeployedAsset) -> bool:
    """Whether another asset has this key: one that is neither gone nor leaving it."""
    row = known.get(asset.key)
    if row is None or row.asset_id == asset.asset_id:
        return False
    return row.active and asset.key not in leaving


def _deployment(fact: Fact, e: DeploymentCreated, number: int) -> DeploymentRow:
    return DeploymentRow(
        project=PROJECT,
        deployment_id=e.deployment_id,
        number=number,
        manifest=e.manifest,
        artifact=e.artifact,
        assets=len(e.assets),
        schedules=e.schedules,
        sensors=e.sensors,
        message=e.message,
        rollback_of=e.rollback_of,
        created_at=fact.received_at,
        created_by=fact.actor,
    )


def _deploy_assets(known: dict[str, DeployedAssetRow], e: DeploymentCreated) -> Iterator[Change]:
    """Names are given up before any is taken: one asset may take what another leaves."""
    before = {asset.key: _before(known, asset) for asset in e.assets}
    for asset in e.assets:
        old = before[asset.key]
        if old is not None and old.asset_key != asset.key:
            yield Delete(DEPLOYED_ASSETS, (PROJECT, old.asset_key))
            namespace, _, name = old.asset_key.partition(".")
            yield Emit(AssetMoved(asset_id=asset.asset_id, namespace=namespace, name=name))
    for asset in e.assets:
        old = before[asset.key]
        if old is None or old.definition != asset.definition or old.asset_key != asset.key:
            yield Emit(_declared(asset))
        yield Put(DEPLOYED_ASSETS, _deployed(asset, old, e.deployment_id))
    kept = {*before, *(old.asset_key for old in before.values() if old is not None)}
    for gone in known.values():
        if gone.active and gone.asset_key not in kept:
            yield Put(DEPLOYED_ASSETS, replace(gone, active=False))


def _before(known: dict[str, DeployedAssetRow], asset: DeployedAsset) -> DeployedAssetRow | None:
    """The row that an asset had until now, under this name or the one that it leaves."""
    for key in (asset.renamed_from, asset.key):
        row = known.get(key)
        if row is not None and row.asset_id == asset.asset_id:
            return row
    return None


def _deployed(
    asset: DeployedAsset, old: DeployedAssetRow | None, deployment_id: str
) -> DeployedAssetRow:
    previous = [] if old is None else list(old.previous_keys)
    if old is not None and old.asset_key != asset.key:
        previous.append(old.asset_key)
    return DeployedAssetRow(
        project=PROJECT,
        asset_key=asset.key,
        asset_id=asset.asset_id,
        transform=asset.transform,
        definition=asset.definition,
        deployment_id=deployment_id,
        active=True,
        previous_keys=previous,
    )


def _declared(asset: DeployedAsset) -> AssetDeclared:
    namespace, _, name = asset.key.partition(".")
    return AssetDeclared(
        asset_id=asset.asset_id,
        namespace=namespace,
        name=name,
        description=asset.description,
        owners=asset.owners,
        tags=asset.tags,
        columns=tuple(
            Column(
                name=column.name,
                type=column.type,
                nullable=column.nullable,
                description=column.description,
                pii=column.pii,
                sensitivity=column.sensitivity,
            )
            for column in asset.columns
        ),
    )


def fold_dynamic_keys(rows: Rows, fact: Fact) -> Iterator[Change]:
    match fact.payload:
        case PartitionKeysChanged() as e:
            for key in e.added:
                if rows.get(DYNAMIC_KEYS, e.keys, key) is None:
                    row = DynamicKeyRow(e.keys, key, fact.received_at, fact.actor)
                    yield Put(DYNAMIC_KEYS, row)
            for key in e.removed:
                yield Delete(DYNAMIC_KEYS, (e.keys, key))
            yield applied(fact)


def fold_run_keys(rows: Rows, fact: Fact) -> Iterator[Change]:
    match fact.payload:
        case RunTriggered() as e:
            known = rows.get(RUN_KEYS, e.run_key) if e.run_key else None
            if known is not None and known.fingerprint != e.request_fingerprint:
                yield refused(
                    fact,
                    "run_key_conflict",
                    f"run key {e.run_key!r} was used for another request, run {known.run_id}",
                )
                return
            if known is None:
                if e.run_key:
                    row = RunKeyRow(e.run_key, e.run_id, e.request_fingerprint, fact.received_at)
                    yield Put(RUN_KEYS, row)
                yield Emit(RunAdmitted(**{f: getattr(e, f) for f in e.__struct_fields__}))
            yield applied(fact)


def _by_project(fact: Fact) -> Key:
    return (PROJECT,)


def _by_set(fact: Fact) -> Key:
    assert isinstance(fact.payload, PartitionKeysChanged)
    return (fact.payload.keys,)


def _by_run_key(fact: Fact) -> Key:
    assert isinstance(fact.payload, RunTriggered)
    return (fact.payload.run_key or f"run:{fact.payload.run_id}",)


def _by_run(fact: Fact) -> Key:
    if isinstance(fact.payload, TaskFinished):
        return (fact.payload.result.run_id,)
    return (fact.payload.run_id,)  # type: ignore[attr-defined]


RUNS_STAGE = Stage(
    "runs",
    (RUNS, TASKS, DEP_SATISFACTION, TIMERS, DISPATCH_OUTBOX),
    dict.fromkeys(
        (
            RunAdmitted,
            RunCancelRequested,
            TasksPlanned,
            DispatchEnqueued,
            TaskStarted,
            TaskFinished,
            TimerFired,
            AttemptLost,
            TasksCancelled,
        ),
        _by_run,
    ),
    fold_run,
)
STAGES = (
    Stage(
        "deployments",
        (PROJECTS, DEPLOYMENTS, DEPLOYED_ASSETS),
        {DeploymentCreated: _by_project},
        fold_deployments,
    ),
    Stage("dynamic_keys", (DYNAMIC_KEYS,), {PartitionKeysChanged: _by_set}, fold_dynamic_keys),
    Stage("run_keys", (RUN_KEYS,), {RunTriggered: _by_run_key}, fold_run_keys),
    RUNS_STAGE,
)
