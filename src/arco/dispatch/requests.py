"""From a planned task to the request that a worker gets."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

import msgspec

from arco.errors import Corrupt
from arco.orchestration.plan import Plan, PlannedInput, PlannedTask, input_fingerprint
from arco.orchestration.reader import Library
from arco.orchestration.tables import RunRow, TaskRow
from arco.storage import paths
from servo.contract.keys import AssetKey
from servo.contract.manifest import Asset, Manifest, reference_targets
from servo.contract.partition import PartitionKey, path_segment
from servo.contract.task import CodeRef, InputRef, MaterializationRef, TaskRequest, personal

TaskOf = Callable[[str, str], TaskRow | None]
"""(run id, task id) to the task as it is by now."""


class Versions(Protocol):
    """What has been put out, as of now."""

    def of(self, asset_id: str, materialization_id: str) -> MaterializationRef:
        """One version. Raises NotFound."""

    def current(self, asset_id: str, partition: str) -> MaterializationRef | None: ...

    def all_current(self, asset_id: str) -> list[MaterializationRef]:
        """Of every partition of an asset, in their order."""

    def asset_id(self, asset_key: str) -> str:
        """Of the asset that has this key, or had it before it was renamed. Raises NotFound."""


class Requests:
    """Builds requests. What does not change is looked up once."""

    def __init__(self, tenant: str, workspace: str, library: Library) -> None:
        self._tenant = tenant
        self._workspace = workspace
        self._library = library
        self._assets = functools.lru_cache(maxsize=16)(self._read_assets)

    def _read_assets(self, digest: str) -> tuple[Manifest, Mapping[str, Asset]]:
        manifest = self._library.manifest(digest)
        return manifest, {asset.key: asset for asset in manifest.assets}

    def _plan(self, plan_id: str) -> Plan:
        try:
            return self._library.plan(plan_id)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Corrupt(f"{paths.plan(plan_id)} is no plan: {error}") from None

    def load(self, run: RunRow) -> None:
        """Have at hand what the requests of all its tasks need. Raises what reading raises."""
        self._assets(self._plan(run.plan_id).spec.manifest)

    def build(
        self,
        run: RunRow,
        task: TaskRow,
        task_of: TaskOf,
        redelivery: int,
        versions: Versions,
    ) -> TaskRequest:
        plan = self._plan(run.plan_id)
        planned = plan.spec.tasks[task.index]
        if planned.task_id != task.task_id:
            raise Corrupt(f"plan {run.plan_id} has {planned.task_id} where {task.task_id} belongs")
        manifest, assets = self._assets(plan.spec.manifest)
        asset = assets[task.asset_key]
        inputs = tuple(
            masked(_input(plan, run, i, task_of, versions), assets) for i in planned.inputs
        )
        key = AssetKey.parse(task.asset_key)
        segment = path_segment(PartitionKey.parse(task.partition_key))
        config = {**asset.config, **plan.spec.request.config}
        return TaskRequest(
            tenant_id=self._tenant,
            workspace_id=self._workspace,
            run_id=run.run_id,
            task_id=task.task_id,
            plan_id=run.plan_id,
            attempt=task.attempt,
            attempt_id=task.attempt_id,
            max_attempts=task.max_attempts,
            redelivery=redelivery,
            asset=task.asset_key,
            asset_id=task.asset_id,
            partition=task.partition_key,
            kind=asset.kind,
            engine=asset.engine,
            code=CodeRef(
                artifact=manifest.artifact,
                module=asset.code.module,
                name=asset.code.name,
                root=manifest.root,
                file=asset.code.file,
                line=asset.code.line,
            ),
            sql=asset.sql,
            inputs=inputs,
            output=paths.partition_folder(key.namespace, key.name, segment),
            fingerprint=_fingerprint(plan, planned, asset, inputs),
            checks=asset.checks,
            gating=asset.gating,
            references=tuple(_references(asset, plan, run, planned, task_of, versions)),
            previous=versions.current(task.asset_id, task.partition_key) if asset.checks else None,
            columns=asset.columns,
            io=asset.io,
            timeout_s=task.timeout_s,
            config=config,
            secrets=asset.secrets,
        )


def _input(
    plan: Plan, run: RunRow, planned: PlannedInput, task_of: TaskOf, versions: Versions
) -> InputRef:
    made = [_made(run, plan.spec.tasks[i].task_id, task_of) for i in planned.tasks]
    fresh = [_output(task, versions) for task in made]
    found = sorted([*planned.materializations, *fresh], key=lambda m: m.partition)
    return InputRef(asset=planned.asset, parameter=planned.parameter, materializations=tuple(found))


def masked(ref: InputRef, assets: Mapping[str, Asset]) -> InputRef:
    """With what of it is personal, so that no sample of its rows shows that."""
    asset = assets.get(ref.asset)
    if asset is None:
        return ref
    return msgspec.structs.replace(ref, pii=personal(asset.columns))


def _output(task: TaskRow, versions: Versions) -> MaterializationRef:
    if not task.path:
        return versions.of(task.asset_id, task.materialization_id)
    return MaterializationRef(
        partition=task.partition_key,
        materialization_id=task.materialization_id,
        path=task.path,
        rows=task.rows,
        bytes=task.bytes,
    )


def _references(
    asset: Asset,
    plan: Plan,
    run: RunRow,
    planned: PlannedTask,
    task_of: TaskOf,
    versions: Versions,
) -> Iterator[InputRef]:
    """What checks look values up in: what the task reads of it, or else all that is current.

    What this run has made counts, though it may not be committed yet.
    """
    for key in reference_targets(asset):
        read = next((each for each in planned.inputs if each.asset == key), None)
        if read is not None:
            found = _input(plan, run, read, task_of, versions).materializations
        else:
            above = [plan.spec.tasks[i] for i in planned.depends_on]
            made = [_made(run, t.task_id, task_of) for t in above if t.asset == key]
            asset_id = _reference_id(plan, key, versions)
            current = {ref.partition: ref for ref in versions.all_current(asset_id)}
            fresh = {task.partition_key: _output(task, versions) for task in made}
            found = tuple(ref for _, ref in sorted((current | fresh).items()))
        yield InputRef(asset=key, materializations=found)


def _reference_id(plan: Plan, key: str, versions: Versions) -> str:
    """The id that the plan gives. Plans of older versions have none: then by today's names."""
    return plan.spec.references.get(key) or versions.asset_id(key)


def _made(run: RunRow, task_id: str, task_of: TaskOf) -> TaskRow:
    """An upstream. Without one that is planned, a task would read less than it should."""
    task = task_of(run.run_id, task_id)
    if task is None:
        raise Corrupt(f"run {run.run_id} has no task {task_id}, which others read from")
    return task


def _fingerprint(
    plan: Plan, planned: PlannedTask, asset: Asset, inputs: tuple[InputRef, ...]
) -> str:
    if planned.fingerprint:
        return planned.fingerprint
    read = [
        (ref.parameter, ref.asset, [m.materialization_id for m in ref.materializations])
        for ref in inputs
    ]
    return input_fingerprint(asset, planned.partition, plan.spec.request.config, read)
