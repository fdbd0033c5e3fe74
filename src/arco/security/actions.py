"""The action of each command in the audit log, and its fields that name the resource.

By the type of the event, since this package knows no other domain. Every command that the
program has is listed; a test says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from arco.log.envelope import Payload


class Action(msgspec.Struct, frozen=True):
    name: str
    resource_type: str
    id: str = ""
    """The field that identifies the resource."""
    label: str = ""
    """The field that names it for people."""
    namespace: str = ""
    """The field that is, or begins with, the resource's namespace."""


class Resource(msgspec.Struct, frozen=True):
    type: str
    id: str = ""
    name: str = ""
    namespace: str = ""


_ASSET = ("asset", "asset_id", "asset_key", "asset_key")
_COLUMN = ("column", "column_id", "column_name", "asset_key")
_EDGE = ("lineage_edge", "source_id", "target_id")
_RUN = ("run", "run_id")
_REQUEST = ("run_request", "request_key", "request_key")
_LIMIT = ("limit", "scope", "name")
_SCHEDULE = ("schedule", "schedule_id", "schedule_id")
_SENSOR = ("sensor", "sensor_id", "sensor_id")
_BACKFILL = ("backfill", "backfill_id")
_AUTOMATION = ("asset", "", "asset", "asset")
_VERSION = ("version", "materialization_id", "asset_id")
_VERSIONS = ("asset", "asset_id")
_NAMESPACE = ("namespace", "namespace", "namespace", "namespace")
_CONTRACT = ("contract", "asset_id", "name", "namespace")
_TERM = ("term", "term", "term")
_KEY = ("api_key", "key_id", "name")
_BINDING = ("role_binding", "subject", "subject", "namespace")

ACTIONS: Final[Mapping[str, Action]] = {
    "catalog.namespace_created": Action("CreateNamespace", *_NAMESPACE),
    "catalog.namespace_updated": Action("UpdateNamespace", *_NAMESPACE),
    "catalog.namespace_dropped": Action("DropNamespace", *_NAMESPACE),
    "catalog.namespace_governed": Action("GovernNamespace", *_NAMESPACE),
    "catalog.asset_created": Action("CreateAsset", "asset", "", "name", "namespace"),
    "catalog.asset_updated": Action("UpdateAsset", *_ASSET),
    "catalog.asset_renamed": Action("RenameAsset", "asset", "asset_id", "name", "namespace"),
    "catalog.asset_dropped": Action("DropAsset", "asset", "asset_id", "name", "namespace"),
    "catalog.asset_governed": Action("GovernAsset", *_ASSET),
    "catalog.contract_set": Action("UpdateContract", *_CONTRACT),
    "catalog.contract_withdrawn": Action("RemoveContract", *_CONTRACT),
    "catalog.column_added": Action("AddColumn", *_ASSET),
    "catalog.column_updated": Action("UpdateColumn", *_COLUMN),
    "catalog.column_dropped": Action("DropColumn", *_COLUMN),
    "catalog.column_renamed": Action("RenameColumn", *_COLUMN),
    "catalog.term_created": Action("CreateTerm", *_TERM),
    "catalog.term_updated": Action("UpdateTerm", *_TERM),
    "catalog.term_dropped": Action("DropTerm", *_TERM),
    "orchestration.deployment_created": Action(
        "DeployAssets", "deployment", "deployment_id", "project"
    ),
    "orchestration.run_requested": Action("RequestRun", *_REQUEST),
    "orchestration.run_request_withdrawn": Action("WithdrawRunRequest", *_REQUEST),
    "orchestration.run_triggered": Action("TriggerRun", *_RUN),
    "orchestration.run_cancel_requested": Action("CancelRun", *_RUN),
    "orchestration.partition_keys_changed": Action(
        "ChangePartitionKeys", "partition_keys", "keys", "keys"
    ),
    "orchestration.limit_set": Action("SetLimit", *_LIMIT),
    "orchestration.limit_unset": Action("UnsetLimit", *_LIMIT),
    "orchestration.dispatch_paused": Action("PauseDispatch", "workspace"),
    "orchestration.dispatch_resumed": Action("ResumeDispatch", "workspace"),
    "automation.schedule_paused": Action("PauseSchedule", *_SCHEDULE),
    "automation.schedule_resumed": Action("ResumeSchedule", *_SCHEDULE),
    "automation.backfill_created": Action("CreateBackfill", *_BACKFILL),
    "automation.backfill_paused": Action("PauseBackfill", *_BACKFILL),
    "automation.backfill_resumed": Action("ResumeBackfill", *_BACKFILL),
    "automation.backfill_cancelled": Action("CancelBackfill", *_BACKFILL),
    "automation.backfill_retried": Action("RetryBackfill", *_BACKFILL),
    "automation.sensor_paused": Action("PauseSensor", *_SENSOR),
    "automation.sensor_resumed": Action("ResumeSensor", *_SENSOR),
    "automation.sensor_reset": Action("ResetSensor", *_SENSOR),
    "automation.sensor_message_pushed": Action("PushSensorMessage", *_SENSOR),
    "automation.automation_paused": Action("PauseAutomation", *_AUTOMATION),
    "automation.automation_resumed": Action("ResumeAutomation", *_AUTOMATION),
    "execution.quarantine_decided": Action("UnquarantinePartition", *_VERSION),
    "execution.version_quarantined": Action(
        "QuarantinePartition", "asset", "asset_id", "asset", "asset"
    ),
    "execution.versions_expired": Action("ExpireVersions", *_VERSIONS),
    "execution.versions_damaged": Action("MarkVersionsDamaged", *_VERSIONS),
    "lineage.edge_added": Action("AddLineageEdge", *_EDGE),
    "lineage.edge_removed": Action("RemoveLineageEdge", *_EDGE),
    "imports.created": Action("ImportLineage", "import", "source", "source"),
    "ingest.output_reported": Action("ReportOutput", *_ASSET),
    "notifications.retried": Action(
        "RetryNotification", "notification", "notification_id", "rule_id"
    ),
    "security.api_key_created": Action("CreateApiKey", *_KEY),
    "security.api_key_revoked": Action("RevokeApiKey", *_KEY),
    "security.role_granted": Action("UpdateRoles", *_BINDING),
    "security.role_revoked": Action("UpdateRoles", *_BINDING),
    "security.session_ended": Action("EndSession", "session", "session_id", "subject"),
}


def described(payload: Payload) -> tuple[str, Resource]:
    """The action of a command, and what it is done to."""
    action = ACTIONS.get(payload.TYPE)
    if action is None:
        return payload.TYPE, Resource("")
    namespace = _text(payload, action.namespace).partition(".")[0]
    name = _text(payload, action.label)
    if action.label == "name" and action.namespace == "namespace":
        name = f"{namespace}.{name}"
    return _named(payload, action), Resource(
        action.resource_type, _text(payload, action.id), name, namespace
    )


def _named(payload: Payload, action: Action) -> str:
    """The action of commands that have several."""
    if action.name == "DeployAssets" and getattr(payload, "rollback_of", None):
        return "RollbackDeployment"
    if action.name == "UnquarantinePartition" and not getattr(payload, "approved", True):
        return "RejectQuarantinedPartition"
    return action.name


def _text(payload: Payload, field: str) -> str:
    value = getattr(payload, field, "") if field else ""
    return value if isinstance(value, str) else ""
