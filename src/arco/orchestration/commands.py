"""Deploying, triggering and cancelling: each appends one command and waits (Tier 1)."""

from __future__ import annotations

import contextlib
import functools
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from arco.errors import Contended, Error, Invalid, Refused
from arco.orchestration.cancel_notes import note_cancelled
from arco.orchestration.controllers.cancellation import chunks_of
from arco.orchestration.declarations import (
    DeclarationChanges,
    declaration_changes,
    declaration_id,
    declarations_of,
)
from arco.orchestration.deploying import (
    INLINE_BYTES,
    AssetIds,
    Deployed,
    DeployedChange,
    change_of,
    check_namespaces,
    deployed,
    parts_of,
    size_of,
)
from arco.orchestration.events import (
    DeploymentCreated,
    DeploymentInstalled,
    DeploymentPart,
    PartitionKeysChanged,
    RunCancelRequested,
    RunRequested,
    RunRequestWithdrawn,
    TasksCancelled,
)
from arco.orchestration.foreign import (
    check_fit,
    check_readers,
    check_reads,
    foreign_reads,
    reshaped,
)
from arco.orchestration.limit_commands import LimitCommands
from arco.orchestration.limit_fold import MOVED
from arco.orchestration.plan import PlanRequest, PlanSpec
from arco.orchestration.plan_changes import ChangedTask, changed_tasks
from arco.orchestration.plan_defaults import DefaultRange
from arco.orchestration.planning import Review, ReviewedPlan, RunPlanner, RunSettings, accept
from arco.orchestration.reader import Library, OrchestrationReader, SnapshotLookups
from arco.orchestration.removals import check_removals
from arco.orchestration.run_requests import check_run_key, packed_request, request_fingerprint
from arco.orchestration.schema_deploy import BreakAcceptance, check_schemas
from arco.orchestration.states import GOOD, RUN_ACTIVE, TERMINAL, RequestState, RunTrigger
from arco.orchestration.tables import RUN_KEYS, RUN_REQUESTS, DeploymentRow, RunRow, TaskRow
from arco.state.core import Core
from arco.state.replay import ReportProgress, silent
from arco.state.snapshot import Snapshot
from arco.state.staging import Staging
from arco.state.tier1 import Acknowledged, Tier1
from arco.state.writer import LogWriter
from arco.storage import paths
from arco.storage.port import Mode, Store
from arco.storage.unique_objects import put_own
from servo.contract.manifest import DEFAULT_PROJECT, Manifest, encode_manifest

KEYS_BYTES = 256 << 10
KEYS_EVENTS = 16
"""Of keys of a dynamic dimension: maximum bytes of one event, and events of one batch."""
SUBJECT_CHARS = 60
"""Of the selection, in the key of a request."""
CANCELLED_AT_ONCE = 200
"""The command that cancels a run with up to this number of tasks ends them too."""
RACES = 5
NOTHING_ACCEPTED = BreakAcceptance()


class Triggered(msgspec.Struct, frozen=True):
    run_id: str
    plan_id: str
    generation: int
    tasks: int
    reused: int
    replayed: bool
    """Whether the run key had been used for the same request before."""


class Requested(msgspec.Struct, frozen=True):
    request_key: str
    run_id: str
    """The id that the run has, or will have."""
    state: RequestState
    generation: int


class ExplainedPlan(NamedTuple):
    spec: PlanSpec
    defaults: list[DefaultRange]
    changed: list[ChangedTask]


