"""The promises of a contract about values, as checks of an output.

They are evaluated with the asset's own checks, in one pass. A check that the asset has itself is
not evaluated twice: its result counts for the contract too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

import msgspec

from arco.catalog.contract_changes import substance
from servo.contract.manifest import Check, ContractStatement

PREFIX: Final = "contract:"
KEY: Final = "key"

replace = msgspec.structs.replace


def contract_checks(contract: ContractStatement, excused: Collection[str] = ()) -> list[Check]:
    """All of them, without those of columns with an accepted break."""
    return [
        replace(check, contract=contract.version)
        for check in _checks(contract)
        if not any(column.partition(".")[0] in excused for column in check.columns)
    ]


def _checks(contract: ContractStatement) -> Iterator[Check]:
    required = [each.name for each in contract.columns if not each.nullable]
    for column in dict.fromkeys((*contract.key, *required)):
        yield Check(kind="not_null", name=f"not_null({column})", columns=(column,))
    if contract.key:
        yield Check(kind="unique", name=f"{KEY}({', '.join(contract.key)})", columns=contract.key)
    yield from contract.checks


def with_promised(checks: Sequence[Check], promised: Sequence[Check]) -> tuple[Check, ...]:
    """The checks of an asset, with those of its contract."""
    if not promised:
        return tuple(checks)
    version = promised[0].contract
    by_substance = {substance(check): check for check in promised}
    own = {substance(check) for check in checks}
    names = {check.name for check in checks}
    shared = [
        replace(check, contract=version) if substance(check) in by_substance else check
        for check in checks
    ]
    added = [check for key, check in by_substance.items() if key not in own]
    return (*shared, *(replace(check, name=_free_name(check, names)) for check in added))


def _free_name(check: Check, names: set[str]) -> str:
    name = f"{PREFIX}{check.name}"
    while name in names:
        name = f"{name}'"
    names.add(name)
    return name
