"""From a planned task to the request that a worker gets.

Inputs are looked up in the plan and in the rows of the run. A long list of versions is stored as an
object, once for all tasks of the run that read the same (`input_lists.py`); a retry stores it
again, in case it was damaged.
"""

from __future__ import annotations

import functools
from collections import ChainMap, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from arco.dispatch.sent_contracts import ContractLookup, Promise, SentContracts
from arco.dispatch.sent_rules import RuleSource, SentRules
from arco.dispatch.versions import ref_of
from arco.errors import Corrupt, NotFound
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
    GUARDING,
    PROMISING,
    CodeRef,
    InputRef,
    MaterializationRef,
    PersonalInput,
    PersonalRule,
    TaskRequest,
    needed_contract,
    personal,
)

TaskOf = Callable[[str, str], TaskRow | None]
"""(run id, task id) to the current task."""


class Versions(RuleSource, ContractLookup, Protocol):
    """The current outputs."""

    def of(self, asset_id: str, materialization_id: str) -> MaterializationRef:
        """One version. Raises NotFound."""

    def current(self, asset_id: str, partition: str) -> MaterializationRef | None: ...

    def all_current(self, asset_id: str) -> list[MaterializationRef]:
        """Of every partition of an asset, in their order."""

    def personal_columns(self, asset_key: str) -> dict[str, tuple[str, ...]]:
        """The columns with personal data, by all their names in files, with its kinds."""

    def classified_columns(self, asset_id: str) -> frozenset[str]:
        """The columns of an asset of which the catalog says whether they are personal."""

    def asset_id(self, asset_key: str) -> str:
        """Of the asset that has this key, or had it before it was renamed. Raises NotFound."""


MAX_KEPT = 1_000
"""Maximum of cached lookups for inputs and assets of active runs: mostly below 1 kB each."""

V = TypeVar("V")


class _LookupCache(OrderedDict[tuple[str, str], V]):
    """Lookups for runs, by the run's id and a key."""

    def __setitem__(self, key: tuple[str, str], value: V) -> None:
        super().__setitem__(key, value)
        if len(self) > MAX_KEPT:
            self.popitem(last=False)


class _LookedUp(NamedTuple):
    """The versions that checks of kind `references` read."""

    run_id: str
    key: str
    current: list[MaterializationRef]
    fresh: tuple[MaterializationRef, ...]
    """The versions that the run itself wrote."""

    def is_as(self, other: _LookedUp) -> bool:
        same = self.current is other.current  # they are many
        return same and self._replace(current=[]) == other._replace(current=[])


class _Sources(NamedTuple):
    """The sources for the request of one attempt."""

    plan: Plan
    run: RunRow
    task_of: TaskOf
    versions: Versions
    is_retry: bool
    """The attempt is not the first."""

    def outputs(self, tasks: Iterable[PlannedTask]) -> list[TaskRow]:
        """The outputs of upstream tasks. Raises if one is missing."""
        rows = []
        for planned in tasks:
            row = self.task_of(self.run.run_id, planned.task_id)
            if row is None:
                raise Corrupt(
                    f"run {self.run.run_id} has no task {planned.task_id}, which others read from"
                )
            rows.append(row)
        return rows

    def version(self, task: TaskRow) -> MaterializationRef:
        if not task.path:
            return self.versions.of(task.asset_id, task.materialization_id)
        return ref_of(task)


