from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from msgspec.structs import replace

from servo.contract.address import is_address
from servo.contract.keys import AssetKey, check_name
from servo.contract.manifest import Asset, Check, Contract, ContractStatement, Retention
from servo.errors import Invalid
from servo.project import Problem
from servo.rules.foreign import is_foreign, own_namespaces
from servo.rules.policies import freshness_is_sound
from servo.signature import Flaw
from servo.suggest import did_you_mean

BREAKING_SEVERITIES: Final = ("error", "critical")
MAX_CONSUMERS: Final = 1_000


def contracts_are_sound(
    contracts: Sequence[Contract], assets: Sequence[Asset]
) -> Iterator[Problem]:
    by_key = {asset.key: asset for asset in assets}
    namespaces = own_namespaces(assets)
    seen: dict[str, Contract] = {}
    for each in contracts:
        at = partial(Problem.at, each.code, asset=each.name)
        asset = by_key.get(each.name)
        if asset is None:
            hint = did_you_mean(each.name, by_key) or "a contract is about an asset of its project"
            yield at(f"the contract is about the unknown asset {each.name!r}", hint)
            continue
        if (first := seen.setdefault(each.name, each)) is not each:
            where = f"the other one is in {first.code.file}:{first.code.line}"
            yield at(f"{each.name} has two contracts", f"an asset has one; {where}")
        for flaw in (*statement_flaws(each), *_asset_flaws(each, asset)):
            yield at(f"the contract of {each.name} {flaw.message}", flaw.hint)
        for consumer in each.consumers:
            is_asset = "." in consumer and "@" not in consumer and not _bad_consumer(consumer)
            if is_asset and consumer not in by_key and not is_foreign(consumer, namespaces):
                message = f"the contract of {each.name} names the unknown consumer {consumer!r}"
                yield at(message, did_you_mean(consumer, by_key))
        if each.freshness is not None and asset.freshness is None:
            yield from freshness_is_sound([replace(asset, freshness=each.freshness)])


def statement_flaws(contract: ContractStatement) -> Iterator[Flaw]:
    """What is wrong with a contract by itself, whoever declares it."""
    for consumer in contract.consumers:
        if flaw := _bad_consumer(consumer):
            yield flaw
    if len(contract.consumers) > MAX_CONSUMERS:
        yield Flaw(f"names {len(contract.consumers)} consumers", f"at most {MAX_CONSUMERS}")
    names = [column.name for column in contract.columns]
    for name, count in Counter(names).items():
        if count > 1:
            yield Flaw(f"promises the column {name!r} twice", "keep one of them")
    for name in contract.key:
        if names and name not in names:
            hint = did_you_mean(name, names) or "promise it among the columns too"
            yield Flaw(f"has the key column {name!r}, which it does not promise", hint)
    for name, count in Counter(check.name for check in contract.checks).items():
        if count > 1:
            yield Flaw(f"has two checks that are called {name!r}", 'give one of them a name="…"')
    for check in contract.checks:
        yield from _check_flaws(check, names)
    for measure in ("days", "versions"):
        number = getattr(contract.retention, measure)
        if type(number) is not int or number < 0:
            yield Flaw(f"has the retention {measure}={number!r}", "write a whole number from 0")
    if not (
        contract.columns
        or contract.key
        or contract.checks
        or contract.freshness
        or contract.retention != Retention()
    ):
        yield Flaw("promises nothing", "give columns, key, checks, freshness or retention")


def _bad_consumer(text: str) -> Flaw | None:
    hint = 'write an asset\'s key, an e-mail address, or the name of a team: "finance"'
    if "@" in text:
        return None if is_address(text) else Flaw(f"names the consumer {text!r}", hint)
    try:
        if "." in text:
            AssetKey.parse(text)
        else:
            check_name(text, "consumer")
    except Invalid:
        return Flaw(f"names the consumer {text!r}", hint)
    return None


def _check_flaws(check: Check, names: Sequence[str]) -> Iterator[Flaw]:
    if check.phase == "before":
        yield Flaw(f"has the check {check.name!r} of inputs", "put it among the asset's checks")
    if check.kind in ("references", "python"):
        yield Flaw(
            f"has the check {check.name!r}, which needs more than the asset's own data",
            "put it among the asset's checks",
        )
    if check.severity not in BREAKING_SEVERITIES:
        yield Flaw(
            f"has the check {check.name!r} with the severity {check.severity}",
            "a promise is kept or broken: leave severity out, or put the check on the asset",
        )
    for column in check.columns if names else ():
        if column.partition(".")[0].lower() not in {name.lower() for name in names}:
            hint = did_you_mean(column, names) or "promise it among the columns too"
            yield Flaw(f"has the check {check.name!r} of the unknown column {column!r}", hint)


def _asset_flaws(contract: Contract, asset: Asset) -> Iterator[Flaw]:
    """What the asset itself is known not to keep."""
    declared = {column.name for column in asset.columns}
    declared |= {dimension.name for dimension in asset.partitions} if declared else set()
    renamed = {column.renamed_from: column.name for column in asset.columns}
    for name in dict.fromkeys((*(c.name for c in contract.columns), *contract.key)):
        if declared and name not in declared:
            hint = did_you_mean(name, declared) or f"{asset.key} has {', '.join(sorted(declared))}"
            if name in renamed:
                hint = f"it was renamed to {renamed[name]!r}: promise that in a new major version"
            yield Flaw(f"promises the unknown column {name!r}", hint)
    if contract.freshness and asset.freshness and contract.freshness != asset.freshness:
        yield Flaw(
            "promises a different freshness than the asset declares",
            "remove freshness= from the asset: that of the contract is used",
        )
    yield from retention_flaws(contract.retention, asset.retention)


def retention_flaws(promised: Retention, retention: Retention) -> Iterator[Flaw]:
    """A version is kept as long as one of the two numbers holds; none means for ever."""
    if retention == Retention():
        return
    for measure in ("days", "versions"):
        least, most = getattr(promised, measure), getattr(retention, measure)
        if least > most:
            yield Flaw(
                f"promises {least} {measure} of versions, and the asset keeps {most}",
                f"write retention=Retention({measure}={least}) on the asset",
            )
