"""Reading contracts at one generation."""

from __future__ import annotations

from typing import NamedTuple

from arco.catalog.contract_tables import (
    CONTRACT_BREACHES,
    CONTRACT_VERSIONS,
    CONTRACTS,
    ContractBreachRow,
    ContractRow,
    ContractVersionRow,
)
from arco.catalog.reader import CatalogReader
from arco.catalog.tables import ASSETS
from arco.errors import Invalid, NotFound
from arco.state.snapshot import Snapshot
from servo.contract.contract_version import ContractVersion
from servo.contract.keys import AssetKey
from servo.contract.manifest import ContractStatement


class NamedContract(NamedTuple):
    """A contract, with the name that its asset has now."""

    asset: str
    row: ContractRow


class ContractReader:
    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    def contracts(self, namespace: str = "") -> list[NamedContract]:
        """Of all assets, or of those of a namespace, by their names."""
        named = []
        for row in self.snapshot.all(CONTRACTS):
            asset = self.snapshot.get(ASSETS, row.asset_id)
            if asset is not None and namespace in ("", asset.namespace):
                named.append(NamedContract(f"{asset.namespace}.{asset.name}", row))
        return sorted(named, key=lambda each: each.asset)

    def asset_id(self, key: str) -> str:
        return CatalogReader(self.snapshot).asset_id(AssetKey.parse(key))

    def contract(self, key: str) -> ContractRow:
        """NotFound if there is no such asset, or it has no contract."""
        asset_id = self.asset_id(key)
        row = self.snapshot.get(CONTRACTS, asset_id)
        if row is None:
            versions = self.snapshot.rows(CONTRACT_VERSIONS, asset_id)
            raise NotFound(
                f"{key} has no contract" + (" any more" if versions else ""),
                hint=f"see `servo contracts history {key}`"
                if versions
                else f"declare one in code: contract({key.rpartition('.')[2]}, …)",
            )
        return row

    def row_version(self, asset_id: str) -> int:
        """What `expected_version` of a command is compared with; 0 if there is none."""
        return self.snapshot.versioned(CONTRACTS, (asset_id,))[0]

    def statement(self, key: str, version: str = "") -> ContractStatement:
        """The current contract, or one of its versions, under the asset's present name."""
        if not version:
            return self.contract(key).decoded()
        number = str(ContractVersion.parse(version))
        versions = self.versions(key)
        for entry in versions:
            if entry.version == number and entry.statement:
                return entry.decoded()
        numbers = ", ".join(dict.fromkeys(entry.version for entry in versions))
        raise NotFound(
            f"the contract of {key} has no version {number}", hint=f"versions: {numbers or 'none'}"
        )

    def versions(self, key: str) -> list[ContractVersionRow]:
        """The history of a contract, the newest entry first."""
        rows = self.snapshot.rows(CONTRACT_VERSIONS, self.asset_id(key))
        return sorted(rows, key=lambda row: -row.number)

    def breaches(self, key: str, *, recent: bool = False) -> list[ContractBreachRow]:
        """The newest first: all, or those that are open or have ended in the last days."""
        asset_id = (self.asset_id(key),)
        rows = self.snapshot.rows_versioned(CONTRACT_BREACHES, asset_id, history=not recent)
        breaches = [row for _, row in rows.values() if row is not None]
        return sorted(breaches, key=lambda row: (row.breached_at, row.breach_id), reverse=True)

    def pair(self, key: str, old: str, new: str) -> tuple[ContractStatement, ContractStatement]:
        """Two versions: the one that is in effect and the one before it, unless they are given."""
        statements = [entry for entry in self.versions(key) if entry.statement]
        if not statements:
            raise NotFound(f"{key} has no contract", hint="see `servo contracts list`")
        after = self.statement(key, new or statements[0].version)
        numbers = [entry.version for entry in statements]
        earlier = [
            each for each in numbers[numbers.index(after.version) :] if each != after.version
        ]
        if not old and not earlier:
            raise Invalid(
                f"the contract of {key} has no version before {after.version}",
                hint=f"see `servo contracts show {key}`",
            )
        return self.statement(key, old or earlier[0]), after
