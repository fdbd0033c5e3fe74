"""Deployments, limits, dispatch, dynamic keys, notifications."""

from __future__ import annotations

import hashlib
import re
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from arco.api.command_keys import id_of_key
from arco.api.reads.operations import LimitsBody, limits_body, require_deployment
from arco.api.routes import NoBody, Parameters, write
from arco.api.writes.automation_writes import ReasonBody
from arco.api.writes.run_writes import NoParameters, ReasonText, allow_namespaces
from arco.api.writing import WriteAnswer, Writing
from arco.errors import Conflict, Denied, NotFound
from arco.notifications.reader import NotificationReader
from arco.notifications.tables import NotificationRow
from arco.orchestration.deploying import Deployed
from arco.orchestration.reader import OrchestrationReader
from arco.orchestration.schema_deploy import BreakAcceptance
from arco.orchestration.tables import DEPLOYMENTS
from arco.security.permissions import Permission
from arco.worker.artifact import check_artifact
from servo.contract.manifest import Manifest, decode_manifest, encode_manifest, keys_read

# -- deployments ------------------------------------------------------------------------------


KEY = re.compile(r"[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*")
"""A selection of one asset."""


class DeployOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    message: ReasonText = ""
    allow_missing_inputs: bool = False
    allow_removals: bool = False
    accept_breaking: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=1500)], ...], Meta(max_length=1000)
    ] = ()
    """Columns whose changes may break readers: `namespace.asset.column`."""
    reason: ReasonText = ""
    """Why they are accepted."""

    @property
    def accepted(self) -> BreakAcceptance:
        return BreakAcceptance(self.accept_breaking, self.reason)


