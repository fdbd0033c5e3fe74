"""From a planned task to the request that a worker gets.

What tasks read is looked up in the plan and in the rows of the run. A long list of versions is
put beside it, once for all tasks of the run that read the same (`input_lists.py`); an attempt
that is not the first has it put again, in case that was the reason.
"""

from __future__ import annotations

import functools
from collections import ChainMap, OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, Protocol

import msgspec

from arco.errors import Corrupt
from arco.orchestration.configuration import task_config
from arco.orchestration.input_lists import put_list
from arco.orchestration.input_refs import fingerprint_part_of
from arco.orchestration.plan import (
    Plan,
    PlannedInput,
    PlannedTask,
    PlanSpec,
    input_fingerprint,
)
from arco.orchestration.reader import Library
from arco.orchestration.tables import RunRow, TaskRow
from arco.state.core import Core
from arco.storage import paths
from servo.contract.keys import AssetKey
from servo.contract.manifest import Asset, Manifest, Resources, reference_targets
from servo.contract.partition import PartitionKey, path_segment
from servo.contract.task import (
    CodeRef,
    InputRef,
    MaterializationRef,
    TaskRequest,
    needed_contract,
    personal,
)

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


LISTS_KEPT = 1_000
"""Inputs with a list of their own that are remembered: a few hundred bytes each."""


class _LookedUp(NamedTuple):
    """What checks of a task that was sent look values up in."""

    run_id: str
    key: str
    current: list[MaterializationRef]
    fresh: tuple[MaterializationRef, ...]
    """What the run itself had made."""

    def is_as(self, other: _LookedUp) -> bool:
        same = self.current is other.current  # they are many
        return same and self._replace(current=[]) == other._replace(current=[])


class Requests:
    """Builds requests. What does not change is looked up once."""

    def __init__(self, core: Core, library: Library) -> None:
        self._tenant = core.manifests.tenant
        self._workspace = core.manifests.workspace
        self._store = core.store
        self._library = library
        self._assets = functools.lru_cache(maxsize=16)(self._read_assets)
        self._listed: OrderedDict[tuple[str, int], InputRef] = OrderedDict()
        self._last_reference: tuple[_LookedUp, InputRef] | None = None

    def _read_assets(self, digest: str) -> tuple[Manifest, Mapping[str, Asset]]:
        return self._library.outline(digest), self._library.assets(digest)

    def _plan(self, plan_id: str) -> Plan:
        try:
            return self._library.plan(plan_id)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Corrupt(f"{paths.plan(plan_id)} is not a plan: {error}") from None

    def _of_plan(self, spec: PlanSpec) -> Mapping[str, Asset]:
        """The assets of all projects that have tasks or inputs in a plan."""
        digests = dict.fromkeys((spec.manifest, *spec.manifests.values()))
        return ChainMap(*[self._assets(digest)[1] for digest in digests])  # type: ignore[arg-type]

    def load(self, run: RunRow) -> None:
        """Have at hand what the requests of all its tasks need. Raises what reading raises."""
        self._of_plan(self._plan(run.plan_id).spec)

    def weight(self, run: RunRow, asset: str) -> Resources:
        """What each task for an asset of the run takes of a worker."""
        resources = self._of_plan(self._plan(run.plan_id).spec)[asset].resources
        return weight_of(resources)

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
        assets = self._of_plan(plan.spec)
        manifest, _ = self._assets(plan.spec.manifest_of(task.asset_key))
        asset = assets[task.asset_key]
        again = task.attempt > 1 or redelivery > 0
        inputs = tuple(
            masked(self._input(plan, run, number, task_of, versions, again), assets)
            for number in planned.inputs
        )
        references = tuple(
            self._references(asset, plan, run, planned, inputs, task_of, versions, again)
        )
        key = AssetKey.parse(task.asset_key)
        segment = path_segment(PartitionKey.parse(task.partition_key))
        config = dict(task_config(asset, plan.spec.request.config))
        return TaskRequest(
            contract=needed_contract((*inputs, *references), config),
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
            references=references,
            previous=_previous(task, asset, versions),
            columns=asset.columns,
            extra=asset.extra,
            io=asset.io,
            cpu=asset.resources.cpu,
            memory_mib=asset.resources.memory_mib,
            timeout_s=task.timeout_s,
            config=config,
            secrets=asset.secrets,
        )

    def _input(
        self,
        plan: Plan,
        run: RunRow,
        number: int,
        task_of: TaskOf,
        versions: Versions,
        again: bool,
    ) -> InputRef:
        """An input of the plan, as it travels: what is read was made before the first reads it."""
        key = run.run_id, number
        listed = self._listed.get(key)
        if listed is not None and not again:
            self._listed.move_to_end(key)
            return listed
        planned = plan.spec.inputs[number]
        ref = put_list(
            self._store,
            run.run_id,
            _whole_input(plan, run, planned, task_of, versions),
            again=again,
        )
        if ref.listed_in is not None:
            self._listed[key] = ref
            if len(self._listed) > LISTS_KEPT:
                self._listed.popitem(last=False)
        return ref

    def _references(
        self,
        asset: Asset,
        plan: Plan,
        run: RunRow,
        planned: PlannedTask,
        inputs: tuple[InputRef, ...],
        task_of: TaskOf,
        versions: Versions,
        again: bool,
    ) -> Iterator[InputRef]:
        """What checks look values up in: what the task reads of it, or else all that is current.

        What this run has made counts, though it may not be committed yet.
        """
        for key in reference_targets(asset):
            read = next((ref for ref in inputs if ref.asset == key), None)
            if read is not None:
                yield msgspec.structs.replace(read, parameter="", pii=())
                continue
            above = [plan.spec.tasks[i] for i in planned.depends_on]
            outputs = [_made(run, t.task_id, task_of) for t in above if t.asset == key]
            current = versions.all_current(_reference_id(plan, key, versions))
            fresh = tuple([_output(task, versions) for task in outputs])
            yield self._reference(_LookedUp(run.run_id, key, current, fresh), again)

    def _reference(self, looked_up: _LookedUp, again: bool) -> InputRef:
        """As it travels. Tasks that are sent together mostly look into the same."""
        last = self._last_reference
        if last is not None and last[0].is_as(looked_up) and not again:
            return last[1]
        every = {ref.partition: ref for ref in (*looked_up.current, *looked_up.fresh)}
        ref = InputRef(
            asset=looked_up.key, materializations=tuple([ref for _, ref in sorted(every.items())])
        )
        sent = put_list(self._store, looked_up.run_id, ref, again=again)
        self._last_reference = looked_up, sent
        return sent


