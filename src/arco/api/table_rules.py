"""Rules for each table: which rows a caller without access to the whole workspace may see.

All rules are here. SQL (`query.py`) and rows for programs elsewhere (`rows.py`) filter with these
rules, and routes that list the same things ask the same questions (`seen.py`). A table is seen
through some of its columns: the namespace, the asset, the run or the project that a row is of. A
row of which another column tells more than its reader may know is shown without that
(`reduced_rows.py`).

Tables without a rule do not exist: `tests/architecture/test_table_rules.py` compares this with all
tables.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from arco.api.row_visibility import RowVisibility
from arco.security.permissions import Permission

Sees = Callable[[RowVisibility, Any], bool]


class ColumnTest(msgspec.Struct, frozen=True):
    """Whether a caller sees what one column of a row names."""

    sees: Sees
    sql: str = ""
    """The same for SQL: a condition with the places `column`, `namespaces` and `ids`. Empty: SQL
    does not have the table."""


NAMESPACE: Final = ColumnTest(RowVisibility.namespace, "{column} IN ({namespaces})")
ASSET_KEY: Final = ColumnTest(RowVisibility.asset, "split_part({column}, '.', 1) IN ({namespaces})")
ASSET_ID: Final = ColumnTest(RowVisibility.asset_id, "{column} IN {ids}")
RUN: Final = ColumnTest(RowVisibility.run)
WHOLE_RUN: Final = ColumnTest(RowVisibility.whole_run)
PROJECT: Final = ColumnTest(RowVisibility.project)
PART_OF_PROJECT: Final = ColumnTest(RowVisibility.part_of_project)
DEPLOYMENT: Final = ColumnTest(RowVisibility.deployment)
OF_PROJECT: Final = ColumnTest(RowVisibility.owned)
"""`project/name`."""
SELECTION: Final = ColumnTest(RowVisibility.selection)
REQUEST: Final = ColumnTest(RowVisibility.request)
BACKFILL: Final = ColumnTest(RowVisibility.backfill)
EDGE: Final = ColumnTest(RowVisibility.edge)
KEY_SET: Final = ColumnTest(RowVisibility.key_set)
NAMED_ASSET: Final = ColumnTest(RowVisibility.named_asset)
KEY_NAMESPACES: Final = ColumnTest(RowVisibility.namespaces)


class TableRule(msgspec.Struct, frozen=True):
    permission: Permission
    tests: Mapping[str, ColumnTest] = {}
    """By column; all must hold."""
    is_open: bool = False
    """Everybody who has the permission anywhere sees all rows."""

    @property
    def is_hidden(self) -> bool:
        """Only who sees the whole workspace sees rows."""
        return not self.tests and not self.is_open

    def visible_rows(self, rows: pa.Table, visibility: RowVisibility) -> pa.Table:
        """The rows that the caller sees. Tombstones are not among them: they say whose they are
        not any more."""
        rows = rows.filter(pc.invert(rows.column("_deleted")))
        if visibility.everything or self.is_open:
            return rows
        if self.is_hidden:
            return rows.slice(0, 0)
        for column, test in self.tests.items():
            rows = rows.filter(_mask(rows.column(column), functools.partial(test.sees, visibility)))
        return rows

    def condition(self, namespaces: str, ids: str) -> str | None:
        """The same as a condition of SQL; None if SQL does not have the table."""
        if self.is_open:
            return "true"
        if self.is_hidden or not all(test.sql for test in self.tests.values()):
            return None
        return " AND ".join(
            test.sql.format(column=column, namespaces=namespaces, ids=ids)
            for column, test in self.tests.items()
        )


def _mask(column: pa.ChunkedArray, sees: Callable[[Any], bool]) -> pa.Array:
    """One test for each distinct value."""
    if pa.types.is_nested(column.type):
        return pa.array([sees(value) for value in column.to_pylist()], pa.bool_())
    allowed = [value for value in column.unique().to_pylist() if sees(value)]
    return pc.is_in(column, pa.array(allowed, column.type))


_ASSETS, _RUNS = Permission.ASSETS_READ, Permission.RUNS_READ


def _assets(**tests: ColumnTest) -> TableRule:
    return TableRule(_ASSETS, tests)


def _runs(**tests: ColumnTest) -> TableRule:
    return TableRule(_RUNS, tests)


_BY_ID: Final = _assets(asset_id=ASSET_ID)
_BY_KEY: Final = _assets(asset_key=ASSET_KEY)
_BY_NAMESPACE: Final = _assets(namespace=NAMESPACE)
_BY_TARGET: Final = _assets(target=ASSET_ID)
_BY_BOTH_ENDS: Final = _assets(source=ASSET_ID, target=ASSET_ID)
_WORKSPACE: Final = TableRule(_RUNS)

RULES: Final[Mapping[str, TableRule]] = {
    # Runs and tasks.
    "orchestration.projects": _runs(project=PART_OF_PROJECT),
    "orchestration.deployments": _runs(project=PART_OF_PROJECT, deployment_id=DEPLOYMENT),
    "orchestration.deployed_assets": _runs(asset_key=ASSET_KEY),
    "orchestration.project_namespaces": _runs(namespace=NAMESPACE),
    "orchestration.deployment_parts": _WORKSPACE,
    "orchestration.declarations": _runs(project=PROJECT),
    "orchestration.last_deployment": _WORKSPACE,
    "orchestration.dynamic_keys": _runs(keys=KEY_SET),
    "orchestration.key_set_assets": _runs(asset_id=ASSET_ID),
    "orchestration.limits": _WORKSPACE,
    "orchestration.dispatch_control": _WORKSPACE,
    "orchestration.run_keys": _runs(run_id=WHOLE_RUN),
    "orchestration.run_requests": _runs(request=REQUEST),
    "orchestration.runs": _runs(run_id=RUN),
    "orchestration.tasks": _runs(asset_key=ASSET_KEY),
    "orchestration.timers": _runs(run_id=WHOLE_RUN),
    # Automation.
    "automation.sensors": _runs(project=PROJECT),
    "automation.sensor_messages": _runs(sensor_id=OF_PROJECT),
    "automation.sensor_evaluations": _runs(sensor_id=OF_PROJECT),
    "automation.schedules": _runs(project=PROJECT),
    "automation.schedule_ticks": _runs(schedule_id=OF_PROJECT),
    "automation.backfills": _runs(selection=SELECTION),
    "automation.backfill_runs": _runs(backfill_id=BACKFILL),
    "automation.backfill_progress": _runs(backfill_id=BACKFILL),
    "automation.automations": _runs(asset_key=ASSET_KEY),
    "automation.automation_cursor": _WORKSPACE,
    "automation.automation_holds": _runs(asset_key=ASSET_KEY),
    "automation.freshness_requests": _BY_ID,
    "automation.freshness_policies": _BY_KEY,
    "automation.freshness": _BY_ID,
    "automation.stale_series": _BY_ID,
    "automation.freshness_changes": _BY_KEY,
    # Outputs.
    "execution.materializations": _BY_ID,
    "execution.expirations": _BY_ID,
    "execution.schemas": _BY_ID,
    "execution.partitions": _BY_ID,
    "execution.partition_status": _BY_ID,
    "execution.quarantine": _BY_KEY,
    "execution.task_costs": _runs(asset_key=ASSET_KEY),
    "ingest.outputs": _BY_KEY,
    "ingest.newest": _BY_ID,
    "quality.check_results": _BY_KEY,
    "quality.check_status": _BY_KEY,
    "quality.evaluations": _BY_KEY,
    "quality.check_totals": _BY_ID,
    "answers.asset_states": _BY_ID,
    # The catalog.
    "catalog.imports": TableRule(_ASSETS),
    "catalog.import_parts": TableRule(_ASSETS),
    "catalog.imported_nodes": TableRule(_ASSETS),
    "catalog.namespaces": _BY_NAMESPACE,
    "catalog.asset_names": _BY_NAMESPACE,
    "catalog.namespace_statements": _BY_NAMESPACE,
    "catalog.namespace_defaults": _BY_NAMESPACE,
    "catalog.assets": _BY_NAMESPACE,
    "catalog.deprecations": _BY_NAMESPACE,
    "catalog.term_uses": _BY_NAMESPACE,
    "catalog.terms": TableRule(_ASSETS, is_open=True),
    "catalog.contracts": _BY_ID,
    "catalog.contract_versions": _BY_ID,
    "catalog.contract_breaches": _BY_ID,
    "catalog.columns": _BY_ID,
    "catalog.asset_code": _BY_ID,
    "catalog.asset_statements": _BY_ID,
    "catalog.schema_registry": _BY_ID,
    "catalog.schema_versions": _BY_ID,
    "catalog.held_schemas": _BY_ID,
    "catalog.column_renames": _BY_ID,
    "catalog.accepted_breaks": _BY_ID,
    "catalog.asset_stats": _BY_ID,
    "search.documents": _BY_NAMESPACE,
    "search.failing": _BY_ID,
    "lineage.asset_edges": _BY_BOTH_ENDS,
    "lineage.edge_executions": _BY_BOTH_ENDS,
    "lineage.column_edges": _BY_BOTH_ENDS,
    "lineage.column_uses": _BY_BOTH_ENDS,
    "lineage.asset_dependents": _BY_BOTH_ENDS,
    "lineage.topologies": _BY_TARGET,
    "lineage.column_coverage": _BY_TARGET,
    "lineage.asset_edge_metadata": _assets(target=ASSET_ID, edge_id=EDGE),
    "lineage.column_states": TableRule(_ASSETS),
    "lineage.held_outputs": TableRule(_ASSETS),
    # Notifications.
    "notifications.rules": _runs(project=PROJECT),
    "notifications.alerts": _runs(asset=NAMED_ASSET),
    "notifications.rule_index": _WORKSPACE,
    "notifications.queues": _WORKSPACE,
    "notifications.outbox": _WORKSPACE,
    "notifications.asset_failures": _runs(asset_id=ASSET_ID),
    "notifications.keyed_assets": _runs(asset_id=ASSET_ID),
    "notifications.failing_partitions": _runs(asset_id=ASSET_ID),
    "notifications.asset_costs": _runs(asset_id=ASSET_ID),
    "notifications.run_costs": _runs(run_id=WHOLE_RUN),
    # Keys, roles, the audit log; the log's own tables.
    "security.api_keys": TableRule(Permission.KEYS_MANAGE, {"namespaces": KEY_NAMESPACES}),
    "security.role_bindings": TableRule(Permission.ROLES_MANAGE, {"namespace": NAMESPACE}),
    "security.ended_sessions": TableRule(Permission.ROLES_MANAGE),
    "security.audit": TableRule(Permission.AUDIT_READ, {"namespace": NAMESPACE}),
    "security.audit_head": TableRule(Permission.AUDIT_READ),
    "log.commands": _WORKSPACE,
    "log.outcomes": _WORKSPACE,
    "log.segments": _WORKSPACE,
    "log.batches": _WORKSPACE,
}
