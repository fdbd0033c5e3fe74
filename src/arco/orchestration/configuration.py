"""The configuration of a run: which asset takes which of its values.

An asset takes the names that it declares, or that its code reads from the context; no other
value reaches it or makes it out of date. A declared value is also the type of what replaces it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from servo.contract.config_values import WireValue, replaced
from servo.contract.manifest import Asset
from servo.errors import Invalid
from servo.suggest import did_you_mean

ConfigTexts = Mapping[str, str | int | bool | None]


def task_config(asset: Asset, texts: ConfigTexts) -> Mapping[str, WireValue]:
    """What the asset's tasks are given. Raises Invalid where a value is of another type."""
    if not texts:
        return asset.config
    overrides = {
        name: replaced(asset.config.get(name), value, f"{name} of {asset.key}")
        for name, value in texts.items()
        if name in asset.config or name in asset.config_read
    }
    return {**asset.config, **overrides}


def check_config(texts: ConfigTexts, chosen: Collection[Asset], assets: Iterable[Asset]) -> None:
    """Refuse a name that no chosen asset takes, and a value of another type than the declared."""
    for asset in chosen:
        task_config(asset, texts)
    valid_names = _names(chosen)
    unknown = next((name for name in texts if name not in valid_names), None)
    if unknown is None:
        return
    others = sorted(asset.key for asset in assets if unknown in _names([asset]))
    if others:
        raise Invalid(
            f"no selected asset has a configuration value {unknown!r}",
            hint=f"{others[0]} has it: select it too, or leave the value out",
        )
    names = ", ".join(sorted(valid_names)) or "none"
    hint = (
        did_you_mean(unknown, valid_names)
        or f"the selected assets have {names}; declare it: config={{{unknown!r}: …}}"
    )
    raise Invalid(f"no asset has a configuration value {unknown!r}", hint=hint)


def _names(assets: Iterable[Asset]) -> set[str]:
    return {name for asset in assets for name in (*asset.config, *asset.config_read)}