class Requests:
    """Builds requests. What does not change is looked up once."""

    def __init__(self, core: Core, library: Library) -> None:
        self._tenant = core.manifests.tenant
        self._workspace = core.manifests.workspace
        self._store = core.store
        self._library = library
        self._assets = functools.lru_cache(maxsize=16)(self._read_assets)
        self._listed: _LookupCache[InputRef] = _LookupCache()
        self._last_reference: tuple[_LookedUp, InputRef] | None = None
        self._personal: _LookupCache[tuple[PersonalInput, ...]] = _LookupCache()
        self._ids: _LookupCache[str] = _LookupCache()
        self._rules = SentRules(core.store)
        self._contracts = SentContracts(core.store)

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
        """Read what the requests of all tasks of a run need. Raises errors of the store."""
        self._of_plan(self._plan(run.plan_id).spec)

    def weight(self, run: RunRow, asset: str) -> Resources:
        """The resources of each task for an asset of the run."""
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
        is_retry = task.attempt > 1 or redelivery > 0
        sources = _Sources(plan, run, task_of, versions, is_retry)
        inputs = tuple(masked(self._input(sources, n), assets) for n in planned.inputs)
        references = tuple(self._references(sources, asset, planned, inputs))
        key = AssetKey.parse(task.asset_key)
        segment = path_segment(PartitionKey.parse(task.partition_key))
        config = dict(task_config(asset, plan.spec.request.config))
        rule = self._personal_rule(sources, task.asset_id, asset)
        promise = self._contracts.promise(run.run_id, task.asset_id, asset, versions, is_retry)
        needed = GUARDING if rule else needed_contract((*inputs, *references), config)
        return TaskRequest(
            contract=PROMISING if promise.rule else needed,
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
            checks=promise.checks,
            gating=asset.gating,
            references=references,
            previous=_previous(task, asset, promise, versions),
            columns=asset.columns,
            extra=asset.extra,
            personal=rule,
            schema=self._rules.rule(run.run_id, task.asset_id, asset, versions, is_retry),
            promise=promise.rule,
            io=asset.io,
            cpu=asset.resources.cpu,
            memory_mib=asset.resources.memory_mib,
            timeout_s=task.timeout_s,
            config=config,
            secrets=asset.secrets,
        )

    def _input(self, sources: _Sources, number: int) -> InputRef:
        """An input of the plan, for a request. Its versions exist before a task reads them."""
        run_id = sources.run.run_id
        key = run_id, str(number)
        listed = self._listed.get(key)
        if listed is not None and not sources.is_retry:
            self._listed.move_to_end(key)
            return listed
        planned = sources.plan.spec.inputs[number]
        whole = self._whole_input(sources, planned)
        ref = put_list(self._store, run_id, whole, overwrite=sources.is_retry)
        if ref.listed_in is not None:
            self._listed[key] = ref
        return ref

    def _whole_input(self, sources: _Sources, planned: PlannedInput) -> InputRef:
        spec = sources.plan.spec
        outputs = sources.outputs(spec.tasks_of(planned))
        fresh = map(sources.version, outputs)
        all_versions = sorted([*spec.versions_of(planned), *fresh], key=lambda m: m.partition)
        return InputRef(
            asset=planned.asset,
            asset_id=outputs[0].asset_id if outputs else self._id(sources, planned.asset),
            parameter=planned.parameter,
            materializations=tuple(all_versions),
        )

    def _personal_rule(self, sources: _Sources, asset_id: str, asset: Asset) -> PersonalRule | None:
        """The rule of an asset that has a policy and reads personal data.

        Personal columns of an input are looked up once for a run."""
        if asset.personal_data == "allow":
            return None
        keys = sorted({each.asset for each in asset.inputs if each.parameter})
        labelled = {key: self._personal_input(sources, key) for key in keys}
        inputs = {key: columns for key, columns in labelled.items() if columns}
        if not inputs:
            return None
        return PersonalRule(
            policy=asset.personal_data,
            inputs=inputs,
            classified=tuple(sorted(sources.versions.classified_columns(asset_id))),
        )

    def _personal_input(self, sources: _Sources, key: str) -> tuple[PersonalInput, ...]:
        inputs = self._personal.get((sources.run.run_id, key))
        if inputs is None:
            columns = sources.versions.personal_columns(key).items()
            inputs = tuple([PersonalInput(name, kinds) for name, kinds in columns])
            self._personal[sources.run.run_id, key] = inputs
        return inputs

    def _id(self, sources: _Sources, key: str) -> str:
        """The id of an asset that is not in the run; looked up once for each run."""
        asset_id = self._ids.get((sources.run.run_id, key))
        if asset_id is None:
            try:
                asset_id = sources.versions.asset_id(key)
            except NotFound:  # it was removed after it was planned
                asset_id = ""
            self._ids[sources.run.run_id, key] = asset_id
        return asset_id

    def _references(
        self, sources: _Sources, asset: Asset, planned: PlannedTask, inputs: tuple[InputRef, ...]
    ) -> Iterator[InputRef]:
        """The versions for checks of kind `references`: the task's inputs, or all current ones.

        Outputs of this run count, even if they are not committed yet.
        """
        spec, versions = sources.plan.spec, sources.versions
        for key in reference_targets(asset):
            read = next((ref for ref in inputs if ref.asset == key), None)
            if read is not None:
                yield msgspec.structs.replace(read, parameter="", pii=())
                continue
            above = [spec.tasks[i] for i in planned.depends_on]
            outputs = sources.outputs(task for task in above if task.asset == key)
            # Plans of older versions have no ids of references: then by today's names.
            current = versions.all_current(spec.references.get(key) or versions.asset_id(key))
            fresh = tuple([sources.version(task) for task in outputs])
            looked_up = _LookedUp(sources.run.run_id, key, current, fresh)
            yield self._reference(looked_up, sources.is_retry)

    def _reference(self, looked_up: _LookedUp, is_retry: bool) -> InputRef:
        """The reference for a request. Tasks that are enqueued together mostly have the same."""
        last = self._last_reference
        if last is not None and last[0].is_as(looked_up) and not is_retry:
            return last[1]
        every = {ref.partition: ref for ref in (*looked_up.current, *looked_up.fresh)}
        ref = InputRef(
            asset=looked_up.key, materializations=tuple([ref for _, ref in sorted(every.items())])
        )
        sent = put_list(self._store, looked_up.run_id, ref, overwrite=is_retry)
        self._last_reference = looked_up, sent
        return sent


def weight_of(task: Resources | TaskRequest) -> Resources:
    """The slots and the memory, within valid bounds."""
    return Resources(cpu=max(1, task.cpu), memory_mib=max(0, task.memory_mib))


def masked(ref: InputRef, assets: Mapping[str, Asset]) -> InputRef:
    """The reference with its personal columns, so that samples of rows mask them."""
    asset = assets.get(ref.asset)
    if asset is None:
        return ref
    return msgspec.structs.replace(ref, pii=personal(asset.columns))


def _previous(
    task: TaskRow, asset: Asset, promise: Promise, versions: Versions
) -> MaterializationRef | None:
    if not promise.rule and not asset.checks and not asset.columns:
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