class OrchestrationCommands:
    def __init__(
        self,
        core: Core,
        writer: LogWriter,
        tier1: Tier1,
        library: Library,
        actor: str = "",
    ) -> None:
        self._store = core.store
        self._snapshot = core.snapshot
        self._clock = core.clock
        self._ids = core.ids
        self._writer = writer
        self._tier1 = tier1
        self._library = library
        self._actor = actor
        self._planner = RunPlanner(core, library, actor)
        self._limits = LimitCommands(core, tier1, library, actor)

    # -- deployments ---------------------------------------------------------------------

    def deploy(
        self,
        manifest: Manifest,
        artifact: bytes,
        *,
        message: str = "",
        allow_missing_inputs: bool = False,
        allow_removals: bool = False,
        accept_breaking: BreakAcceptance = NOTHING_ACCEPTED,
        progress: ReportProgress = silent,
        deployment_id: str = "",
    ) -> Deployed:
        """Make a manifest its project's current one. Deploying what is current changes nothing.

        `deployment_id` is the id of the deployment if it is new, for callers that may repeat the
        call.

        Raises RemovalRefused if it has no assets or would remove more assets than it keeps,
        unless removals are allowed. Raises Invalid if an asset is in another project's
        namespace, if projects would read each other in a circle or by a mapping that does not
        fit, or, unless missing inputs are allowed, if an input from another project is not
        deployed, or another project reads what this one does not have any more. Raises
        SchemaRefused if a change of a schema breaks readers and is not accepted, and
        ContractRefused if a contract is broken.
        """
        digest = hashlib.sha256(artifact).hexdigest()
        if manifest.artifact != digest:
            raise Invalid(f"the manifest is of artifact {manifest.artifact}, not of {digest}")
        draft = _Draft(
            manifest,
            artifact,
            message,
            "",
            allow_missing_inputs,
            allow_removals,
            accept_breaking.checked(),
            progress,
        )
        return self._deploy(draft, deployment_id)

    def preview(
        self,
        manifest: Manifest,
        *,
        allow_missing_inputs: bool = False,
        allow_removals: bool = False,
        accept_breaking: BreakAcceptance = NOTHING_ACCEPTED,
    ) -> Deployed:
        """What `deploy` would do, and raise. Changes nothing."""
        accepted = accept_breaking.checked()
        draft = _Draft(
            manifest, None, "", "", allow_missing_inputs, allow_removals, accepted, silent
        )
        reader = OrchestrationReader(self._snapshot())
        current = reader.current_deployment(manifest.project)
        digest = hashlib.sha256(encode_manifest(manifest)).hexdigest()
        changes = self._declaration_changes(reader, manifest, current)
        if current is not None and _is_same(draft, current, digest, changes):
            return _unchanged(current, reader)
        ids = AssetIds(reader, manifest, lambda key: self._ids())
        change = self._checked(reader, draft, ids)._replace(declared=changes)
        event, _ = _events("", reader, draft, digest, change, current)
        return deployed(event, change, current, ids.deployed, reader.snapshot.generation)

    def rollback(
        self,
        deployment: str,
        *,
        project: str = DEFAULT_PROJECT,
        message: str = "",
        allow_missing_inputs: bool = False,
        allow_removals: bool = False,
        accept_breaking: BreakAcceptance = NOTHING_ACCEPTED,
        progress: ReportProgress = silent,
        deployment_id: str = "",
    ) -> Deployed:
        """Deploy an older deployment again, as a new one of its project.

        `project` is the one whose numbers are meant. Raises as `deploy` does.
        """
        row = OrchestrationReader(self._snapshot()).deployment(deployment, project)
        manifest = self._library.manifest(row.manifest)
        text = message or f"rollback to {row.number}"
        draft = _Draft(
            manifest,
            None,
            text,
            row.deployment_id,
            allow_missing_inputs,
            allow_removals,
            accept_breaking.checked(),
            progress,
        )
        return self._deploy(draft, deployment_id)

    def _deploy(self, draft: _Draft, deployment_id: str = "") -> Deployed:
        raw = encode_manifest(draft.manifest)
        digest = hashlib.sha256(raw).hexdigest()
        new_id = functools.cache(lambda key: self._ids())
        for _ in range(RACES):
            reader = OrchestrationReader(self._snapshot())
            current = reader.current_deployment(draft.manifest.project)
            changes = self._declaration_changes(reader, draft.manifest, current)
            if current is not None and _is_same(draft, current, digest, changes):
                return _unchanged(current, reader)
            ids = AssetIds(reader, draft.manifest, new_id)
            change = self._checked(reader, draft, ids)._replace(declared=changes)
            if draft.artifact is not None:
                _put_by_digest(self._store, paths.artifact(draft.manifest.artifact), draft.artifact)
            _put_by_digest(self._store, paths.manifest(digest), raw)
            id = deployment_id or self._ids()
            event, parts = _events(id, reader, draft, digest, change, current)
            try:
                generation = self._install(event, parts, reader.snapshot.generation, draft)
            except Refused as refusal:
                if refusal.code not in ("deployment_moved", "deployment_incomplete"):
                    raise
                continue  # another deployment was committed meanwhile: try again
            return deployed(event, change, current, ids.deployed, generation)
        raise Refused(
            "deployment_moved",
            "other deployments changed the workspace concurrently",
            hint="try again later",
        )

    def _declaration_changes(
        self, reader: OrchestrationReader, manifest: Manifest, current: DeploymentRow | None
    ) -> DeclarationChanges:
        """The declarations of a manifest that differ from those of its project."""
        declared = reader.declared(manifest.project)
        if not declared and current is not None and current.schedules:
            # Deployed before there was that table: all that it has differs, and all may leave.
            before = declarations_of(self._library.manifest(current.manifest))
            declared = dict.fromkeys(map(declaration_id, before), "")
        return declaration_changes(manifest, declared)

    def _checked(self, reader: OrchestrationReader, draft: _Draft, ids: AssetIds) -> DeployedChange:
        """The change of a manifest. Raises Invalid if it does not fit other projects."""
        manifest = draft.manifest
        check_namespaces(reader, manifest)
        change = change_of(manifest, ids, foreign_reads(manifest))
        if not draft.allow_removals:
            check_removals(reader, self._library, manifest, change, ids.deployed)
        allow_missing = draft.allow_missing_inputs
        check_reads(reader, self._library, manifest, allow_missing=allow_missing)
        changed = {asset.key for asset in change.assets}
        shapes = reshaped(reader, self._library, manifest, changed)
        check_fit(reader, self._library, manifest, shapes)
        if not allow_missing:
            renamed = [asset.renamed_from for asset in change.assets if asset.renamed_from]
            check_readers(reader, manifest.project, [*change.removed, *renamed])
        accepted = check_schemas(
            reader, manifest, change, draft.accepted, restores=bool(draft.rollback_of)
        )
        return change._replace(reshaped=list(shapes), accepted=accepted)

    def _install(
        self,
        event: DeploymentCreated,
        parts: list[DeploymentPart],
        generation: int,
        draft: _Draft,
    ) -> int:
        """Commit a deployment; the generation that has it."""
        if not parts:
            return self._tier1.execute(event, actor=self._actor).generation
        Staging(self._writer, self._actor, "deploying").put(parts, generation, draft.progress)
        installed = DeploymentInstalled(
            project=event.project, deployment_id=event.deployment_id, parent=event.parent
        )
        done = self._tier1.execute(event, actor=self._actor, along=[installed])
        draft.progress("deploying", len(parts) + 1, len(parts) + 1)
        return done.generation

    # -- runs ----------------------------------------------------------------------------

    def plan(self, request: PlanRequest, *, until: datetime | None = None) -> PlanSpec:
        """What a run would do. Changes nothing."""
        return self._planner.spec(self._snapshot(), request, until)

    def request(
        self,
        request: PlanRequest,
        *,
        run_key: str = "",
        kind: RunTrigger = RunTrigger.MANUAL,
        reference: str = "",
        until: datetime | None = None,
        timeout: timedelta | None = None,
        priority: int = 0,
    ) -> Requested:
        """Append a request for a run, which an orchestrator plans.

        Raises Invalid for one that could not be planned now. A `run_key` counts once: the same
        request under it returns the state of the first one, another request is a conflict.
        """
        check_run_key(run_key)
        key = run_key or self._request_key(kind, request)
        fingerprint = request_fingerprint(request)
        before = self._snapshot()
        _, row = before.versioned(RUN_REQUESTS, (key,), history=False)
        if row is not None and row.fingerprint == fingerprint:
            return Requested(key, row.run_id, row.state, before.generation)
        if row is None and not OrchestrationReader(before).is_key_used(key):
            self._planner.spec(before, request, until)
        event = RunRequested(
            request_key=key,
            fingerprint=fingerprint,
            kind=kind,
            reference=reference,
            run_id=self._ids(),
            until=until,
            timeout_s=0 if timeout is None else int(timeout.total_seconds()),
            priority=priority,
            **packed_request(request),
        )
        done, after = self._tier1.decide(event, actor=self._actor, before=before)
        row = OrchestrationReader(after).run_request(key)
        return Requested(key, row.run_id, row.state, done.generation)

    def _request_key(self, kind: RunTrigger, request: PlanRequest) -> str:
        """A unique and readable key."""
        subject = request.selection[0][:SUBJECT_CHARS] if request.selection else "everything"
        more = f"+{len(request.selection) - 1}" if len(request.selection) > 1 else ""
        return f"{kind}:{subject}{more}@{self._clock.now():%Y-%m-%dT%H:%M:%S}/{self._ids()[-8:]}"

    def withdraw(self, request_key: str, *, reason: str = "") -> Acknowledged:
        """Withdraw a request that no orchestrator has planned yet."""
        event = RunRequestWithdrawn(request_key=request_key, reason=reason)
        return self._tier1.execute(event, actor=self._actor)

    def explain(self, request: PlanRequest, *, until: datetime | None = None) -> ExplainedPlan:
        """What a run would do, which partitions are defaults, and what changed since."""
        snapshot = self._snapshot()
        world = self._planner.world(snapshot, request.deployments)
        spec = self._planner.spec(snapshot, request, until, world)
        return ExplainedPlan(
            spec,
            ReviewedPlan(world.manifest, spec, SnapshotLookups(snapshot)).defaults(),
            changed_tasks(snapshot, self._library, world.manifest, spec),
        )

    def trigger(
        self,
        request: PlanRequest,
        *,
        run_key: str = "",
        trigger: RunTrigger = RunTrigger.MANUAL,
        timeout: timedelta | None = None,
        priority: int = 0,
        retry_of: str = "",
        until: datetime | None = None,
        engine_id: str = "",
        review: Review = accept,
    ) -> Triggered:
        """Plan a run and start it, unless `review` raises an error.

        A `run_key` counts once: the same request under it returns the run that it started; another
        request is a conflict.
        """
        check_run_key(run_key)
        fingerprint = request_fingerprint(request)
        snapshot = self._snapshot()
        if run_key and (run_id := OrchestrationReader(snapshot).run_of_key(run_key)) is not None:
            return self._replayed(snapshot, run_key, run_id, fingerprint)
        settings = RunSettings(
            run_key=run_key,
            trigger=trigger,
            timeout_s=0 if timeout is None else int(timeout.total_seconds()),
            priority=priority,
            retry_of=retry_of,
            reference=retry_of,
            engine_id=engine_id,
        )
        for _ in range(RACES):
            try:
                return self._trigger(snapshot, request, settings, until, review)
            except Refused as refusal:
                if refusal.code != MOVED:
                    raise
            snapshot = self._snapshot()  # another run was permitted meanwhile: count again
        raise Contended("too many runs are being started concurrently", hint="try again later")

    def _trigger(
        self,
        snapshot: Snapshot,
        request: PlanRequest,
        settings: RunSettings,
        until: datetime | None,
        review: Review,
    ) -> Triggered:
        run_key, fingerprint = settings.run_key, request_fingerprint(request)
        permit = self._limits.permit(snapshot, settings.trigger)
        settings = settings._replace(permit=permit)
        world = self._planner.world(snapshot, request.deployments)
        planned = self._planner.run(snapshot, request, settings, until, world)
        review(ReviewedPlan(world.manifest, planned.spec, SnapshotLookups(snapshot)))
        self._planner.store(planned)
        event, spec = planned.event, planned.spec
        done = self._tier1.execute(event, actor=self._actor, along=planned.along)
        reused = sum(task.action == "reuse" for task in spec.tasks)
        if run_key:
            reader = OrchestrationReader(self._snapshot())
            winner = reader.run_of_key(run_key)
            if winner is not None and winner != event.run_id:  # somebody was faster
                return self._replayed(reader.snapshot, run_key, winner, fingerprint)
        tasks = len(spec.tasks)
        return Triggered(event.run_id, event.plan_id, done.generation, tasks, reused, False)

    def retry(
        self, run: str, *, run_key: str = "", engine_id: str = "", review: Review = accept
    ) -> Triggered:
        """Run the same request again as a new run. Tasks that succeeded are reused."""
        reader = OrchestrationReader(self._snapshot())
        row = reader.find_run(run)
        if row.state in RUN_ACTIVE:
            raise Invalid(f"run {row.run_id} is still {row.state}", hint="cancel it first, or wait")
        if row.tasks_succeeded + row.tasks_reused == row.tasks_total:
            arguments = " ".join([*row.selection, *(f"-p {text}" for text in row.partitions)])
            raise Invalid(
                f"all tasks of run {row.run_id} succeeded; there is nothing to retry",
                hint=f"to run them again: servo run {arguments} --force",
            )
        old = self._library.plan(row.plan_id)
        unfinished = [t.task_id for t in reader.tasks(row.run_id) if t.state not in GOOD]
        return self.trigger(
            msgspec.structs.replace(old.spec.request, force=False, redo=tuple(unfinished)),
            run_key=run_key,
            trigger=RunTrigger.RETRY,
            timeout=timedelta(seconds=row.timeout_s) if _has_own_timeout(row) else None,
            priority=row.priority,
            retry_of=row.run_id,
            until=old.until or old.created_at,
            engine_id=engine_id,
            review=review,
        )

    def cancel(self, run: str, *, force: bool = False, reason: str = "") -> Acknowledged:
        """Cancel a run: from now on no task of it starts, and no result of it counts.

        The command changes the run's row. The tasks of a small run end with it, in the same batch;
        those of a larger one are ended by an orchestrator, in chunks.
        """
        reader = OrchestrationReader(self._snapshot())
        row = reader.find_active_run(run)
        event = RunCancelRequested(run_id=row.run_id, force=force, reason=reason, in_steps=True)
        along: list[TasksCancelled] = []
        if row.tasks_total <= CANCELLED_AT_ONCE:
            along = _tasks_cancelled(row.run_id, reader.tasks(row.run_id), force=force)
        acknowledged = self._tier1.execute(event, actor=self._actor, along=along)
        with contextlib.suppress(Error):  # orchestrators leave a note too
            note_cancelled(self._store, row.run_id)
        return acknowledged

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
        """Add keys to, or take them from, the set of a dynamic dimension.

        Very many are appended in several batches, one after the other. An interrupted call can be
        repeated.
        """
        events = [
            *(PartitionKeysChanged(keys=keys, added=part) for part in _parts(add)),
            *(PartitionKeysChanged(keys=keys, removed=part) for part in _parts(remove)),
        ] or [PartitionKeysChanged(keys=keys)]
        for at in range(0, len(events), KEYS_EVENTS):
            first, *along = events[at : at + KEYS_EVENTS]
            done = self._tier1.execute(first, actor=self._actor, along=along)
        return done

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


