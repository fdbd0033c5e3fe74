"""Each command of the command line has its operations in the API, or a reason why it has none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from arco.api.openapi import document
from arco.api.table import ROUTES
from arco.cli.app import tree

LOCAL = "works on files of this machine"
ENGINE = "runs tasks in this process"
STORE = "maintains the files of the store, with its credentials"

COMMANDS: dict[str, tuple[str, ...] | str] = {
    # Projects and deployments
    "init": LOCAL,
    "dev": ENGINE,
    "validate": LOCAL,
    "deploy": ("create_deployment", "validate_deployment"),
    "deployments": ("list_deployments", "get_deployment", "get_manifest"),
    "rollback": ("rollback_deployment",),
    # Runs
    "plan": ("preview_run",),
    "run": ("trigger_run",),
    "runs list": ("list_runs",),
    "runs show": ("get_run", "list_tasks", "get_task", "list_planned_tasks"),
    "runs cancel": ("cancel_run",),
    "runs retry": ("retry_run",),
    "runs resume": ENGINE,
    "runs task": ("get_task_plan",),
    "runs logs": ("get_task_log",),
    "runs outputs": ("list_run_outputs",),
    "status": ("get_health_summary", "list_runs"),
    "logs": ("get_task_log",),
    "assets": ("list_assets",),
    # Automation
    "schedules list": ("list_schedules",),
    "schedules show": ("get_schedule", "list_ticks"),
    "schedules pause": ("pause_schedule",),
    "schedules resume": ("resume_schedule",),
    "schedules tick": ("tick_schedule",),
    "schedules preview": ("preview_schedule",),
    "sensors list": ("list_sensors",),
    "sensors show": ("get_sensor", "list_evaluations"),
    "sensors pause": ("pause_sensor",),
    "sensors resume": ("resume_sensor",),
    "sensors reset": ("reset_sensor",),
    "sensors push": ("push_message",),
    "sensors test": ENGINE,
    "automation list": ("list_automations",),
    "automation explain": ("explain_automation",),
    "automation pause": ("pause_automation",),
    "automation resume": ("resume_automation",),
    "backfill preview": ("preview_backfill",),
    "backfill create": ("create_backfill",),
    "backfill list": ("list_backfills",),
    "backfill status": ("get_backfill", "list_backfill_chunks"),
    "backfill pause": ("pause_backfill",),
    "backfill resume": ("resume_backfill",),
    "backfill retry": ("retry_backfill",),
    "backfill cancel": ("cancel_backfill",),
    "requests list": ("list_requests",),
    "requests show": ("get_request",),
    "requests cancel": ("cancel_request",),
    "freshness": ("list_freshness",),
    "notifications list": ("list_notifications",),
    "notifications show": ("get_notification",),
    "notifications alerts": ("list_alerts",),
    "notifications rules": ("list_notification_rules",),
    "notifications test": "sends from the machine that has the secrets of the channel",
    "notifications retry": ("retry_notification",),
    # Limits
    "limits list": ("get_limits",),
    "limits set": ("set_limit",),
    "limits unset": ("set_limit",),
    "pause": ("pause_dispatch",),
    "resume": ("resume_dispatch",),
    # Data
    "show": ("preview_data",),
    "code": ("get_asset_code",),
    "partitions add": ("change_partition_keys",),
    "partitions remove": ("change_partition_keys",),
    "partitions list": ("list_dynamic_keys",),
    "partitions status": ("get_partitions",),
    "partitions versions": ("list_versions", "get_version"),
    "partitions history": ("list_versions", "list_held_outputs"),
    "partitions files": ("list_version_files",),
    "compare": ("compare_versions",),
    "checks list": ("list_checks",),
    "checks show": ("list_check_results",),
    "quarantine list": ("list_held_outputs",),
    "quarantine show": ("get_held_output",),
    "quarantine approve": ("approve_output",),
    "quarantine reject": ("reject_output",),
    "quarantine add": ("quarantine_version",),
    "quarantine release": ("release_output",),
    "schema show": ("list_asset_columns", "get_asset_schema"),
    "schema history": ("list_asset_schemas", "get_asset_schema"),
    "schema diff": ("diff_asset_schema",),
    "schema rename-column": ("rename_column",),
    "contracts list": ("list_contracts",),
    "contracts show": ("get_contract",),
    "contracts diff": ("diff_contract",),
    "contracts history": ("list_contract_versions", "list_contract_breaches"),
    "contracts check": ("check_contract",),
    "contracts remove": ("remove_contract",),
    "contracts export": ("export_contract",),
    "contracts import": ("set_contract", "validate_contract"),
    "lineage show": ("get_upstream", "get_downstream"),
    "lineage impact": ("get_impact",),
    "lineage inputs": ("list_inputs",),
    "lineage add": ("add_edge",),
    "lineage remove": ("remove_edge",),
    "lineage export": ("export_run_lineage",),
    "lineage import-dbt": ("import_dbt",),
    "lineage imports": ("list_imports",),
    "lineage remove-import": ("remove_import",),
    "ingest openlineage": ("ingest_lineage",),
    "ingest output": ("report_materialization",),
    "ingest check": ("report_check_results",),
    "ingest list": ("list_reports",),
    "pii list": ("list_personal_columns",),
    "pii explain": ("explain_personal_column",),
    "pii suggest": ("suggest_personal_columns",),
    "costs": ("get_costs",),
    "gc": STORE,
    # Answers
    "explain": ("explain_asset", "explain_run"),
    "health": ("list_health", "get_health_summary", "get_asset_health"),
    "recommend": ("list_recommendations",),
    "diff": ("get_diff",),
    # The catalog
    "search": ("search",),
    "catalog show": ("get_governance", "get_asset_governance"),
    "catalog set": ("govern",),
    "catalog withdraw": ("govern",),
    "catalog deprecate": ("govern",),
    "catalog namespace create": ("create_namespace",),
    "catalog namespace update": ("update_namespace",),
    "catalog namespace drop": ("drop_namespace",),
    "catalog namespace list": ("list_namespaces",),
    "catalog namespace show": ("get_namespace",),
    "catalog asset create": ("create_asset",),
    "catalog asset update": ("update_asset",),
    "catalog asset rename": ("rename_asset",),
    "catalog asset drop": ("drop_asset",),
    "catalog asset list": ("list_assets",),
    "catalog asset show": ("get_asset",),
    "catalog column add": ("add_column",),
    "catalog column update": ("update_column",),
    "catalog column drop": ("drop_column",),
    "catalog terms create": ("create_term",),
    "catalog terms update": ("update_term",),
    "catalog terms list": ("list_terms",),
    "catalog terms show": ("get_term",),
    "catalog terms drop": ("drop_term",),
    # Servers
    "orchestrator": ENGINE,
    "worker": ENGINE,
    "serve": "is the API",
    # Security
    "auth login": "keeps the session of the issuer on this machine",
    "auth logout": "forgets the session on this machine",
    "auth whoami": ("me",),
    "auth keys create": ("create_api_key",),
    "auth keys list": ("list_api_keys",),
    "auth keys revoke": ("revoke_api_key",),
    "roles list": ("list_roles",),
    "roles grant": ("grant_role",),
    "roles revoke": ("revoke_role",),
    "roles show": ("list_roles",),
    "audit list": ("list_audit",),
    "audit show": ("get_audit_record",),
    "audit verify": ("verify_audit_log",),
    "audit export": ("list_audit",),
    # Upkeep
    "admin init": STORE,
    "admin snapshot": ("get_snapshot", "list_generations"),
    "admin merge": STORE,
    "admin rollback": STORE,
    "admin diff": ("get_diff",),
    "admin sql": ("query",),
    "admin fsck": STORE,
    "admin rebuild": STORE,
    "admin gc": STORE,
    "admin backup": STORE,
    "admin restore": STORE,
    "admin pin": STORE,
    "admin unpin": STORE,
    "admin pins": ("list_pins",),
    "admin compact": STORE,
    "admin rejected": STORE,
    "admin log tail": ("stream_events",),
    "admin log show": ("stream_events",),
    # This installation
    "doctor": LOCAL,
    "version": LOCAL,
}


def _commands(command: Any, path: str = "") -> Iterator[str]:
    children = getattr(command, "commands", None)
    if not children:
        yield path
        return
    for name, child in children.items():
        if not child.hidden:
            yield from _commands(child, f"{path} {name}".strip())


def test_each_command_has_its_operations_or_a_reason() -> None:
    assert set(_commands(tree())) == set(COMMANDS)


def test_each_operation_that_a_command_names_is_there() -> None:
    operations = {
        operation["operationId"]
        for item in document(ROUTES)["paths"].values()
        for operation in item.values()
    }
    named = {each for value in COMMANDS.values() if isinstance(value, tuple) for each in value}
    assert named <= operations, sorted(named - operations)
