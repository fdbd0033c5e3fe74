"""Deploying, triggering and cancelling: each has one command decided (Tier 1)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from arco.catalog.tables import ASSET_NAMES
from arco.clock import Clock
from arco.errors import Invalid, NotFound, Refused
from arco.log.envelope import MAX_BATCH_BYTES, encode_payload
from arco.orchestration.controllers.cancellation import chunks_of
from arco.orchestration.events import (
    DeployedAsset,
    DeploymentCreated,
    PartitionKeysChanged,
    RunAsset,
    RunCancelRequested,
    RunTriggered,
    TaskPlan,
    TasksCancelled,
    TasksPlanned,
)
from arco.orchestration.plan import (
    Plan,
    PlannedTask,
    PlanRequest,
    PlanSpec,
    encode_plan,
    spec_fingerprint,
)
from arco.orchestration.planner import normalised
from arco.orchestration.planner import plan as make_spec
from arco.orchestration.reader import Library, OrchestrationReader, SnapshotKnown
from arco.orchestration.states import GOOD, RUN_ACTIVE, TERMINAL
from arco.orchestration.tables import RUN_KEYS, DeployedAssetRow, DeploymentRow, TaskRow
from arco.state.snapshot import Snapshot
from arco.state.tier1 import Acknowledged, Tier1
from arco.storage import paths
from arco.storage.own import put_own
from arco.storage.port import Mode, Store
from servo.contract import canonical
from servo.contract.keys import AssetKey
from servo.contract.manifest import Asset, Manifest, encode_manifest

CHUNK_TASKS = 500
"""How many tasks one event plans; an edge takes up to six bytes."""
CHUNK_EDGES = 100_000
CANCELLED_AT_ONCE = 200
"""The command that cancels a run of up to so many tasks ends them too."""
RACES = 5


class Deployed(msgspec.Struct, frozen=True):
    deployment_id: str
    number: int
    generation: int
    changed: bool
    """False: the current deployment is the same already, and nothing happened."""
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    renamed: tuple[str, ...] = ()


class Triggered(msgspec.Struct, frozen=True):
    run_id: str
    plan_id: str
    generation: int
    tasks: int
    reused: int
    replayed: bool
    """Whether the run key had been used for the same request before."""


class OrchestrationCommands:
    def __init__(
        self,
        store: Store,
        tier1: Tier1,
        library: Library,
        snapshot: Callable[[], Snapshot],
        clock: Clock,
        ids: Callable[[], str],
        actor: str = "",
    ) -> None:
        self._store = store
        self._tier1 = tier1
        self._library = library
        self._snapshot = snapshot
        self._clock = clock
        self._ids = ids
        self._actor = actor

    # -- deployments ---------------------------------------------------------------------

    def deploy(
        self, manifest: Manifest, artifact: bytes, *, message: str = "", rollback_of: str = ""
    ) -> Deployed:
        """Make a manifest the current one. Deploying what is current changes nothing."""
        digest = hashlib.sha256(artifact).hexdigest()
        if manifest.artifact != digest:
            raise Invalid(f"the manifest is of artifact {manifest.artifact}, not of {digest}")
        _put_by_digest(self._store, paths.artifact(digest), artifact)
        return self._deploy(manifest, message, rollback_of)

    def rollback(self, deployment: str, *, message: str = "") -> Deployed:
        """Deploy an older deployment again, as a new one."""
        row = OrchestrationReader(self._snapshot()).deployment(deployment)
        manifest = self._library.manifest(row.manifest)
        text = message or f"rollback to {row.number}"
        return self._deploy(manifest, text, row.deployment_id)

    def _deploy(self, manifest: Manifest, message: str, rollback_of: str) -> Deployed:
        raw = encode_manifest(manifest)
        digest = hashlib.sha256(raw).hexdigest()
        _put_by_digest(self._store, paths.manifest(digest), raw)
        for _ in range(RACES):
            reader = OrchestrationReader(self._snapshot())
            current = reader.current_deployment()
            if current is not None and current.manifest == digest:
                return Deployed(
                    current.deployment_id, current.number, reader.snapshot.generation, False
                )
            event = self._deployment(reader, current, manifest, digest, message, rollback_of)
            try:
                done = self._tier1.execute(event, actor=self._actor)
            except Refused as refusal:
                if refusal.code != "deployment_moved":
                    raise
                continue  # somebody deployed meanwhile: look again
            return _deployed(event, current, reader.deployed_assets(), done.generation)
        raise Refused("deployment_moved", "others deploy all the time", hint="try again later")

    def _deployment(
        self,
        reader: OrchestrationReader,
        current: DeploymentRow | None,
        manifest: Manifest,
        digest: str,
        message: str,
        rollback_of: str,
    ) -> DeploymentCreated:
        known = reader.deployed_assets()
        leaving = _leaving(known, manifest)
        staying = frozenset(asset.key for asset in manifest.assets)
        return DeploymentCreated(
            deployment_id=self._ids(),
            parent="" if current is None else current.deployment_id,
            manifest=digest,
            artifact=manifest.artifact,
            assets=tuple(
                self._asset(reader.snapshot, known, leaving, staying, a) for a in manifest.assets
            ),
            schedules=len(manifest.schedules),
            sensors=len(manifest.sensors),
            message=message,
            rollback_of=rollback_of,
        )

    def _asset(
        self,
        snapshot: Snapshot,
        known: Mapping[str, DeployedAssetRow],
        leaving: frozenset[str],
        staying: frozenset[str],
        asset: Asset,
    ) -> DeployedAsset:
        """An asset with its id: the one it has, had under its old name, or a new one.

        `leaving` are keys that another asset of this deployment gives up: whoever gets one
        of them now is somebody else. `staying` are the keys that the manifest has.
        """
        row = None if asset.key in leaving else known.get(asset.key)
        renamed_from = ""
        if row is None and (old := _under_old_name(known, staying, asset)) is not None:
            row, renamed_from = old, old.asset_key
        if row is not None:
            asset_id = row.asset_id
        else:
            key = AssetKey.parse(asset.key)
            named = snapshot.get(ASSET_NAMES, key.namespace, key.name)
            fresh = named is None or asset.key in leaving
            asset_id = self._ids() if fresh or named is None else named.asset_id
        said = (asset.description, list(asset.owners), asset.tags, list(asset.columns))
        definition = canonical.fingerprint(list(said))[:16]
        slim = DeployedAsset(
            key=asset.key,
            asset_id=asset_id,
            transform=asset.transform,
            renamed_from=renamed_from,
            definition=definition,
        )
        if row is not None and row.definition == definition and not renamed_from:
            return slim
        return msgspec.structs.replace(
            slim,
            description=asset.description,
            owners=asset.owners,
            tags=asset.tags,
            columns=asset.columns,
        )

    # -- runs ----------------------------------------------------------------------------

    def plan(self, request: PlanRequest, *, until: datetime | None = None) -> PlanSpec:
        """What a run would do. Changes nothing."""
        return self._plan(self._snapshot(), request, until)[1]

    def trigger(
        self,
        request: PlanRequest,
        *,
        run_key: str = "",
        trigger: str = "manual",
        timeout: timedelta | None = None,
        priority: int = 0,
        retry_of: str = "",
        until: datetime | None = None,
        pool: str = "",
    ) -> Triggered:
        """Plan a run and start it.

        A `run_key` counts once: the same request under it answers with the run that it
        started; another one is a conflict.
        """
        fingerprint = canonical.fingerprint(normalised(request))
        snapshot = self._snapshot()
        if run_key and (run_id := OrchestrationReader(snapshot).run_of_key(run_key)) is not None:
            return self._replayed(snapshot, run_key, run_id, fingerprint)
        deployment, spec = self._plan(snapshot, request, until)
        plan = self._stored(deployment, spec)
        manifest = self._library.manifest(deployment.manifest)
        event = RunTriggered(
            run_id=plan.run_id,
            plan_id=plan.plan_id,
            plan_fingerprint=plan.fingerprint,
            deployment_id=deployment.deployment_id,
            tasks_total=len(spec.tasks),
            run_key=run_key,
            request_fingerprint=fingerprint,
            trigger=trigger,
            triggered_by=self._actor,
            selection=request.selection,
            partitions=request.partitions,
            timeout_s=0 if timeout is None else int(timeout.total_seconds()),
            priority=priority,
            retry_of=retry_of,
            pool=pool,
        )
        along = list(chunks(plan.run_id, spec, manifest))
        _check_size(spec, along)
        done = self._tier1.execute(event, actor=self._actor, along=along)
        reused = sum(task.action == "reuse" for task in spec.tasks)
        if run_key:
            reader = OrchestrationReader(self._snapshot())
            winner = reader.run_of_key(run_key)
            if winner is not None and winner != plan.run_id:  # somebody was faster
                return self._replayed(reader.snapshot, run_key, winner, fingerprint)
        return Triggered(plan.run_id, plan.plan_id, done.generation, len(spec.tasks), reused, False)

    def retry(self, run: str, *, pool: str = "") -> Triggered:
        """Ask for the same again, as a new run: what succeeded is up to date, and reused."""
        reader = OrchestrationReader(self._snapshot())
        row = reader.find_run(run)
        if row.state in RUN_ACTIVE:
            raise Invalid(f"run {row.run_id} is still {row.state}", hint="cancel it first, or wait")
        if row.tasks_succeeded + row.tasks_reused == row.tasks_total:
            raise Invalid(f"all tasks of run {row.run_id} succeeded", hint="run it with --force")
        old = self._library.plan(row.plan_id)
        left = [t.task_id for t in reader.tasks(row.run_id) if t.state not in GOOD]
        return self.trigger(
            msgspec.structs.replace(old.spec.request, force=False, redo=tuple(left)),
            trigger="retry",
            timeout=timedelta(seconds=row.timeout_s) if row.timeout_s else None,
            priority=row.priority,
            retry_of=row.run_id,
            until=old.created_at,
            pool=pool,
        )

    def cancel(self, run: str, *, force: bool = False, reason: str = "") -> Acknowledged:
        """Cancel a run: from now on no task of it starts, and no result of it counts.

        The command changes the run's row. The tasks of a small run end with it, in the same
        batch; those of a larger one are ended by whoever orchestrates, some at a time.
        """
        reader = OrchestrationReader(self._snapshot())
        row = reader.find_active_run(run)
        event = RunCancelRequested(run_id=row.run_id, force=force, reason=reason, in_steps=True)
        along: list[TasksCancelled] = []
        if row.tasks_total <= CANCELLED_AT_ONCE:
            along = _tasks_cancelled(row.run_id, reader.tasks(row.run_id), force=force)
        return self._tier1.execute(event, actor=self._actor, along=along)

    def finish_cancel(self, run_id: str) -> None:
        """End what waits in a run that is being cancelled, where no orchestrator does."""
        reader = OrchestrationReader(self._snapshot())
        force = reader.run(run_id).cancel_forced
        for chunk in _tasks_cancelled(run_id, reader.tasks(run_id), force=force):
            event = RunCancelRequested(run_id=run_id, force=force, in_steps=True)
            try:
                self._tier1.execute(event, actor=self._actor, along=[chunk])
            except Refused as refusal:
                if refusal.code != "run_finished":
                    raise
                return

    def change_partition_keys(
        self, keys: str, *, add: Sequence[str] = (), remove: Sequence[str] = ()
    ) -> Acknowledged:
        """Add keys to, or take them from, the set of a dynamic dimension."""
        event = PartitionKeysChanged(keys=keys, added=tuple(add), removed=tuple(remove))
        return self._tier1.execute(event, actor=self._actor)

    def _plan(
        self, snapshot: Snapshot, request: PlanRequest, until: datetime | None
    ) -> tuple[DeploymentRow, PlanSpec]:
        deployment = OrchestrationReader(snapshot).current_deployment()
        if deployment is None:
            raise NotFound("nothing is deployed", hint="run `servo deploy` in your project")
        manifest = self._library.manifest(deployment.manifest)
        spec = make_spec(
            manifest,
            deployment.manifest,
            request,
            SnapshotKnown(snapshot),
            until=until or self._clock.now(),
        )
        return deployment, spec

    def _stored(self, deployment: DeploymentRow, spec: PlanSpec) -> Plan:
        plan = Plan(
            plan_id=self._ids(),
            run_id=self._ids(),
            deployment_id=deployment.deployment_id,
            created_at=self._clock.now(),
            created_by=self._actor,
            fingerprint=spec_fingerprint(spec),
            spec=spec,
        )
        put_own(self._store, paths.plan(plan.plan_id), encode_plan(plan))
        return plan

    def _replayed(
        self, snapshot: Snapshot, run_key: str, run_id: str, fingerprint: str
    ) -> Triggered:
        row = snapshot.get(RUN_KEYS, run_key)
        assert row is not None
        if row.fingerprint != fingerprint:
            raise Refused(
                "run_key_conflict",
                f"run key {run_key!r} was used for another request, run {run_id}",
                hint="use another key for another request",
            )
        run = OrchestrationReader(snapshot).run(run_id)
        return Triggered(
            run_id, run.plan_id, snapshot.generation, run.tasks_total, run.tasks_reused, True
        )


def _under_old_name(
    known: Mapping[str, DeployedAssetRow], staying: frozenset[str], asset: Asset
) -> DeployedAssetRow | None:
    """What an asset was before: as it declares, or, after a rollback, as the row remembers."""
    if asset.renamed_from in known:
        return known[asset.renamed_from]
    gone = (row for row in known.values() if row.asset_key not in staying)
    return next((row for row in gone if asset.key in row.previous_keys), None)


def _leaving(known: Mapping[str, DeployedAssetRow], manifest: Manifest) -> frozenset[str]:
    """Keys that assets of a manifest had, and give up by it."""
    return frozenset(
        asset.renamed_from
        for asset in manifest.assets
        if asset.renamed_from in known and asset.key not in known
    )


def _tasks_cancelled(run_id: str, tasks: Iterable[TaskRow], *, force: bool) -> list[TasksCancelled]:
    """What ends the tasks of a run. Which of them may end is for the fold to decide."""
    left = [task for task in tasks if task.state not in TERMINAL]
    return [
        TasksCancelled(run_id=run_id, task_ids=task_ids, force=force)
        for task_ids in chunks_of(left)
    ]


def _check_size(spec: PlanSpec, along: Sequence[TasksPlanned]) -> None:
    """A plan goes into the log as one batch, or not at all."""
    size = sum(len(encode_payload(part)) + 1_000 for part in along)
    if size > MAX_BATCH_BYTES - (1 << 20):
        edges = sum(len(task.depends_on) for task in spec.tasks)
        raise Invalid(
            f"the plan has {len(spec.tasks):,} tasks and {edges:,} dependencies between them: "
            f"more than a run can hold",
            hint="run fewer partitions at a time; wide windows and all_upstream multiply",
        )


def chunks(run_id: str, spec: PlanSpec, manifest: Manifest) -> Iterator[TasksPlanned]:
    """A plan as events, each well below the limit of an event's size."""
    assets = {asset.key: asset for asset in manifest.assets}
    first, edges = 0, 0
    for i, task in enumerate(spec.tasks):
        edges += len(task.depends_on)
        if i > first and (i - first >= CHUNK_TASKS or edges > CHUNK_EDGES):
            yield _chunk(run_id, first, spec.tasks[first:i], assets)
            first, edges = i, len(task.depends_on)
    yield _chunk(run_id, first, spec.tasks[first:], assets)


