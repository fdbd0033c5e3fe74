"""The action of each command in the audit log, and its fields that name the resource.

By the type of the event, since this package knows no other domain. Every command that the
program has is listed; a test says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from arco.log.envelope import Payload


class AuditAction(msgspec.Struct, frozen=True):
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

ACTIONS: Final[Mapping[str, AuditAction]] = {
    "catalog.namespace_created": AuditAction("CreateNamespace", *_NAMESPACE),
    "catalog.namespace_updated": AuditAction("UpdateNamespace", *_NAMESPACE),
    "catalog.namespace_dropped": AuditAction("DropNamespace", *_NAMESPACE),
    "catalog.namespace_governed": AuditAction("GovernNamespace", *_NAMESPACE),
    "catalog.asset_created": AuditAction("CreateAsset", "asset", "", "name", "namespace"),
    "catalog.asset_updated": AuditAction("UpdateAsset", *_ASSET),
    "catalog.asset_renamed": AuditAction("RenameAsset", "asset", "asset_id", "name", "namespace"),
    "catalog.asset_dropped": AuditAction("DropAsset", "asset", "asset_id", "name", "namespace"),
    "catalog.asset_governed": AuditAction("GovernAsset", *_ASSET),
    "catalog.contract_set": AuditAction("UpdateContract", *_CONTRACT),
    "catalog.contract_withdrawn": AuditAction("RemoveContract", *_CONTRACT),
    "catalog.column_added": AuditAction("AddColumn", *_ASSET),
    "catalog.column_updated": AuditAction("UpdateColumn", *_COLUMN),
    "catalog.column_dropped": AuditAction("DropColumn", *_COLUMN),
    "catalog.column_renamed": AuditAction("RenameColumn", *_COLUMN),
    "catalog.term_created": AuditAction("CreateTerm", *_TERM),
    "catalog.term_updated": AuditAction("UpdateTerm", *_TERM),
    "catalog.term_dropped": AuditAction("DropTerm", *_TERM),
    "orchestration.deployment_created": AuditAction(
        "DeployAssets", "deployment", "deployment_id", "project"
    ),
    "orchestration.run_requested": AuditAction("RequestRun", *_REQUEST),
    "orchestration.run_request_withdrawn": AuditAction("WithdrawRunRequest", *_REQUEST),
    "orchestration.run_triggered": AuditAction("TriggerRun", *_RUN),
    "orchestration.run_cancel_requested": AuditAction("CancelRun", *_RUN),
    "orchestration.partition_keys_changed": AuditAction(
        "ChangePartitionKeys", "partition_keys", "keys", "keys"
    ),
    "orchestration.limit_set": AuditAction("SetLimit", *_LIMIT),
    "orchestration.limit_unset": AuditAction("UnsetLimit", *_LIMIT),
    "orchestration.dispatch_paused": AuditAction("PauseDispatch", "workspace"),
    "orchestration.dispatch_resumed": AuditAction("ResumeDispatch", "workspace"),
    "automation.schedule_paused": AuditAction("PauseSchedule", *_SCHEDULE),
    "automation.schedule_resumed": AuditAction("ResumeSchedule", *_SCHEDULE),
    "automation.backfill_created": AuditAction("CreateBackfill", *_BACKFILL),
    "automation.backfill_paused": AuditAction("PauseBackfill", *_BACKFILL),
    "automation.backfill_resumed": AuditAction("ResumeBackfill", *_BACKFILL),
    "automation.backfill_cancelled": AuditAction("CancelBackfill", *_BACKFILL),
    "automation.backfill_retried": AuditAction("RetryBackfill", *_BACKFILL),
    "automation.sensor_paused": AuditAction("PauseSensor", *_SENSOR),
    "automation.sensor_resumed": AuditAction("ResumeSensor", *_SENSOR),
    "automation.sensor_reset": AuditAction("ResetSensor", *_SENSOR),
    "automation.sensor_message_pushed": AuditAction("PushSensorMessage", *_SENSOR),
    "automation.automation_paused": AuditAction("PauseAutomation", *_AUTOMATION),
    "automation.automation_resumed": AuditAction("ResumeAutomation", *_AUTOMATION),
    "execution.quarantine_decided": AuditAction("UnquarantinePartition", *_VERSION),
    "execution.version_quarantined": AuditAction(
        "QuarantinePartition", "asset", "asset_id", "asset", "asset"
    ),
    "execution.versions_expired": AuditAction("ExpireVersions", *_VERSIONS),
    "execution.versions_damaged": AuditAction("MarkVersionsDamaged", *_VERSIONS),
    "lineage.edge_added": AuditAction("AddLineageEdge", *_EDGE),
    "lineage.edge_removed": AuditAction("RemoveLineageEdge", *_EDGE),
    "imports.created": AuditAction("ImportLineage", "import", "source", "source"),
    "ingest.output_reported": AuditAction("ReportOutput", *_ASSET),
    "notifications.retried": AuditAction(
        "RetryNotification", "notification", "notification_id", "rule_id"
    ),
    "security.api_key_created": AuditAction("CreateApiKey", *_KEY),
    "security.api_key_revoked": AuditAction("RevokeApiKey", *_KEY),
    "security.role_granted": AuditAction("UpdateRoles", *_BINDING),
    "security.role_revoked": AuditAction("UpdateRoles", *_BINDING),
    "security.session_ended": AuditAction("EndSession", "session", "session_id", "subject"),
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


def _named(payload: Payload, action: AuditAction) -> str:
    """The action of commands that have several."""
    if action.name == "DeployAssets" and getattr(payload, "rollback_of", None):
        return "RollbackDeployment"
    if action.name == "UnquarantinePartition" and not getattr(payload, "approved", True):
        return "RejectQuarantinedPartition"
    return action.name


def _text(payload: Payload, field: str) -> str:
    value = getattr(payload, field, "") if field else ""
    return value if isinstance(value, str) else ""