def weight_of(task: Resources | TaskRequest) -> Resources:
    """The slots and the memory alone, within what is possible."""
    return Resources(cpu=max(1, task.cpu), memory_mib=max(0, task.memory_mib))


def _whole_input(
    plan: Plan, run: RunRow, planned: PlannedInput, task_of: TaskOf, versions: Versions
) -> InputRef:
    outputs = [_made(run, task.task_id, task_of) for task in plan.spec.tasks_of(planned)]
    fresh = [_output(task, versions) for task in outputs]
    all_versions = sorted([*plan.spec.versions_of(planned), *fresh], key=lambda m: m.partition)
    return InputRef(
        asset=planned.asset, parameter=planned.parameter, materializations=tuple(all_versions)
    )


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


def _reference_id(plan: Plan, key: str, versions: Versions) -> str:
    """The id that the plan gives. Plans of older versions have none: then by today's names."""
    return plan.spec.references.get(key) or versions.asset_id(key)


def _made(run: RunRow, task_id: str, task_of: TaskOf) -> TaskRow:
    """An upstream. Without one that is planned, a task would read less than it should."""
    task = task_of(run.run_id, task_id)
    if task is None:
        raise Corrupt(f"run {run.run_id} has no task {task_id}, which others read from")
    return task


def _previous(task: TaskRow, asset: Asset, versions: Versions) -> MaterializationRef | None:
    if not asset.checks and not asset.columns:
        return None
    return versions.current(task.asset_id, task.partition_key)


def _fingerprint(
    plan: Plan, planned: PlannedTask, asset: Asset, inputs: tuple[InputRef, ...]
) -> str:
    if planned.fingerprint:
        return planned.fingerprint
    read = [(ref.parameter, ref.asset, fingerprint_part_of(ref)) for ref in inputs]
    config = task_config(asset, plan.spec.request.config)
    return input_fingerprint(asset, planned.partition, config, read)
