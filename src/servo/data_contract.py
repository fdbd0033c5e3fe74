"""Contracts: what the owner of an asset promises to its readers.

    contract(
        orders,
        version="1.0.0",
        consumers=["marts.daily_revenue", "finance@example.org"],
        columns=[column("order_id", "bigint", nullable=False), column("amount", "double")],
        key=["order_id"],
        checks=[in_range("amount", min=0)],
        freshness=Freshness(max_age="26h"),
        retention=Retention(days=30),
        terms="For reports. Not for decisions about single customers.",
    )

An output that breaks a promise is held. A change of the contract that breaks a promise needs a
higher first number of the version.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from servo.asset import Declaration
from servo.check import CheckDefinition
from servo.contract.contract_version import ContractVersion
from servo.contract.manifest import Check, Code, ColumnDef, Contract, Retention
from servo.errors import Invalid
from servo.policy import Freshness
from servo.registry import register
from servo.source import code_of_caller, expect, expect_each, misdeclared

_COLUMN: Final = ColumnDef(name="")
_PROMISED: Final = frozenset({"name", "type", "nullable", "description", "renamed_from"})


class ContractDefinition:
    """See `contract`."""

    def __init__(self, wire: Contract) -> None:
        self.name: Final = wire.name
        self.wire: Final = wire
        self.code: Final[Code] = wire.code
        register(self)


def contract(
    asset: str | Declaration,
    *,
    version: str,
    consumers: Sequence[str | Declaration] = (),
    columns: Sequence[ColumnDef] = (),
    key: str | Sequence[str] = (),
    checks: Sequence[Check] = (),
    freshness: Freshness | None = None,
    retention: Retention | None = None,
    description: str = "",
    terms: str = "",
    owner: str = "",
) -> ContractDefinition:
    """Declare what readers of an asset of this project can rely on.

    `asset` is the asset, or its key. `version` has three numbers: a change that breaks a promise
    needs a higher first one, and any other change of a promise a higher version.

    `consumers` are assets or their keys, e-mail addresses, and names of teams. `columns` are what
    `column(...)` makes: their names, their types where given, and `nullable=False`. The asset may
    have other columns too. `key` names columns that are never null and unique together. `checks`
    hold for every output; functions, checks of inputs and `references` belong to the asset.

    `freshness` is that of the asset, which then needs none of its own. `retention` is how long
    versions are kept at least. `terms` say in words how the data may be used; `owner` is who
    promises, if that is not the asset's owners.
    """
    expect(asset, (str, Declaration), "asset")
    for what, text in (("version", version), ("description", description)):
        expect(text, str, what)
    for what, text in (("terms", terms), ("owner", owner)):
        expect(text, str, what)
    expect_each(consumers, (str, Declaration), "consumers")
    expect_each(columns, ColumnDef, "columns")
    names = (key,) if isinstance(key, str) else key
    expect_each(names, str, "key")
    _expect_checks(checks)
    if freshness is not None:
        expect(freshness, Freshness, "freshness", hint='write Freshness(max_age="26h")')
    if retention is not None:
        expect(retention, Retention, "retention", hint="write Retention(days=30)")
    try:
        number = str(ContractVersion.parse(version))
    except Invalid as error:
        misdeclared(error.message, hint=error.hint)
    name = asset if isinstance(asset, str) else asset.key
    return ContractDefinition(
        Contract(
            name=name,
            version=number,
            description=description,
            terms=terms,
            owner=owner,
            consumers=tuple(
                dict.fromkeys(each if isinstance(each, str) else each.key for each in consumers)
            ),
            columns=tuple(map(_promised, columns)),
            key=tuple(dict.fromkeys(names)),
            checks=tuple(checks),
            freshness=None if freshness is None else freshness.wire(),
            retention=Retention() if retention is None else retention,
            code=code_of_caller(name),
        )
    )


def _expect_checks(checks: Sequence[Check]) -> None:
    for each in checks if isinstance(checks, list | tuple) else ():
        if isinstance(each, CheckDefinition):
            misdeclared(
                f"the check {each.check.name!r} is a function, which only this project can call",
                hint="put it among the checks= of the asset",
            )
    expect_each(checks, Check, "checks")


def _promised(column: ColumnDef) -> ColumnDef:
    """The properties of a column that a contract promises."""
    fields = {name: getattr(_COLUMN, name) for name in ColumnDef.__struct_fields__}
    return msgspec.structs.replace(
        column, **{name: value for name, value in fields.items() if name not in _PROMISED}
    )
