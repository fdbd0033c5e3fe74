"""Contracts: what owners of assets promise, how that changed, and whether they keep it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from arco.answers.contract_report import ContractJudge, PromiseResult
from arco.api.page_tokens import PageKey
from arco.api.reads.catalog import AssetName, asset_id_of
from arco.api.reads.masking import masked_columns
from arco.api.routes import AtParameters, PageParameters, PageWindow, listing, read
from arco.api.views import View
from arco.catalog.contract_changes import ContractChange, contract_changes
from arco.catalog.contract_reader import ContractReader, NamedContract
from arco.catalog.contract_tables import (
    ContractBreachRow,
    ContractRow,
    ContractSource,
    ContractState,
    ContractVersionRow,
)
from arco.catalog.odcs_export import to_odcs
from arco.security.permissions import Permission
from arco.security.visibility import Visible
from servo.contract.manifest import ContractStatement

VersionText = Annotated[str, Meta(max_length=64, description="A version, as 1.2.0.")]


class ContractBody(msgspec.Struct, frozen=True, kw_only=True):
    asset: str
    version: str
    source: ContractSource
    """Who owns it: only they change it."""
    project: str
    deployment_id: str
    state: ContractState
    open_breaches: int
    breaches: int
    """Of all versions."""
    last_breach_at: datetime | None
    accepted: dict[str, str]
    """Columns whose break was accepted for this version, with the reason."""
    declared_at: datetime
    declared_by: str
    contract: ContractStatement
    row_version: int = 0


def contract_body(asset: str, row: ContractRow, row_version: int = 0) -> ContractBody:
    fields = set(ContractBody.__struct_fields__) & set(ContractRow.__struct_fields__)
    return ContractBody(
        asset=asset,
        contract=row.decoded(),
        row_version=row_version,
        **{name: getattr(row, name) for name in fields},
    )


class ContractListParameters(PageParameters, frozen=True, kw_only=True):
    namespace: Annotated[str, Meta(max_length=128, description="Only of this namespace.")] = ""
    breached: Annotated[bool, Meta(description="Only contracts that are broken now.")] = False


def list_contracts(
    view: View, visible: Visible, parameters: ContractListParameters, window: PageWindow
) -> Iterator[tuple[PageKey, ContractBody]]:
    """List the contracts of assets and whether they are kept."""
    reader = ContractReader(view.snapshot)
    for each in view.derived("contracts", reader.contracts):
        if window.after is not None and (each.asset,) <= window.after:
            continue
        if visible.sees_asset(each.asset) and _is_selected(each, parameters):
            yield (each.asset,), contract_body(each.asset, each.row)


def _is_selected(contract: NamedContract, parameters: ContractListParameters) -> bool:
    in_namespace = parameters.namespace in ("", contract.asset.partition(".")[0])
    return in_namespace and (not parameters.breached or bool(contract.row.open_breaches))


class ContractParameters(AtParameters, frozen=True, kw_only=True):
    asset: AssetName


def get_contract(view: View, visible: Visible, parameters: ContractParameters) -> ContractBody:
    """Show what the contract of an asset promises, to whom, and whether it is kept."""
    asset_id = asset_id_of(view, visible, parameters.asset)
    reader = ContractReader(view.snapshot)
    row = reader.contract(parameters.asset)
    return contract_body(parameters.asset, row, reader.row_version(asset_id))


class ContractPages(PageParameters, frozen=True, kw_only=True):
    asset: AssetName


class ContractVersionBody(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of a contract's history."""

    number: int
    event: str
    """`declared`, `changed`, `removed` or `accepted`."""
    version: str
    source: ContractSource
    breaking: bool
    column: str
    """Whose break was accepted."""
    reason: str
    deployment_id: str
    changed_at: datetime
    changed_by: str
    contract: ContractStatement | None
    """Null where it did not change."""
    changes: tuple[ContractChange, ...]
    """Since the entry before."""


def list_contract_versions(
    view: View, visible: Visible, parameters: ContractPages, window: PageWindow
) -> Iterator[tuple[PageKey, ContractVersionBody]]:
    """List the history of a contract: versions and accepted breaks, newest first."""
    asset_id_of(view, visible, parameters.asset)
    for row in ContractReader(view.snapshot).versions(parameters.asset):
        if window.after is None or (-row.number,) > window.after:
            yield (-row.number,), _version_body(row)


def _version_body(row: ContractVersionRow) -> ContractVersionBody:
    names = set(ContractVersionBody.__struct_fields__) - {"contract", "changes"}
    return ContractVersionBody(
        contract=row.decoded() if row.statement else None,
        changes=row.decoded_changes(),
        **{name: getattr(row, name) for name in names},
    )


