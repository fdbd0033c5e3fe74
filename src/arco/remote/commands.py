"""Commands that the API executes: the same methods, with the caller's permissions.

What a command reads before (previews, explanations) is read here, through the API. A write without
a method here is refused: the store of a workspace behind the API is read-only.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar, cast

import msgspec

from arco.app.commands import Commands
from arco.automation.asset_commands import AssetAutomationCommands
from arco.automation.asset_events import ResumeCatchup
from arco.automation.backfill_commands import BackfillCommands, BackfillDraft
from arco.automation.commands import AutomationCommands
from arco.automation.reader import AutomationReader, Backfill
from arco.automation.sensor_commands import Pushed, SensorCommands
from arco.automation.sensor_reader import SensorReader
from arco.automation.sensor_tables import MessageState
from arco.catalog.commands import CatalogCommands
from arco.catalog.contract_commands import ContractCommands
from arco.catalog.events import Column
from arco.catalog.governance_commands import GovernanceCommands
from arco.catalog.governance_events import GovernedValue, ValueRef
from arco.catalog.odcs_export import to_odcs
from arco.errors import Invalid, Refused
from arco.execution.commands import ExecutionCommands, Quarantined
from arco.execution.states import HELD_VERSIONS
from arco.execution.tables import QuarantineRow
from arco.execution.version_lookup import VersionLookup
from arco.lineage.commands import LineageCommands
from arco.lineage.reader import Node
from arco.notifications.commands import NotificationCommands
from arco.notifications.reader import NotificationReader
from arco.orchestration.commands import (
    NOTHING_ACCEPTED,
    OrchestrationCommands,
    Requested,
    Triggered,
)
from arco.orchestration.deploying import Deployed
from arco.orchestration.limit_commands import LimitCommands
from arco.orchestration.limit_events import LimitSet, LimitUnset
from arco.orchestration.limit_tables import LimitName, parse_name, parse_scope, parse_value
from arco.orchestration.plan import PlanRequest, PlanSpec
from arco.orchestration.planning import Review, ReviewedPlan, RunPlanner, accept
from arco.orchestration.reader import OrchestrationReader, SnapshotLookups
from arco.orchestration.schema_deploy import BreakAcceptance
from arco.orchestration.states import RequestState, RunTrigger
from arco.orchestration.world import World
from arco.remote.client import Client
from arco.remote.command_api import CommandApi, body_of, generation_of, if_match
from arco.remote.import_commands import RemoteImports, RemoteIngest
from arco.security.api_keys import parse_key
from arco.security.commands import NewKey, SecurityCommands
from arco.security.permissions import Role
from arco.security.reader import SecurityReader
from arco.security.tables import KeyKind
from arco.state.replay import ReportProgress, silent
from arco.state.snapshot import Snapshot
from arco.state.tier1 import Acknowledged
from arco.times import iso
from servo.contract.keys import AssetKey
from servo.contract.manifest import (
    DEFAULT_PROJECT,
    Catchup,
    ContractStatement,
    Manifest,
    encode_manifest,
)
from servo.contract.task import Influence

C = TypeVar("C")
PLAN_FIELDS: Final = ("selection", "exclude", "partitions", "force", "refresh_sources", "config")
WAIT_S: Final = 0.5
"""Interval of checks whether a request was planned."""


def remote_commands(commands: Commands, client: Client, *, is_scoped: bool = False) -> Commands:
    """The same commands, executed by the API.

    `is_scoped`: the caller does not see everything that plans need, so the API plans.
    """
    for name, kind in _REMOTE.items():
        remote = _over(getattr(commands, name), kind, client)
        if is_scoped and "_planner" in remote.__dict__:
            remote.__dict__["_planner"] = _over(remote.__dict__["_planner"], RemotePlanner, client)
        setattr(commands, name, remote)
    return commands


def _over(commands: Any, kind: type[C], client: Client) -> C:
    """What `commands` are made of, with other methods."""
    remote = object.__new__(kind)
    remote.__dict__.update(commands.__dict__)
    remote.__dict__["api"] = CommandApi(client)
    return remote


class RemotePlanner(RunPlanner):
    """Plans from the server, without what the caller does not see."""

    api: CommandApi

    def _spec(
        self, world: World, snapshot: Snapshot, request: PlanRequest, until: datetime | None
    ) -> PlanSpec:
        document = msgspec.to_builtins(request)
        body = {"request": document} | ({} if until is None else {"until": iso(until)})
        answer = self.api.client.plan_run(cast(Any, body))
        return msgspec.convert(answer["spec"], PlanSpec)


class RemoteCatalog(CatalogCommands):
    api: CommandApi

    def create_namespace(
        self, namespace: str, *, idempotency_key: str = "", **details: Any
    ) -> Acknowledged:
        key = self.api.key(idempotency_key)
        body = cast(Any, {"namespace": namespace, **body_of(details)})
        return self.api.done(self.api.client.create_namespace(body, idempotency_key=key), key)

    def update_namespace(
        self,
        namespace: str,
        *,
        expected_version: int | None = None,
        idempotency_key: str = "",
        **details: Any,
    ) -> Acknowledged:
        key = self.api.key(idempotency_key)
        answer = self.api.client.update_namespace(
            namespace,
            cast(Any, body_of(details)),
            idempotency_key=key,
            if_match=if_match(expected_version),
        )
        return self.api.done(answer, key)

    def drop_namespace(self, namespace: str, *, idempotency_key: str = "") -> Acknowledged:
        key = self.api.key(idempotency_key)
        return self.api.done(self.api.client.drop_namespace(namespace, idempotency_key=key), key)

    def create_asset(
        self,
        key: AssetKey | str,
        *,
        columns: Sequence[Column] = (),
        idempotency_key: str = "",
        **details: Any,
    ) -> Acknowledged:
        command = self.api.key(idempotency_key)
        given = [msgspec.to_builtins(column) for column in columns]
        body = cast(Any, {"asset": str(key), "columns": given, **body_of(details)})
        return self.api.done(self.api.client.create_asset(body, idempotency_key=command), command)

    def update_asset(
        self,
        key: AssetKey | str,
        *,
        expected_version: int | None = None,
        idempotency_key: str = "",
        **details: Any,
    ) -> Acknowledged:
        command = self.api.key(idempotency_key)
        answer = self.api.client.update_asset(
            str(key),
            cast(Any, body_of(details)),
            idempotency_key=command,
            if_match=if_match(expected_version),
        )
        return self.api.done(answer, command)

    def rename_asset(
        self, key: AssetKey | str, new_name: str, *, idempotency_key: str = ""
    ) -> Acknowledged:
        command = self.api.key(idempotency_key)
        answer = self.api.client.rename_asset(
            str(key), {"new_name": new_name}, idempotency_key=command
        )
        return self.api.done(answer, command)

    def drop_asset(self, key: AssetKey | str, *, idempotency_key: str = "") -> Acknowledged:
        command = self.api.key(idempotency_key)
        return self.api.done(self.api.client.drop_asset(str(key), idempotency_key=command), command)

    def add_column(
        self, key: AssetKey | str, column: Column, *, idempotency_key: str = ""
    ) -> Acknowledged:
        command = self.api.key(idempotency_key)
        body = cast(Any, msgspec.to_builtins(column))
        return self.api.done(
            self.api.client.add_column(str(key), body, idempotency_key=command), command
        )

    def update_column(
        self,
        key: AssetKey | str,
        column: str,
        *,
        expected_version: int | None = None,
        idempotency_key: str = "",
        **changes: Any,
    ) -> Acknowledged:
        command = self.api.key(idempotency_key)
        answer = self.api.client.update_column(
            str(key),
            cast(Any, {"column": column, **body_of(changes)}),
            idempotency_key=command,
            if_match=if_match(expected_version),
        )
        return self.api.done(answer, command)

    def rename_column(
        self,
        key: AssetKey | str,
        column: str,
        new_name: str,
        *,
        reason: str = "",
        expected_version: int | None = None,
        idempotency_key: str = "",
    ) -> Acknowledged:
        command = self.api.key(idempotency_key)
        answer = self.api.client.rename_column(
            str(key),
            {"column": column, "new_name": new_name, "reason": reason},
            idempotency_key=command,
            if_match=if_match(expected_version),
        )
        return self.api.done(answer, command)

    def drop_column(
        self,
        key: AssetKey | str,
        column: str,
        *,
        expected_version: int | None = None,
        idempotency_key: str = "",
    ) -> Acknowledged:
        command = self.api.key(idempotency_key)
        answer = self.api.client.drop_column(
            str(key),
            {"column": column},
            idempotency_key=command,
            if_match=if_match(expected_version),
        )
        return self.api.done(answer, command)


class RemoteGovernance(GovernanceCommands):
    api: CommandApi

    def change(
        self,
        subject: str,
        *,
        set: Sequence[GovernedValue] = (),
        withdraw: Sequence[ValueRef] = (),
        expected_version: int | None = None,
        idempotency_key: str = "",
    ) -> Acknowledged:
        key = self.api.key(idempotency_key)
        body = {"subject": subject, "set": list(set), "withdraw": list(withdraw)}
        answer = self.api.client.govern(
            cast(Any, msgspec.to_builtins(body)),
            idempotency_key=key,
            if_match=if_match(expected_version),
        )
        return self.api.done(answer, key)

    def create_term(self, term: str, *, idempotency_key: str = "", **details: Any) -> Acknowledged:
        key = self.api.key(idempotency_key)
        body = cast(Any, {"term": term, **body_of(details)})
        return self.api.done(self.api.client.create_term(body, idempotency_key=key), key)

    def update_term(
        self,
        term: str,
        *,
        expected_version: int | None = None,
        idempotency_key: str = "",
        **details: Any,
    ) -> Acknowledged:
        key = self.api.key(idempotency_key)
        answer = self.api.client.update_term(
            term,
            cast(Any, body_of(details)),
            idempotency_key=key,
            if_match=if_match(expected_version),
        )
        return self.api.done(answer, key)

    def drop_term(
        self,
        term: str,
        *,
        force: bool = False,
        expected_version: int | None = None,
        idempotency_key: str = "",
    ) -> Acknowledged:
        key = self.api.key(idempotency_key)
        answer = self.api.client.drop_term(
            term, force=force, idempotency_key=key, if_match=if_match(expected_version)
        )
        return self.api.done(answer, key)


class RemoteContracts(ContractCommands):
    api: CommandApi

    def set(
        self,
        contract: ContractStatement,
        *,
        expected_version: int | None = None,
        idempotency_key: str = "",
    ) -> Acknowledged:
        key = self.api.key(idempotency_key)
        answer = self.api.client.set_contract(
            contract.name,
            {"document": to_odcs(contract, id=contract.name)},
            idempotency_key=key,
            if_match=if_match(expected_version),
        )
        return self.api.done(answer, key)

    def withdraw(
        self,
        asset: str,
        *,
        reason: str,
        expected_version: int | None = None,
        idempotency_key: str = "",
    ) -> Acknowledged:
        key = self.api.key(idempotency_key)
        answer = self.api.client.remove_contract(
            asset, {"reason": reason}, idempotency_key=key, if_match=if_match(expected_version)
        )
        return self.api.done(answer, key)


class RemoteExecution(ExecutionCommands):
    api: CommandApi

    def quarantine(self, asset: str, asset_id: str, version_id: str, reason: str) -> Quarantined:
        version = VersionLookup(self._snapshot(), asset, asset_id).version((), version_id)
        if version.status in HELD_VERSIONS:
            return Quarantined(version, False)
        self.api.client.quarantine_version(
            asset, {"materialization_id": version.materialization_id, "reason": reason}
        )
        return Quarantined(version, True)

    def decide(
        self, held: QuarantineRow, *, approved: bool, reason: str = "", idempotency_key: str = ""
    ) -> Acknowledged:
        key = self.api.key(idempotency_key)
        client = self.api.client
        call = client.approve_output if approved else client.reject_output
        return self.api.done(
            call(held.materialization_id, {"reason": reason}, idempotency_key=key), key
        )


class RemoteOrchestration(OrchestrationCommands):
    api: CommandApi

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
        body = {
            "manifest": msgspec.Raw(encode_manifest(manifest)),
            "source": base64.b64encode(artifact).decode(),
            "message": message,
            "allow_missing_inputs": allow_missing_inputs,
            "allow_removals": allow_removals,
            **_accepted(accept_breaking),
        }
        return _deployed(self.api.client.create_deployment(cast(Any, body)))

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
        row = OrchestrationReader(self._snapshot()).deployment(deployment, project)
        body = {
            "message": message,
            "allow_missing_inputs": allow_missing_inputs,
            "allow_removals": allow_removals,
            **_accepted(accept_breaking),
        }
        return _deployed(self.api.client.rollback_deployment(row.deployment_id, cast(Any, body)))

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
        body: dict[str, Any] = _plan_body(request)
        body |= {"priority": priority, "timeout_s": int(timeout.total_seconds()) if timeout else 0}
        answer = self.api.client.trigger_run(cast(Any, body), idempotency_key=self.api.key(run_key))
        return _requested(answer)

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
        """Request a run, and wait until an orchestrator has planned it."""
        _check_engine(engine_id)
        snapshot = self._snapshot()
        world = self._planner.world(snapshot, request.deployments)
        spec = self._planner.spec(snapshot, request, until, world)
        review(ReviewedPlan(world.manifest, spec, SnapshotLookups(snapshot)))
        requested = self.request(request, run_key=run_key, timeout=timeout, priority=priority)
        return self._planned(requested)

    def _planned(self, requested: Requested) -> Triggered:
        is_planned = requested.state != RequestState.PENDING
        while True:
            row = self.api.client.get_request(key=requested.request_key)
            if row["state"] in (RequestState.TRIGGERED, RequestState.MERGED):
                break
            if row["state"] == RequestState.REFUSED:
                raise Refused("not_planned", row["reason"], hint=row.get("hint", ""))
            self.api.client.clock.sleep(WAIT_S)
        snapshot = self._snapshot()
        run = OrchestrationReader(snapshot).run(row["run_id"])
        return Triggered(
            run.run_id,
            run.plan_id,
            snapshot.generation,
            run.tasks_total,
            run.tasks_reused,
            is_planned,
        )

    def retry(
        self, run: str, *, run_key: str = "", engine_id: str = "", review: Review = accept
    ) -> Triggered:
        _check_engine(engine_id)
        row = OrchestrationReader(self._snapshot()).find_run(run)
        key = self.api.key(run_key)
        answer = self.api.client.retry_run(row.run_id, idempotency_key=key)
        return Triggered(
            answer["run_id"],
            "",
            answer.get("generation", 0),
            answer["tasks"],
            answer["reused"],
            replayed=False,
        )

    def cancel(self, run: str, *, force: bool = False, reason: str = "") -> Acknowledged:
        row = OrchestrationReader(self._snapshot()).find_active_run(run)
        return generation_of(
            self.api.client.cancel_run(row.run_id, {"force": force, "reason": reason})
        )

    def finish_cancel(self, run_id: str) -> None:
        """Orchestrators do."""

    def withdraw(self, request_key: str, *, reason: str = "") -> Acknowledged:
        return generation_of(self.api.client.cancel_request({"key": request_key, "reason": reason}))

    def change_partition_keys(
        self, keys: str, *, add: Sequence[str] = (), remove: Sequence[str] = ()
    ) -> Acknowledged:
        body: Any = {"add": list(add), "remove": list(remove)}
        return generation_of(self.api.client.change_partition_keys(keys, body))


def _check_engine(engine_id: str) -> None:
    if engine_id:
        raise Invalid(
            "tasks cannot run in this process: the API gives no access to the data",
            hint="use --remote, which runs them on workers",
        )


def _accepted(acceptance: BreakAcceptance) -> dict[str, Any]:
    return {"accept_breaking": acceptance.columns, "reason": acceptance.reason}


def _plan_body(request: PlanRequest) -> dict[str, Any]:
    if request.redo or request.chunk or request.deployments:
        raise Invalid("older deployments cannot be run through the API", hint="unset ARCO_API")
    return {name: getattr(request, name) for name in PLAN_FIELDS}


def _requested(answer: Mapping[str, Any]) -> Requested:
    return Requested(
        answer["request_key"],
        answer["run_id"],
        RequestState(answer["state"]),
        answer["generation"],
    )


def _deployed(answer: Mapping[str, Any]) -> Deployed:
    return msgspec.convert(answer["deployment"], Deployed)


class RemoteLimits(LimitCommands):
    api: CommandApi

    def set(
        self, scope: str, name: str, value: str, *, reason: str = "", new_pool: bool = False
    ) -> LimitSet:
        scope = parse_scope(scope)
        limit = parse_name(scope, name or LimitName.CONCURRENT_TASKS)
        number = parse_value(scope, limit, value)
        body: Any = {"scope": scope, "name": limit, "value": value, "reason": reason}
        body["new_pool"] = new_pool
        self.api.client.set_limit(body)
        return LimitSet(scope=scope, name=limit, value=number, reason=reason)

    def unset(self, scope: str, name: str, *, reason: str = "") -> LimitUnset:
        scope = parse_scope(scope)
        limit = parse_name(scope, name or LimitName.CONCURRENT_TASKS)
        body: Any = {"scope": scope, "name": limit, "value": None, "reason": reason}
        self.api.client.set_limit(body)
        return LimitUnset(scope=scope, name=limit, reason=reason)

    def pause(self, *, reason: str = "") -> Acknowledged:
        return generation_of(self.api.client.pause_dispatch({"reason": reason}))

    def resume(self, *, reason: str = "") -> Acknowledged:
        return generation_of(self.api.client.resume_dispatch({"reason": reason}))


class RemoteAutomation(AutomationCommands):
    api: CommandApi

    def pause(self, schedule: str, *, reason: str = "") -> Acknowledged:
        row = self._schedule(schedule)
        return generation_of(
            self.api.client.pause_schedule(row.project, row.name, {"reason": reason})
        )

    def resume(self, schedule: str, *, catchup: Catchup = "none") -> Acknowledged:
        row = self._schedule(schedule)
        return generation_of(
            self.api.client.resume_schedule(row.project, row.name, {"catchup": catchup})
        )

    def tick(self, schedule: str, *, at: datetime | None = None, run_key: str = "") -> Requested:
        if at is not None:
            raise Invalid("--at is not available through the API")
        row = self._schedule(schedule)
        key = self.api.key(run_key)
        return _requested(self.api.client.tick_schedule(row.project, row.name, idempotency_key=key))


class RemoteSensors(SensorCommands):
    api: CommandApi

    def _names(self, sensor: str) -> tuple[str, str]:
        row = SensorReader(self._core.snapshot()).sensor(sensor)
        return row.project, row.name

    def pause(self, sensor: str, *, reason: str = "") -> Acknowledged:
        return generation_of(self.api.client.pause_sensor(*self._names(sensor), {"reason": reason}))

    def resume(self, sensor: str) -> Acknowledged:
        return generation_of(self.api.client.resume_sensor(*self._names(sensor)))

    def reset(self, sensor: str, *, cursor: str = "", reason: str = "") -> Acknowledged:
        body: Any = {"cursor": cursor, "reason": reason}
        return generation_of(self.api.client.reset_sensor(*self._names(sensor), body))

    def push(self, sensor: str, message_id: str, payload: str = "") -> Pushed:
        body: Any = {"id": message_id, "payload": payload}
        answer = self.api.client.push_message(*self._names(sensor), body)
        return Pushed(
            answer["sensor_id"],
            answer["message_id"],
            MessageState(answer["state"]),
            answer["is_repeated"],
        )


class RemoteAssetAutomation(AssetAutomationCommands):
    api: CommandApi

    def pause(self, asset: str, *, reason: str = "") -> Acknowledged:
        return generation_of(self.api.client.pause_automation(asset, {"reason": reason}))

    def resume(self, asset: str, *, catchup: ResumeCatchup = "none") -> Acknowledged:
        return generation_of(self.api.client.resume_automation(asset, {"catchup": catchup}))


class RemoteBackfills(BackfillCommands):
    api: CommandApi

    def create(self, draft: BackfillDraft, *, backfill_id: str = "") -> Backfill:
        body = _plan_body(draft.request)
        body |= {
            "chunk_size": draft.chunk_size,
            "max_concurrent_runs": draft.max_concurrent_runs,
            "order": "newest" if draft.newest_first else "oldest",
            "failure_threshold": draft.failure_threshold,
            "reason": draft.reason,
        }
        return self._after(self.api.client.create_backfill(cast(Any, body)))

    def _after(self, answer: Mapping[str, Any]) -> Backfill:
        return AutomationReader(self._core.snapshot()).backfill(answer["backfill_id"])

    def _id(self, backfill: str) -> str:
        return AutomationReader(self._core.snapshot()).backfill(backfill).row.backfill_id

    def pause(self, backfill: str, *, reason: str = "") -> Backfill:
        body: Any = {"reason": reason}
        return self._after(self.api.client.pause_backfill(self._id(backfill), body))

    def resume(self, backfill: str) -> Backfill:
        return self._after(self.api.client.resume_backfill(self._id(backfill)))

    def cancel(self, backfill: str, *, reason: str = "") -> Backfill:
        body: Any = {"reason": reason}
        return self._after(self.api.client.cancel_backfill(self._id(backfill), body))

    def retry(self, backfill: str) -> Backfill:
        return self._after(self.api.client.retry_backfill(self._id(backfill)))


class RemoteLineage(LineageCommands):
    api: CommandApi

    def add(
        self,
        source: Node,
        target: Node,
        *,
        kind: Influence = "transformation",
        masked: bool = False,
        owner: str = "",
        description: str = "",
        idempotency_key: str = "",
    ) -> Acknowledged:
        key = self.api.key(idempotency_key)
        body: Any = {
            **_edge(source, target),
            "kind": kind,
            "masked": masked,
            "owner": owner,
            "description": description,
        }
        return self.api.done(self.api.client.add_edge(body, idempotency_key=key), key)

    def remove(self, source: Node, target: Node, *, idempotency_key: str = "") -> Acknowledged:
        key = self.api.key(idempotency_key)
        body: Any = _edge(source, target)
        return self.api.done(self.api.client.remove_edge(body, idempotency_key=key), key)


def _edge(source: Node, target: Node) -> dict[str, Any]:
    return {"source": source._asdict(), "target": target._asdict()}


class RemoteNotifications(NotificationCommands):
    api: CommandApi

    def retry(self, notification: str) -> Acknowledged:
        row = NotificationReader(self._core.snapshot()).notification(notification)
        return generation_of(self.api.client.retry_notification(row.notification_id))


class RemoteSecurity(SecurityCommands):
    api: CommandApi

    def create_key(
        self,
        name: str,
        role: Role,
        *,
        namespaces: Sequence[str] = (),
        scopes: Sequence[str] = (),
        expires_at: datetime | None = None,
        kind: KeyKind = "api_key",
        idempotency_key: str = "",
    ) -> NewKey:
        body: Any = {
            "name": name,
            "role": role.value,
            "namespaces": list(namespaces),
            "scopes": list(scopes),
            "expires_at": None if expires_at is None else iso(expires_at),
            "kind": kind,
        }
        key = self.api.key(idempotency_key)
        answer = self.api.client.create_api_key(body, idempotency_key=key)
        text = parse_key(answer["secret"])
        assert text is not None
        rows = SecurityReader(self._core.snapshot()).api_keys()
        row = next(row for row in rows if row.key_id == text.key_id)
        return NewKey(text, row, answer.get("generation", 0))

    def revoke_key(self, key: str, *, reason: str = "", idempotency_key: str = "") -> Acknowledged:
        command = self.api.key(idempotency_key)
        id = SecurityReader(self._core.snapshot()).key(key).key_id
        answer = self.api.client.revoke_api_key(id, {"reason": reason}, idempotency_key=command)
        return self.api.done(answer, command)

    def grant(
        self,
        subject: str,
        role: Role,
        *,
        namespace: str = "",
        reason: str = "",
        idempotency_key: str = "",
    ) -> Acknowledged:
        key = self.api.key(idempotency_key)
        body: Any = {"subject": subject, "namespace": namespace, "reason": reason}
        body["role"] = role.value
        answer = self.api.client.grant_role(body, idempotency_key=key)
        return self.api.done(answer, key)

    def revoke(
        self, subject: str, *, namespace: str = "", reason: str = "", idempotency_key: str = ""
    ) -> Acknowledged:
        key = self.api.key(idempotency_key)
        body: Any = {"subject": subject, "namespace": namespace, "reason": reason}
        return self.api.done(self.api.client.revoke_role(body, idempotency_key=key), key)


_REMOTE: Final[Mapping[str, type[Any]]] = {
    "catalog": RemoteCatalog,
    "governance": RemoteGovernance,
    "contracts": RemoteContracts,
    "execution": RemoteExecution,
    "orchestration": RemoteOrchestration,
    "limits": RemoteLimits,
    "automation": RemoteAutomation,
    "sensors": RemoteSensors,
    "asset_automation": RemoteAssetAutomation,
    "backfills": RemoteBackfills,
    "lineage": RemoteLineage,
    "imports": RemoteImports,
    "ingest": RemoteIngest,
    "notifications": RemoteNotifications,
    "security": RemoteSecurity,
}
