"""Contracts that people declare by command."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from arco.catalog.contract_changes import contract_changes, version_problem
from arco.catalog.contract_events import ContractSet, ContractWithdrawn
from arco.catalog.contract_reader import ContractReader
from arco.catalog.contract_tables import CONTRACTS, ContractRow
from arco.catalog.reader import CodeDeclaration
from arco.catalog.tables import ASSET_NAMES, COLUMNS
from arco.columns.schema_columns import declared_type
from arco.errors import Invalid
from arco.log.envelope import Payload
from arco.state.snapshot import Snapshot
from arco.state.tier1 import Acknowledged, Tier1
from servo.contract.contract_version import ContractVersion
from servo.contract.keys import AssetKey
from servo.contract.manifest import ContractStatement
from servo.rules.contracts import statement_flaws
from servo.suggest import did_you_mean

MAX_COLUMNS = 5_000


class ContractCommands:
    """`declared` looks up the declaration of an asset in deployed code."""

    def __init__(
        self,
        tier1: Tier1,
        declared: Callable[[Snapshot, str], CodeDeclaration | None],
        actor: str = "",
    ) -> None:
        self._tier1 = tier1
        self._declared = declared
        self._actor = actor

    def check(self, snapshot: Snapshot, contract: ContractStatement) -> ContractRow | None:
        """Validate a contract as `set` does; returns the current one. Changes nothing.

        Raises Invalid for an invalid contract, an unknown column or consumer, a wrong version, or a
        contract that is declared in code.
        """
        key = contract.name
        ContractVersion.parse(contract.version)
        for flaw in statement_flaws(contract):
            raise Invalid(f"the contract of {key} {flaw.message}", hint=flaw.hint)
        if len(contract.columns) > MAX_COLUMNS:
            raise Invalid(f"{len(contract.columns)} columns; the limit is {MAX_COLUMNS}")
        for each in contract.columns:
            if each.type and isinstance(declared_type(each.type), str) and "<" in each.type:
                raise Invalid(f"the column {each.name!r} has the unknown type {each.type!r}")
        reader = ContractReader(snapshot)
        asset_id = reader.asset_id(key)
        self._check_columns(snapshot, asset_id, contract)
        row = snapshot.get(CONTRACTS, asset_id)
        if row is not None and row.source == "code":
            raise Invalid(
                f"the contract of {key} is declared in the code of the project {row.project}",
                hint="change it there; commands cannot change what code declares",
            )
        if row is not None:
            before = msgspec.structs.replace(row.decoded(), name=key)
            problem = version_problem(before, contract, contract_changes(before, contract))
            if problem is not None:
                raise Invalid(problem[0], hint=problem[1])
        return row

    def set(
        self,
        contract: ContractStatement,
        *,
        expected_version: int | None = None,
        idempotency_key: str = "",
    ) -> Acknowledged:
        """Declare a contract, or another version of it. Raises what `check` raises."""
        key = AssetKey.parse(contract.name)

        def build(snapshot: Snapshot) -> Payload:
            self.check(snapshot, contract)
            return ContractSet(
                asset_id=ContractReader(snapshot).asset_id(str(key)),
                namespace=key.namespace,
                name=key.name,
                contract=contract,
                consumer_ids=_consumer_ids(snapshot, contract),
                expected_version=expected_version,
            )

        return self._tier1.execute(build, idempotency_key=idempotency_key, actor=self._actor)

    def withdraw(
        self,
        asset: str,
        *,
        reason: str,
        expected_version: int | None = None,
        idempotency_key: str = "",
    ) -> Acknowledged:
        """Withdraw a contract that a command has declared. Its history stays."""
        key = AssetKey.parse(asset)
        if not reason.strip():
            raise Invalid("the reason is empty", hint="say why with --reason")

        def build(snapshot: Snapshot) -> Payload:
            return ContractWithdrawn(
                asset_id=ContractReader(snapshot).contract(asset).asset_id,
                namespace=key.namespace,
                name=key.name,
                reason=reason.strip(),
                expected_version=expected_version,
            )

        return self._tier1.execute(build, idempotency_key=idempotency_key, actor=self._actor)

    def _check_columns(
        self, snapshot: Snapshot, asset_id: str, contract: ContractStatement
    ) -> None:
        """Compare with the asset's columns, if they are known by code or by an output."""
        rows = snapshot.rows(COLUMNS, asset_id)
        names = {row.name for row in rows if row.status == "Active"}
        if not names:
            return
        code = self._declared(snapshot, contract.name)
        names |= frozenset() if code is None else code.dimensions
        for name in dict.fromkeys((*(c.name for c in contract.columns), *contract.key)):
            if name not in names:
                raise Invalid(
                    f"the contract of {contract.name} promises the unknown column {name!r}",
                    hint=did_you_mean(name, names) or f"see `servo schema show {contract.name}`",
                )


def _consumer_ids(snapshot: Snapshot, contract: ContractStatement) -> dict[str, str]:
    ids: dict[str, str] = {}
    for text in contract.consumers:
        if "." not in text or "@" in text:
            continue
        key = AssetKey.parse(text)
        row = snapshot.get(ASSET_NAMES, key.namespace, key.name)
        if row is None:
            raise Invalid(
                f"the contract of {contract.name} names the unknown consumer {text!r}",
                hint="name an asset that is deployed, an e-mail address, or a team",
            )
        ids[text] = row.asset_id
    return ids
