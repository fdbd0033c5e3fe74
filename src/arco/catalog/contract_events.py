"""What can happen to the contract of an asset.

A contract has one source. That of code changes with deployments; a command changes only one that a
command has declared.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from arco.catalog.events import CatalogCommand
from arco.log.envelope import Payload
from servo.contract.manifest import ContractStatement, GateAction

BreachKind = Literal["schema", "checks", "freshness"]


class ContractSet(CatalogCommand, frozen=True, kw_only=True, omit_defaults=True):
    """A command: people declare the contract of an asset, or another version of it."""

    TYPE: ClassVar[str] = "catalog.contract_set"
    asset_id: str
    namespace: str
    name: str
    contract: ContractStatement
    consumer_ids: dict[str, str] = {}
    """The ids of consumers that are assets, by key."""
    expected_version: int | None = None
    """Of the contract's row."""


class ContractWithdrawn(CatalogCommand, frozen=True, kw_only=True, omit_defaults=True):
    """A command: people withdraw a contract that they have declared."""

    TYPE: ClassVar[str] = "catalog.contract_withdrawn"
    asset_id: str
    namespace: str
    name: str
    reason: str
    expected_version: int | None = None


class ContractSetAdmitted(Payload, frozen=True, kw_only=True):
    """Derived: the asset of a command still has the given name."""

    TYPE: ClassVar[str] = "catalog.contract_set_admitted"
    asset_id: str
    command: ContractSet


class ContractWithdrawalAdmitted(Payload, frozen=True, kw_only=True):
    """Derived: the same of a withdrawal."""

    TYPE: ClassVar[str] = "catalog.contract_withdrawal_admitted"
    asset_id: str
    command: ContractWithdrawn


class ContractDeclared(Payload, frozen=True, kw_only=True):
    """Derived from a deployment: code declares a contract that is new, or differs."""

    TYPE: ClassVar[str] = "catalog.contract_declared"
    project: str
    deployment_id: str
    asset_id: str = ""
    declaration: ContractStatement
    consumer_ids: dict[str, str] = {}


class ContractUndeclared(Payload, frozen=True, kw_only=True):
    """Derived from a deployment: code does not declare a contract any more."""

    TYPE: ClassVar[str] = "catalog.contract_undeclared"
    project: str
    deployment_id: str
    asset_id: str = ""
    name: str


class ContractEvaluated(Payload, frozen=True, kw_only=True):
    """Derived: an output was compared with what the contract of its asset promises."""

    TYPE: ClassVar[str] = "catalog.contract_evaluated"
    asset_id: str
    materialization_id: str
    partition: str
    run_id: str
    version: str
    """Of the contract that it was compared with."""
    kind: BreachKind = "checks"
    action: GateAction = "continue"
    message: str = ""
    """What is broken; empty if nothing is."""
    checks: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()


EVENTS: tuple[type[CatalogCommand], ...] = (ContractSet, ContractWithdrawn)
