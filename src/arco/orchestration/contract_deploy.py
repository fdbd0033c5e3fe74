"""Deployments that would break a contract: refused, unless that is accepted.

A contract of code is compared with the one that holds: what breaks a promise needs a higher first
number of its version. The columns of each asset that has a contract, as code declares them or as
its query tells them, are compared with what is promised. Columns that are not known before the
asset runs are checked in its output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from arco.catalog.contract_changes import contract_changes, version_problem
from arco.catalog.contract_tables import CONTRACTS, ContractRow
from arco.catalog.schema_events import WHOLE
from arco.columns.compatibility import SchemaChange
from arco.columns.promises import (
    PromisedColumns,
    broken,
    consumer_names,
    promised_columns,
    with_dimensions,
)
from arco.columns.schema_columns import SchemaColumn
from arco.errors import Invalid
from arco.orchestration.deploying import DeployedChange
from arco.orchestration.projects import DeploymentReader
from servo.contract.manifest import Asset, Contract, ContractStatement, Manifest

LISTED: Final = 20
_FIELDS: Final = ContractStatement.__struct_fields__


class ContractBreak(msgspec.Struct, frozen=True):
    """A promise of a contract that a deployment would break."""

    asset: str
    column: str
    """The column to accept; empty if only another version of the contract helps."""
    change: str
    version: str
    consumers: tuple[str, ...]

    def __str__(self) -> str:
        names = consumer_names(self.consumers)
        to = f" to {names}" if names else ""
        return f"{self.asset}: {self.change} (promised by version {self.version}{to})"


class ContractRefused(Invalid):
    """A deployment would break a contract. Nothing has changed."""

    def __init__(self, message: str, breaks: Sequence[ContractBreak], *, hint: str) -> None:
        super().__init__(message, hint=hint)
        self.breaks = tuple(breaks)
        self.details = {"contract_breaks": msgspec.to_builtins(self.breaks)}


class _Agreed(NamedTuple):
    """The contract of an asset, before a deployment and after it."""

    asset: Asset
    asset_id: str
    row: ContractRow | None
    declared: Contract | None

    @property
    def statement(self) -> ContractStatement | None:
        """The contract after the deployment."""
        if self.declared is not None:
            return self.declared
        if self.row is not None and self.row.source == "people":
            return self.row.decoded()
        return None


class ExpectedColumns(NamedTuple):
    """What the columns of an asset will be, as far as that is known before it runs."""

    columns: Sequence[SchemaColumn]
    missing: frozenset[str] | None = None
    """Names that it is known not to have; None if it has no other columns than these."""


ColumnsOf = Callable[[Asset, str], ExpectedColumns | None]
"""By an asset and its id; None where nothing is known."""


def check_contracts(
    reader: DeploymentReader,
    manifest: Manifest,
    change: DeployedChange,
    accepted: frozenset[tuple[str, str]],
    columns_of: ColumnsOf,
    *,
    restores: bool,
) -> frozenset[tuple[str, str]]:
    """The accepted breaks that are needed. Raises ContractRefused and Invalid.

    `accepted` are pairs of an asset's key and a column. `restores`: an older deployment is
    deployed again, whose contracts may have lower versions.
    """
    agreed = list(_agreed(reader, manifest, change))
    breaks: list[ContractBreak] = []
    needed: set[tuple[str, str]] = set()
    for each in agreed:
        _check_owner(each)
        if not restores:
            _check_version(each)
        for contract_break in (*_removal(each), *_column_breaks(each, columns_of)):
            pair = contract_break.asset, contract_break.column
            if pair in accepted and _holds_on(each, contract_break):
                needed.add(pair)
            else:
                breaks.append(contract_break)
    if breaks:
        raise _refused(manifest, breaks)
    return frozenset(needed)


def _agreed(
    reader: DeploymentReader, manifest: Manifest, change: DeployedChange
) -> Iterator[_Agreed]:
    """Of the assets that have a contract, or had one: the workspace has few of them."""
    rows = {row.asset_id: row for row in reader.snapshot.all(CONTRACTS)}
    declared = {each.name: each for each in manifest.contracts}
    if not rows and not declared:
        return
    ids = {row.asset_key: row.asset_id for row in reader.deployed_assets(manifest.project).values()}
    ids |= {each.key: each.asset_id for each in change.assets}
    for asset in manifest.assets:
        asset_id = ids.get(asset.key, "")
        row, contract = rows.get(asset_id), declared.get(asset.key)
        if row is not None or contract is not None:
            yield _Agreed(asset, asset_id, row, contract)


def _check_owner(agreement: _Agreed) -> None:
    if (
        agreement.row is not None
        and agreement.declared is not None
        and agreement.row.source == "people"
    ):
        code = agreement.declared.code
        raise Invalid(
            f"{code.file}:{code.line}: the contract of {agreement.asset.key} is in code, and "
            f"version {agreement.row.version} was declared by command",
            hint="remove it from the code; or take the other one back with "
            f"`servo contracts remove {agreement.asset.key} --reason TEXT`",
        )


def _check_version(agreement: _Agreed) -> None:
    if agreement.row is None or agreement.declared is None:
        return
    before = agreement.row.decoded()
    renames = {c.renamed_from: c.name for c in agreement.asset.columns if c.renamed_from}
    # A contract follows its asset, which may have another name now.
    before = msgspec.structs.replace(before, name=agreement.asset.key)
    if all(getattr(before, name) == getattr(agreement.declared, name) for name in _FIELDS):
        return
    changes = contract_changes(before, agreement.declared, renames)
    problem = version_problem(before, agreement.declared, changes)
    if problem is not None:
        code = agreement.declared.code
        message, hint = problem
        raise Invalid(f"{code.file}:{code.line}: {message}", hint=hint)


def _removal(agreement: _Agreed) -> Iterator[ContractBreak]:
    row = agreement.row
    if row is not None and agreement.statement is None:
        yield ContractBreak(
            agreement.asset.key,
            WHOLE,
            "its contract is removed from the code",
            row.version,
            tuple(row.consumers),
        )


def _column_breaks(agreement: _Agreed, columns_of: ColumnsOf) -> Iterator[ContractBreak]:
    contract = agreement.statement
    expected = None if contract is None else columns_of(agreement.asset, agreement.asset_id)
    if contract is None or expected is None:
        return
    same_version = agreement.row is not None and agreement.row.version == contract.version
    promised = PromisedColumns(
        promised_columns(contract.columns),
        tuple(agreement.row.accepted) if agreement.row is not None and same_version else (),
        {c.renamed_from: c.name for c in agreement.asset.columns if c.renamed_from},
    )
    dimensions = [dimension.name for dimension in agreement.asset.partitions]
    for change in broken(promised, with_dimensions(expected.columns, dimensions)):
        if _is_expected(change, expected):
            yield ContractBreak(
                agreement.asset.key,
                change.column,
                str(change),
                contract.version,
                contract.consumers,
            )


def _is_expected(change: SchemaChange, expected: ExpectedColumns) -> bool:
    """Whether a missing column will be missing in the output too."""
    if expected.missing is None or change.kind not in ("removed", "renamed"):
        return True
    return change.rename == "GovernedRename" or change.column in expected.missing


def _holds_on(agreement: _Agreed, contract_break: ContractBreak) -> bool:
    """Whether the broken version is in effect already: a new version must be kept."""
    return agreement.row is not None and agreement.row.version == contract_break.version


def _refused(manifest: Manifest, breaks: Sequence[ContractBreak]) -> ContractRefused:
    lines = [str(each) for each in breaks[:LISTED]]
    more = [f"and {len(breaks) - LISTED} more"] if len(breaks) > LISTED else []
    number = "a contract" if len(breaks) == 1 else f"contracts in {len(breaks)} places"
    head = f"this deployment of the project {manifest.project} breaks {number}:"
    first = breaks[0]
    keep = "keep the contract" if first.column == WHOLE else "keep the column"
    return ContractRefused(
        "\n".join([head, *lines, *more]),
        breaks,
        hint=f"{keep}; or give the contract a higher first number and the columns that there are; "
        f"or give --accept-breaking {first.asset}.{first.column} --reason TEXT",
    )
