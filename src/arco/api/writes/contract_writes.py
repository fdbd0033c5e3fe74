"""Contracts that people declare by command."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from arco.api.reads.contract_reads import ContractBody, contract_body
from arco.api.routes import write
from arco.api.writes.catalog import AssetWriteParameters, ChangedBody
from arco.api.writes.run_writes import ReasonText
from arco.api.writing import WriteAnswer, Writing
from arco.catalog.contract_reader import ContractReader
from arco.catalog.odcs_import import from_odcs
from arco.errors import NotFound
from arco.security.permissions import Permission
from servo.contract.keys import AssetKey
from servo.contract.manifest import ContractStatement


class ContractSetBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    document: dict[str, Any]
    """Of version 3 of the Open Data Contract Standard."""
    schema: Annotated[str, Meta(max_length=500)] = ""
    """The schema, if the document has several."""


class ContractSetAnswer(msgspec.Struct, frozen=True, kw_only=True):
    replayed: bool
    left_out: list[str]
    """Parts of the document that are not enforced."""
    contract: ContractBody


def set_contract(
    writing: Writing, parameters: AssetWriteParameters, body: ContractSetBody
) -> WriteAnswer[ContractSetAnswer]:
    """Declare the contract of an asset, or another version of it.

    A contract belongs to who declares it: one that is in code is changed there.
    """
    key = str(AssetKey.parse(parameters.asset))
    writing.allow_asset(key)
    imported = from_odcs(body.document, asset=key, schema=body.schema)
    _check_consumers(writing, imported.contract)
    outcome = writing.commands.contracts.set(imported.contract, expected_version=writing.if_match)
    reader = ContractReader(writing.fresh().snapshot)
    version = reader.row_version(reader.asset_id(key))
    answer = ContractSetAnswer(
        replayed=outcome.replayed,
        left_out=list(imported.left_out),
        contract=contract_body(key, reader.contract(key), version),
    )
    return WriteAnswer(answer, outcome.generation, f"/assets/{key}/contract", version)


class ContractChecked(msgspec.Struct, frozen=True, kw_only=True):
    contract: ContractStatement
    before: str | None
    """The version that there is."""
    left_out: list[str]


def validate_contract(
    writing: Writing, parameters: AssetWriteParameters, body: ContractSetBody
) -> WriteAnswer[ContractChecked]:
    """Check a document, and show the contract that it would declare. Changes nothing."""
    key = str(AssetKey.parse(parameters.asset))
    writing.allow_asset(key)
    imported = from_odcs(body.document, asset=key, schema=body.schema)
    _check_consumers(writing, imported.contract)
    row = writing.unkeyed.contracts.check(writing.view.snapshot, imported.contract)
    answer = ContractChecked(
        contract=imported.contract,
        before=None if row is None else row.version,
        left_out=list(imported.left_out),
    )
    return WriteAnswer(answer, writing.view.generation)


def _check_consumers(writing: Writing, contract: ContractStatement) -> None:
    """An asset that the caller does not see is one that is not there."""
    for name in contract.consumers:
        if "." in name and "@" not in name and not writing.visible.sees_asset(name):
            raise NotFound(f"there is no asset {name}")


class ContractRemoveBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    reason: Annotated[ReasonText, Meta(min_length=1)]


def remove_contract(
    writing: Writing, parameters: AssetWriteParameters, body: ContractRemoveBody
) -> WriteAnswer[ChangedBody]:
    """Remove a contract that was declared by command; its history stays."""
    key = str(AssetKey.parse(parameters.asset))
    writing.allow_asset(key)
    outcome = writing.commands.contracts.withdraw(
        key, reason=body.reason, expected_version=writing.if_match
    )
    answer = ChangedBody(subject=key, row_version=None, replayed=outcome.replayed)
    return WriteAnswer(answer, outcome.generation, f"/assets/{key}")


_MANAGE = Permission.CONTRACTS_MANAGE
ROUTES: tuple[Any, ...] = (
    write("PUT", "/assets/{asset}/contract", _MANAGE, set_contract, takes_if_match=True),
    write("POST", "/assets/{asset}/contract/validate", _MANAGE, validate_contract),
    write("POST", "/assets/{asset}/contract/remove", _MANAGE, remove_contract, takes_if_match=True),
)
