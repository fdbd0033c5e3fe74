from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set

from servo.contract.manifest import Asset, Check
from servo.project import Problem
from servo.rules.foreign import is_foreign, own_namespaces
from servo.signature import Flaw
from servo.suggest import did_you_mean


def checks_name_columns(assets: Sequence[Asset]) -> Iterator[Problem]:
    """Checks have names of their own, and look at columns and inputs that exist."""
    by_key = {asset.key: asset for asset in assets}
    namespaces = own_namespaces(assets)
    for asset in assets:
        for flaw in _flaws(asset, by_key, namespaces):
            yield Problem.at(asset.code, flaw.message, flaw.hint, asset.key)


def _flaws(asset: Asset, by_key: Mapping[str, Asset], namespaces: Set[str]) -> Iterator[Flaw]:
    for name, count in Counter(check.name for check in asset.checks).items():
        if count > 1:
            yield Flaw(f"two checks are called {name!r}", 'give one of them a name="…"')
    for check in asset.checks:
        yield from _input_flaws(check, asset)
        for looked_at in _looked_at(check, asset, by_key):
            yield from _column_flaws(check, looked_at)
        if check.kind == "references":
            yield from _reference_flaws(check, by_key, namespaces)


def _input_flaws(check: Check, asset: Asset) -> Iterator[Flaw]:
    parameters = [each.parameter for each in asset.inputs if each.parameter]
    name = check.params.get("input")
    if name is not None and check.phase == "after":
        yield Flaw(f"the check {check.name!r} names an input", 'only with phase="before"')
    elif name is not None and name not in parameters:
        hint = did_you_mean(str(name), parameters)
        yield Flaw(f"the check {check.name!r} names the unknown input {name!r}", hint)
    elif check.phase == "before" and not parameters:
        yield Flaw(f"the check {check.name!r} has the phase before, but the asset has no inputs")


def _looked_at(check: Check, asset: Asset, by_key: Mapping[str, Asset]) -> list[Asset]:
    """The assets, with declared columns, whose data the check sees."""
    if check.phase == "after":
        seen = [asset]
    else:
        name = check.params.get("input")
        keys = [
            each.asset for each in asset.inputs if each.parameter and name in (None, each.parameter)
        ]
        seen = [by_key[key] for key in keys if key in by_key]
    return [each for each in seen if each.columns]


def _column_flaws(check: Check, asset: Asset) -> Iterator[Flaw]:
    names = [column.name for column in asset.columns]
    for column in check.columns:
        if not _is_among(column, names):
            hint = did_you_mean(column, names) or f"{asset.key} has {', '.join(names)}"
            yield Flaw(f"the check {check.name!r} names the unknown column {column!r}", hint)


def _reference_flaws(
    check: Check, by_key: Mapping[str, Asset], namespaces: Set[str]
) -> Iterator[Flaw]:
    key, column = str(check.params["asset"]), str(check.params["column"])
    target = by_key.get(key)
    if target is None and is_foreign(key, namespaces):
        return
    if target is None:
        hint = did_you_mean(key, by_key)
        yield Flaw(f"the check {check.name!r} refers to the unknown asset {key!r}", hint)
    elif target.columns and not _is_among(column, [each.name for each in target.columns]):
        yield Flaw(f"the check {check.name!r}: {key} has no column {column!r}")


def _is_among(column: str, names: Sequence[str]) -> bool:
    """As Spark finds it: in any case; what is inside of a struct is seen with the data."""
    lowered = {name.lower() for name in names}
    return column.lower() in lowered or column.lower().partition(".")[0] in lowered