def _chunk(
    run_id: str, first: int, tasks: Sequence[PlannedTask], assets: Mapping[str, Asset]
) -> TasksPlanned:
    used: dict[str, int] = {}
    known: list[RunAsset] = []
    planned = []
    for task in tasks:
        if task.asset not in used:
            used[task.asset] = len(known)
            known.append(_run_asset(assets[task.asset], task.asset_id))
        planned.append(
            TaskPlan(
                task_id=task.task_id,
                asset=used[task.asset],
                partition=task.partition,
                deps=task.depends_on,
                reused=task.materialization_id if task.action == "reuse" else "",
                tenant=task.tenant,
            )
        )
    return TasksPlanned(run_id=run_id, first=first, assets=tuple(known), tasks=tuple(planned))


def _run_asset(asset: Asset, asset_id: str) -> RunAsset:
    retry = asset.retry
    return RunAsset(
        key=asset.key,
        asset_id=asset_id,
        max_attempts=retry.max_attempts,
        delay_s=retry.delay_s,
        max_delay_s=retry.max_delay_s,
        retry_on=retry.retry_on,
        never_on=retry.never_on,
        timeout_s=asset.timeout_s,
        priority=asset.resources.priority,
    )


def _deployed(
    event: DeploymentCreated,
    current: DeploymentRow | None,
    before: Mapping[str, DeployedAssetRow],
    generation: int,
) -> Deployed:
    keys = {asset.key for asset in event.assets}
    renamed = {a.renamed_from: a.key for a in event.assets if a.renamed_from}
    active = {key for key, row in before.items() if row.active}
    return Deployed(
        deployment_id=event.deployment_id,
        number=1 if current is None else current.number + 1,
        generation=generation,
        changed=True,
        added=tuple(sorted(keys - active - set(renamed.values()))),
        removed=tuple(sorted(active - keys - set(renamed))),
        renamed=tuple(f"{old} -> {new}" for old, new in sorted(renamed.items())),
    )


def _put_by_digest(store: Store, path: str, data: bytes) -> None:
    """Create an object whose name is its digest; one that is there must be the same."""
    put_own(store, path, data, mode=Mode.CREATE)