def _has_own_timeout(run: RunRow) -> bool:
    return bool(run.timeout_s) and not run.timeout_limit


class _Draft(NamedTuple):
    """What is to be deployed."""

    manifest: Manifest
    artifact: bytes | None
    """None if the store has it already."""
    message: str
    rollback_of: str
    allow_missing_inputs: bool
    allow_removals: bool
    accepted: BreakAcceptance
    progress: ReportProgress


def _is_same(
    draft: _Draft, current: DeploymentRow, digest: str, changes: DeclarationChanges
) -> bool:
    same = current.manifest == digest and not any(changes)
    return same and not draft.accepted.columns


def _unchanged(current: DeploymentRow, reader: OrchestrationReader) -> Deployed:
    return Deployed(
        current.deployment_id,
        current.number,
        reader.snapshot.generation,
        False,
        project=current.project,
    )


def _events(
    deployment_id: str,
    reader: OrchestrationReader,
    draft: _Draft,
    digest: str,
    change: DeployedChange,
    current: DeploymentRow | None,
) -> tuple[DeploymentCreated, list[DeploymentPart]]:
    """The command that deploys a change, and the parts that go before it, if it is large."""
    manifest = draft.manifest
    parent = "" if current is None else current.deployment_id
    renames = any(asset.renamed_from for asset in change.assets)
    depends_on_others = change.reads or change.removed or change.reshaped or renames
    event = DeploymentCreated(
        deployment_id=deployment_id,
        parent=parent,
        manifest=digest,
        artifact=manifest.artifact,
        schedules=len(manifest.schedules),
        sensors=len(manifest.sensors),
        message=draft.message,
        rollback_of=draft.rollback_of,
        project=manifest.project,
        total=len(manifest.assets),
        accepted=tuple(change.accepted),
        based_on=reader.newest_deployment() if depends_on_others else "",
    )
    if size_of(change) <= INLINE_BYTES:
        event = msgspec.structs.replace(
            event,
            assets=tuple(change.assets),
            removed=tuple(change.removed),
            reads=tuple(change.reads),
            declarations=tuple(change.declared.changed),
            removed_declarations=tuple(change.declared.removed),
        )
        return event, []
    shared = DeploymentPart(
        project=manifest.project, deployment_id=deployment_id, parent=parent, number=0
    )
    parts = parts_of(change, shared)
    return msgspec.structs.replace(event, parts=len(parts)), parts


def _tasks_cancelled(run_id: str, tasks: Iterable[TaskRow], *, force: bool) -> list[TasksCancelled]:
    """The events that end the tasks of a run. The fold decides which of them may end."""
    left = [task for task in tasks if task.state not in TERMINAL]
    return [
        TasksCancelled(run_id=run_id, task_ids=task_ids, force=force)
        for task_ids in chunks_of(left)
    ]


def _parts(keys: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Keys in parts that fit into an event each."""
    part: list[str] = []
    size = 0
    for key in keys:
        room = len(key.encode("utf-8", "replace")) + 4
        if part and size + room > KEYS_BYTES:
            yield tuple(part)
            part, size = [], 0
        part.append(key)
        size += room
    if part:
        yield tuple(part)


def _put_by_digest(store: Store, path: str, data: bytes) -> None:
    """Create an object whose name is its digest; one that is there must be the same."""
    put_own(store, path, data, mode=Mode.CREATE)
