from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from servo.contract.address import is_address
from servo.contract.keys import check_name
from servo.contract.manifest import CONSUMERS, OWNERS, Asset, Notification, selects
from servo.errors import Invalid
from servo.project import Problem
from servo.suggest import did_you_mean

ABOUT_ASSETS: Final = frozenset(
    {"asset_failed", "quarantined", "stale", "contract_breach", "recovered", "cost"}
)
MAX_INTERVAL_S: Final = 86_400


def notifications_are_sound(
    rules: Sequence[Notification], assets: Sequence[Asset]
) -> Iterator[Problem]:
    names: set[str] = set()
    for rule in rules:
        at = partial(Problem.at, rule.code)
        try:
            check_name(rule.name, "name of a notification")
        except Invalid as error:
            yield at(error.message, error.hint)
        if rule.name in names:
            yield at(f"two notifications are called {rule.name!r}", 'write notify("NAME", …)')
        names.add(rule.name)
        if rule.on == ("recovered",):
            yield at(
                f"{rule.name!r} has no failure in on= from which it could recover",
                'add the failure to on=, for example "asset_failed"',
            )
        if rule.interval_s > MAX_INTERVAL_S:
            yield at(f"{rule.name!r} has an interval of more than a day", "at most 24h")
        if CONSUMERS in rule.to and "contract_breach" not in rule.on:
            yield at(
                f"{rule.name!r} notifies consumers, but is not about contracts",
                'add "contract_breach" to on=, or use to="owners"',
            )
        yield from _selection(rule, assets)
        if OWNERS in rule.to:
            yield from _owners(rule, assets)


def _selection(rule: Notification, assets: Sequence[Asset]) -> Iterator[Problem]:
    others: list[str] = [event for event in rule.on if event not in ABOUT_ASSETS]
    others += ["the cost of runs"] if rule.run_cost else []
    if others and rule.select:
        message = f"{rule.name!r} selects assets, but {others[0]} is not about assets"
        yield Problem.at(rule.code, message, "use two notifications, one without select=")
    for term in rule.select:
        if "+" in term or term.startswith("group:"):
            message = f"{rule.name!r} selects {term!r}"
            yield Problem.at(
                rule.code,
                message,
                "notifications take assets, namespace.* and tag:name=value; no groups, no +",
            )
        elif not any(selects(term, asset.key, asset.tags) for asset in assets):
            message = f"{rule.name!r} selects {term!r}, which matches no asset of the project"
            hint = did_you_mean(term, [asset.key for asset in assets])
            yield Problem.at(rule.code, message, hint)


def _owners(rule: Notification, assets: Sequence[Asset]) -> Iterator[Problem]:
    chosen = [asset for asset in assets if _is_about(rule, asset)]
    for asset in chosen:
        for owner in asset.owners:
            if "@" in owner and not is_address(owner):
                message = f"{rule.name!r} notifies owners, but {owner!r} is not an e-mail address"
                yield Problem.at(asset.code, message, "correct it in owners=", asset.key)
    if not any("@" in owner for asset in chosen for owner in asset.owners):
        message = f"{rule.name!r} notifies owners, but no selected asset has an e-mail address"
        yield Problem.at(rule.code, message, 'write owners=["ana@example.org"] on assets')


def _is_about(rule: Notification, asset: Asset) -> bool:
    return not rule.select or any(selects(term, asset.key, asset.tags) for term in rule.select)