class ValidateBody(DeployOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    manifest: msgspec.Raw
    """As `servo deploy --dry-run --json` prints it under `manifest`."""


class DeployBody(ValidateBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    source: bytes
    """The zip of the project's folder, in base64."""


class DeployedBody(msgspec.Struct, frozen=True, kw_only=True):
    deployment: Deployed


def _manifest(writing: Writing, raw: msgspec.Raw) -> Manifest:
    """The manifest, if the caller may deploy what it has and what it would remove."""
    manifest = decode_manifest(bytes(raw))
    reader = OrchestrationReader(writing.view.snapshot)
    before = reader.deployed_assets(manifest.project)
    keys = {asset.key for asset in manifest.assets}
    keys |= {asset.renamed_from for asset in manifest.assets if asset.renamed_from}
    keys |= {contract.name for contract in manifest.contracts}
    keys |= {key for key, row in before.items() if row.active}
    if not writing.caller.may(writing.permission):
        named = {each.name for each in manifest.namespaces}
        allow_namespaces(writing, named | {key.partition(".")[0] for key in keys})
        _check_reach(writing, manifest)
    return manifest


def _check_reach(writing: Writing, manifest: Manifest) -> None:
    """What its code reads, and what would ask for runs of it later.

    The same answer whether or not a hidden asset is there.
    """
    reads = {key.partition(".")[0] for asset in manifest.assets for key in keys_read(asset)}
    if not all(writing.caller.may(Permission.DATA_READ, namespace) for namespace in reads):
        raise Denied("the selection reads assets in namespaces whose data you may not read")
    # What a pattern selects may grow after the deployment: single assets cannot.
    terms = {term for each in manifest.schedules for term in each.selection}
    terms |= {term for each in manifest.sensors for term in each.selection}
    if any(not KEY.fullmatch(term) for term in terms) or any(s.workspace for s in manifest.sensors):
        writing.allow_workspace()
    watched = {sensor.asset for sensor in manifest.sensors if sensor.asset}
    namespaces = {key.partition(".")[0] for key in terms | watched}
    if namespaces:
        allow_namespaces(writing, namespaces)


def validate_deployment(
    writing: Writing, parameters: NoParameters, body: ValidateBody
) -> WriteAnswer[DeployedBody]:
    """Check a manifest, and show the changes of its deployment. Changes nothing."""
    manifest = _manifest(writing, body.manifest)
    preview = writing.unkeyed.orchestration.preview(
        manifest,
        allow_missing_inputs=body.allow_missing_inputs,
        allow_removals=body.allow_removals,
        accept_breaking=body.accepted,
    )
    return WriteAnswer(DeployedBody(deployment=preview), writing.view.generation)


def create_deployment(
    writing: Writing, parameters: NoParameters, body: DeployBody
) -> WriteAnswer[DeployedBody]:
    """Deploy a manifest and its source."""
    manifest = _manifest(writing, body.manifest)
    check_artifact(body.source)
    id = id_of_key(writing.key) if writing.key else ""
    deployed = _earlier(writing, manifest, id) or writing.unkeyed.orchestration.deploy(
        manifest,
        body.source,
        message=body.message,
        allow_missing_inputs=body.allow_missing_inputs,
        allow_removals=body.allow_removals,
        accept_breaking=body.accepted,
        deployment_id=id,
    )
    return _answer(deployed)


def _answer(deployed: Deployed) -> WriteAnswer[DeployedBody]:
    location = f"/deployments/{deployed.deployment_id}"
    return WriteAnswer(DeployedBody(deployment=deployed), deployed.generation, location)


def _earlier(
    writing: Writing, manifest: Manifest, id: str, rollback_of: str = ""
) -> Deployed | None:
    """What the same request has deployed before."""
    if not id:
        return None
    row = writing.view.snapshot.get(DEPLOYMENTS, manifest.project, id)
    if row is None:
        return None
    digest = hashlib.sha256(encode_manifest(manifest)).hexdigest()
    if row.manifest != digest or row.rollback_of != rollback_of:
        raise Conflict("this idempotency key was used for another deployment")
    return Deployed(id, row.number, writing.view.generation, False, project=row.project)


class RollbackParameters(Parameters, frozen=True, kw_only=True):
    deployment_id: Annotated[str, Meta(min_length=1, max_length=64)]


def rollback_deployment(
    writing: Writing, parameters: RollbackParameters, body: DeployOptions
) -> WriteAnswer[DeployedBody]:
    """Deploy an older deployment again, as a new one of its project."""
    row = require_deployment(writing.view, writing.visible, parameters.deployment_id)
    manifest = writing.view.library.manifest(row.manifest)
    _manifest(writing, msgspec.Raw(encode_manifest(manifest)))
    id = id_of_key(writing.key) if writing.key else ""
    deployed = _earlier(writing, manifest, id, row.deployment_id)
    deployed = deployed or writing.unkeyed.orchestration.rollback(
        row.deployment_id,
        project=row.project,
        message=body.message,
        allow_missing_inputs=body.allow_missing_inputs,
        allow_removals=body.allow_removals,
        accept_breaking=body.accepted,
        deployment_id=id,
    )
    return _answer(deployed)


# -- limits and dispatch ----------------------------------------------------------------------


class LimitBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    scope: Annotated[str, Meta(min_length=1, max_length=200)]
    """`workspace`, `tenant:NAME`, `tenant:*` or `pool:NAME`."""
    name: Annotated[str, Meta(max_length=100)] = ""
    value: Annotated[str, Meta(max_length=100)] | None
    """As `servo limits set` takes it; null removes the limit."""
    new_pool: bool = False
    reason: ReasonText = ""


def set_limit(
    writing: Writing, parameters: NoParameters, body: LimitBody
) -> WriteAnswer[LimitsBody]:
    """Set or remove a limit of tasks or runs, or the size of a pool."""
    writing.allow_workspace()
    if body.value is None:
        writing.commands.limits.unset(body.scope, body.name, reason=body.reason)
    else:
        writing.commands.limits.set(
            body.scope, body.name, body.value, reason=body.reason, new_pool=body.new_pool
        )
    view = writing.fresh()
    return WriteAnswer(limits_body(view), view.generation)


def pause_dispatch(
    writing: Writing, parameters: NoParameters, body: ReasonBody
) -> WriteAnswer[LimitsBody]:
    """Pause all dispatch: no task and no run of the workspace starts until it is resumed."""
    writing.allow_workspace()
    done = writing.commands.limits.pause(reason=body.reason)
    return WriteAnswer(limits_body(writing.fresh()), done.generation)


def resume_dispatch(
    writing: Writing, parameters: NoParameters, body: ReasonBody
) -> WriteAnswer[LimitsBody]:
    """Resume dispatch."""
    writing.allow_workspace()
    done = writing.commands.limits.resume(reason=body.reason)
    return WriteAnswer(limits_body(writing.fresh()), done.generation)


# -- dynamic keys -----------------------------------------------------------------------------

KeyText = Annotated[str, Meta(min_length=1, max_length=500)]


class KeysParameters(Parameters, frozen=True, kw_only=True):
    keys: Annotated[str, Meta(min_length=1, max_length=128)]


class KeysBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    add: Annotated[tuple[KeyText, ...], Meta(max_length=10_000)] = ()
    remove: Annotated[tuple[KeyText, ...], Meta(max_length=10_000)] = ()


class KeysAnswer(msgspec.Struct, frozen=True, kw_only=True):
    keys: str
    added: int
    removed: int


def change_partition_keys(
    writing: Writing, parameters: KeysParameters, body: KeysBody
) -> WriteAnswer[KeysAnswer]:
    """Add keys to, or remove them from, the set of a dynamic dimension."""
    writing.allow_workspace()  # a set of keys belongs to no namespace
    outcome = writing.commands.orchestration.change_partition_keys(
        parameters.keys, add=body.add, remove=body.remove
    )
    answer = KeysAnswer(keys=parameters.keys, added=len(body.add), removed=len(body.remove))
    return WriteAnswer(answer, outcome.generation, f"/partition-keys/{parameters.keys}")


# -- notifications ----------------------------------------------------------------------------


class NotificationWriteParameters(Parameters, frozen=True, kw_only=True):
    notification_id: Annotated[str, Meta(min_length=1, max_length=128)]


def retry_notification(
    writing: Writing, parameters: NotificationWriteParameters, body: NoBody
) -> WriteAnswer[NotificationRow]:
    """Retry a FAILED notification."""
    if not writing.visible.all:
        raise Denied("notifications need a role on the whole workspace")
    writing.allow_workspace()
    reader = NotificationReader(writing.view.snapshot)
    row = reader.notification(parameters.notification_id)
    if row.notification_id != parameters.notification_id:
        raise NotFound(f"there is no notification {parameters.notification_id}")
    done = writing.commands.notifications.retry(row.notification_id)
    after = NotificationReader(writing.fresh().snapshot).notification(row.notification_id)
    return WriteAnswer(after, done.generation)


_LIMITS = Permission.LIMITS_MANAGE
ROUTES: tuple[Any, ...] = (
    write(
        "POST",
        "/deployments",
        Permission.ASSETS_DEPLOY,
        create_deployment,
        status=201,
        max_body="deployment",
    ),
    write(
        "POST",
        "/deployments/validate",
        Permission.ASSETS_DEPLOY,
        validate_deployment,
        max_body="deployment",
    ),
    write(
        "POST",
        "/deployments/{deployment_id}/rollback",
        Permission.ASSETS_DEPLOY,
        rollback_deployment,
        status=201,
    ),
    write("PUT", "/limits", _LIMITS, set_limit),
    write("POST", "/dispatch/pause", _LIMITS, pause_dispatch),
    write("POST", "/dispatch/resume", _LIMITS, resume_dispatch),
    write("POST", "/partition-keys/{keys}", Permission.PARTITIONS_EDIT, change_partition_keys),
    write(
        "POST",
        "/notifications/{notification_id}/retry",
        Permission.NOTIFICATIONS_MANAGE,
        retry_notification,
    ),
)
