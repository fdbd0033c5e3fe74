"""Reading a workspace: snapshots, and readers of each domain. Nothing here can append."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from arco.automation.reader import AutomationReader
from arco.automation.sensor_reader import SensorReader
from arco.catalog.governance_reader import GovernanceReader
from arco.catalog.reader import CatalogReader
from arco.catalog.schema_reader import SchemaReader
from arco.execution.reader import ExecutionReader
from arco.imports.reader import ImportReader
from arco.lineage.reader import LineageReader
from arco.notifications.reader import NotificationReader
from arco.orchestration.catalog_names import lineage_reader
from arco.orchestration.reader import OrchestrationReader
from arco.security.reader import SecurityReader
from arco.security.tables import AUDIT, AUDIT_HEAD
from arco.state.core import Core
from arco.state.diff import RowDiff, diff
from arco.state.snapshot import At, Snapshot
from arco.state.sql import SqlEngine
from arco.state.sqlprocess import SqlLimits, SqlProcess
from arco.state.table import Table


class Reading:
    def __init__(self, core: Core, tables: Sequence[Table[Any]]) -> None:
        self._core = core
        self._tables = tables

    def snapshot(self, at: At | None = None) -> Snapshot:
        return self._core.snapshot(at)

    def catalog(self, at: At | None = None) -> CatalogReader:
        return CatalogReader(self.snapshot(at))

    def governance(self, at: At | None = None) -> GovernanceReader:
        return GovernanceReader(self.snapshot(at))

    def schemas(self, at: At | None = None) -> SchemaReader:
        return SchemaReader(self.snapshot(at))

    def orchestration(self, at: At | None = None) -> OrchestrationReader:
        return OrchestrationReader(self.snapshot(at))

    def automation(self, at: At | None = None) -> AutomationReader:
        return AutomationReader(self.snapshot(at))

    def notifications(self, at: At | None = None) -> NotificationReader:
        return NotificationReader(self.snapshot(at))

    def sensors(self, at: At | None = None) -> SensorReader:
        return SensorReader(self.snapshot(at))

    def execution(self, at: At | None = None) -> ExecutionReader:
        return ExecutionReader(self.snapshot(at))

    def security(self, at: At | None = None) -> SecurityReader:
        return SecurityReader(self.snapshot(at))

    def lineage(self, at: At | None = None) -> LineageReader:
        return lineage_reader(self.snapshot(at))

    def imports(self, at: At | None = None) -> ImportReader:
        return ImportReader(self.snapshot(at))

    def sql(self, limits: SqlLimits | None = None, process: SqlProcess | None = None) -> SqlEngine:
        """An engine for SQL over snapshots of this workspace; close it after use."""
        return SqlEngine(self._tables, limits, process)

    def diff(self, before: At, after: At | None = None) -> list[RowDiff]:
        """The changes of the domains' tables between two generations, without derived tables."""
        repeating = (AUDIT, AUDIT_HEAD)
        tables = [
            table
            for table in self._tables
            if table.domain not in ("log", "search") and table not in repeating
        ]
        return diff(self.snapshot(before), self.snapshot(after), tables)
