"""Commands: what changes a workspace, by domain. Each is decided before it is acknowledged."""

from __future__ import annotations

from arco.automation.asset_commands import AssetAutomationCommands
from arco.automation.backfill_commands import BackfillCommands
from arco.automation.commands import AutomationCommands
from arco.automation.sensor_commands import SensorCommands
from arco.catalog.commands import CatalogCommands
from arco.catalog.contract_commands import ContractCommands
from arco.catalog.governance_commands import GovernanceCommands
from arco.execution.commands import ExecutionCommands
from arco.imports.commands import ImportCommands
from arco.ingest.commands import IngestCommands
from arco.lineage.commands import LineageCommands
from arco.notifications.commands import NotificationCommands
from arco.orchestration.asset_columns import columns_of
from arco.orchestration.catalog_names import lineage_reader
from arco.orchestration.commands import OrchestrationCommands
from arco.orchestration.limit_commands import LimitCommands
from arco.orchestration.reader import Library
from arco.security.caller import Caller, local_caller
from arco.security.commands import SecurityCommands
from arco.state.core import Core
from arco.state.fold import Chain
from arco.state.snapshot import Snapshot
from arco.state.tier1 import Tier1
from arco.state.writer import LogWriter


class Commands:
    def __init__(
        self,
        core: Core,
        writer: LogWriter,
        chain: Chain,
        library: Library,
        actor: str = "",
        *,
        caller: Caller | None = None,
        idempotency_key: str = "",
    ) -> None:
        """The commands of one caller; None: of the user of the store's credentials.

        `idempotency_key` is for commands of one request: its first one has it.
        """
        manifests = core.manifests
        caller = caller or local_caller(actor, manifests.tenant, manifests.workspace)
        self.tier1 = Tier1(core, writer, chain, idempotency_key=idempotency_key)
        self.catalog = CatalogCommands(self.tier1, library.declaration, actor)
        self.governance = GovernanceCommands(self.tier1, actor)
        self.contracts = ContractCommands(self.tier1, library.declaration, actor)
        self.execution = ExecutionCommands(self.tier1, core.snapshot, actor)
        self.orchestration = OrchestrationCommands(core, writer, self.tier1, library, actor)
        self.limits = LimitCommands(core, self.tier1, library, actor)
        self.automation = AutomationCommands(core, self.tier1, self.orchestration, actor)
        self.sensors = SensorCommands(core, self.tier1, actor)
        self.asset_automation = AssetAutomationCommands(core, self.tier1, library, actor)
        self.backfills = BackfillCommands(core, self.tier1, library, actor)
        self.lineage = LineageCommands(self.tier1, lineage_reader, _column_names, actor)
        self.imports = ImportCommands(core, writer, self.tier1, actor)
        self.ingest = IngestCommands(core, self.tier1, self.catalog, actor)
        self.notifications = NotificationCommands(core, self.tier1, actor)
        self.security = SecurityCommands(core, self.tier1, caller)


def _column_names(snapshot: Snapshot, asset: str) -> list[str]:
    return [column.name for column in columns_of(snapshot, asset)]