def list_contract_breaches(
    view: View, visible: Visible, parameters: ContractPages, window: PageWindow
) -> Iterator[tuple[PageKey, ContractBreachRow]]:
    """List the breaches of an asset's contract, the newest first."""
    asset_id_of(view, visible, parameters.asset)
    after: Any = window.after
    for row in ContractReader(view.snapshot).breaches(parameters.asset):
        key = (row.breached_at, row.breach_id)
        if after is None or key < after:
            yield key, row


class ContractDiffParameters(AtParameters, frozen=True, kw_only=True):
    asset: AssetName
    before: Annotated[
        VersionText, Meta(description="A version; empty: the one before `after`.")
    ] = ""
    after: Annotated[VersionText, Meta(description="A version; empty: the newest.")] = ""


class ContractDiffBody(msgspec.Struct, frozen=True, kw_only=True):
    asset: str
    before: str
    after: str
    changes: tuple[ContractChange, ...]
    """Each says whether it breaks consumers."""


def diff_contract(
    view: View, visible: Visible, parameters: ContractDiffParameters
) -> ContractDiffBody:
    """Compare two versions of a contract, and mark changes that break consumers."""
    asset_id_of(view, visible, parameters.asset)
    reader = ContractReader(view.snapshot)
    before, after = reader.pair(parameters.asset, parameters.before, parameters.after)
    return ContractDiffBody(
        asset=parameters.asset,
        before=before.version,
        after=after.version,
        changes=contract_changes(before, after),
    )


class ContractVersionParameters(AtParameters, frozen=True, kw_only=True):
    asset: AssetName
    version: Annotated[
        VersionText, Meta(description="A version; empty: the one that is in effect.")
    ] = ""


class ContractDocument(msgspec.Struct, frozen=True, kw_only=True):
    asset: str
    version: str
    document: dict[str, Any]
    """Of the Open Data Contract Standard."""


def export_contract(
    view: View, visible: Visible, parameters: ContractVersionParameters
) -> ContractDocument:
    """Show a contract in the Open Data Contract Standard."""
    asset_id = asset_id_of(view, visible, parameters.asset)
    reader = ContractReader(view.snapshot)
    statement = reader.statement(parameters.asset, parameters.version)
    named = msgspec.structs.replace(statement, name=parameters.asset)
    return ContractDocument(
        asset=parameters.asset,
        version=statement.version,
        document=to_odcs(named, id=asset_id),
    )


class ContractCheckParameters(ContractVersionParameters, frozen=True, kw_only=True):
    partition: Annotated[
        list[Annotated[str, Meta(max_length=2000)]],
        Meta(max_length=20, description="The partition: date=2026-01-31. None: the newest."),
    ] = []


class ContractCheckBody(msgspec.Struct, frozen=True, kw_only=True):
    asset: str
    version: str
    partition: str
    materialization_id: str
    is_kept: bool
    promises: list[PromiseResult]


def check_contract(
    view: View, visible: Visible, parameters: ContractCheckParameters
) -> ContractCheckBody:
    """Check the current version of an asset against its contract, without a run.

    Reads the footers of its files, and the columns that checks name.
    """
    asset_id = asset_id_of(view, visible, parameters.asset)
    contract = None
    if parameters.version:
        contract = ContractReader(view.snapshot).statement(parameters.asset, parameters.version)
    judge = ContractJudge(view.snapshot, view.library, view.store, view.clock)
    report = judge.report(
        parameters.asset,
        partition=parameters.partition,
        contract=contract,
        now=view.now,
        hidden=masked_columns(view, asset_id),
    )
    return ContractCheckBody(
        asset=report.asset,
        version=report.version,
        partition=report.partition,
        materialization_id=report.materialization_id,
        is_kept=report.is_kept,
        promises=report.promises,
    )


_READ = Permission.ASSETS_READ
ROUTES: tuple[Any, ...] = (
    listing("/contracts", _READ, list_contracts),
    read("/assets/{asset}/contract", _READ, get_contract),
    listing("/assets/{asset}/contract/versions", _READ, list_contract_versions),
    listing("/assets/{asset}/contract/breaches", _READ, list_contract_breaches),
    read("/assets/{asset}/contract/diff", _READ, diff_contract),
    read("/assets/{asset}/contract/document", _READ, export_contract),
    read("/assets/{asset}/contract/check", Permission.DATA_READ, check_contract, live=True),
)
