"""The tables of contracts, all keyed by the asset: current contracts, history, and breaches."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Literal

import msgspec

from arco.catalog.contract_changes import ContractChange
from arco.catalog.contract_events import BreachKind
from arco.state.table import History, Row, Table
from servo.contract.manifest import ContractStatement

KEPT_HOT = timedelta(days=30)
ContractSource = Literal["code", "people"]


class ContractState(StrEnum):
    UNKNOWN = "UNKNOWN"
    """No output has been compared with this version yet."""
    KEPT = "KEPT"
    BREACHED = "BREACHED"


class ContractRow(Row, frozen=True):
    """The current contract of an asset."""

    asset_id: str
    version: str
    source: ContractSource
    """Its source: only this one changes it."""
    project: str
    deployment_id: str
    """That last changed it; empty if a command did."""
    owner: str
    consumers: list[str]
    consumer_ids: dict[str, str]
    """By key, those that are assets."""
    statement: str
    """All of it: a `ContractStatement` as JSON."""
    accepted: dict[str, str]
    """Columns whose break was accepted for this version, with the reason."""
    state: ContractState
    open_breaches: int
    breaches: int
    """Of all versions."""
    revisions: int
    """How many entries its history has."""
    last_breach_at: datetime | None
    declared_at: datetime
    declared_by: str

    def decoded(self) -> ContractStatement:
        return _statements.decode(self.statement)


class ContractVersionRow(Row, frozen=True):
    """An entry of a contract's history."""

    asset_id: str
    number: int
    event: Literal["declared", "changed", "removed", "accepted"]
    version: str
    source: ContractSource
    statement: str
    """As JSON; empty where it did not change."""
    changes: str
    """Since the entry before: `ContractChange`s, as JSON."""
    breaking: bool
    column: str
    """Whose break was accepted."""
    reason: str
    deployment_id: str
    changed_at: datetime
    changed_by: str
    position: int

    def decoded(self) -> ContractStatement:
        return _statements.decode(self.statement)

    def decoded_changes(self) -> tuple[ContractChange, ...]:
        return _changes.decode(self.changes)


BreachOutcome = Literal[
    "", "kept", "approved", "rejected", "fresh", "replaced", "version", "removed"
]
"""Empty while the breach is open."""


class ContractBreachRow(Row, frozen=True):
    """An output that violates the contract, or stale data."""

    asset_id: str
    breach_id: str
    """The output's materialization id; of stale data, `stale-` and a position."""
    version: str
    kind: BreachKind
    partition_key: str
    run_id: str
    message: str
    checks: list[str]
    columns: list[str]
    consumers: list[str]
    action: str
    """The action for the output: quarantine, block, fail_task, fail_run."""
    breached_at: datetime
    ended_at: datetime | None
    """When a good output came, or the hold was decided."""
    ended_by: str
    outcome: BreachOutcome
    reason: str


_statements = msgspec.json.Decoder(ContractStatement)
_changes = msgspec.json.Decoder(tuple[ContractChange, ...])

CONTRACTS = Table("catalog", "contracts", ContractRow, key=["asset_id"])
CONTRACT_VERSIONS = Table(
    "catalog", "contract_versions", ContractVersionRow, key=["asset_id", "number"]
)
CONTRACT_BREACHES = Table(
    "catalog",
    "contract_breaches",
    ContractBreachRow,
    key=["asset_id", "breach_id"],
    history=History("ended_at", KEPT_HOT),
)
CONTRACT_TABLES = (CONTRACTS, CONTRACT_VERSIONS, CONTRACT_BREACHES)
