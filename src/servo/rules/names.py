from __future__ import annotations

from collections.abc import Iterator, Sequence

from servo.contract.keys import AssetKey
from servo.contract.manifest import MAX_ASSETS, Asset
from servo.errors import Invalid
from servo.project import Problem


def not_too_many(assets: Sequence[Asset]) -> Iterator[Problem]:
    if len(assets) > MAX_ASSETS:
        message = f"{len(assets)} assets; a project has at most {MAX_ASSETS}"
        yield Problem.at(assets[MAX_ASSETS].code, message, "split it into several projects")


def names_are_valid(assets: Sequence[Asset]) -> Iterator[Problem]:
    for asset in assets:
        namespace, _, name = asset.key.partition(".")
        if not namespace:
            hint = 'write namespace="…", or NAMESPACE = "…" in the module'
            yield Problem.at(asset.code, f"the asset {name!r} has no namespace", hint, asset.key)
            continue
        try:
            AssetKey(namespace, name)
        except Invalid as error:
            yield Problem.at(asset.code, error.message, error.hint, asset.key)


def keys_are_unique(assets: Sequence[Asset]) -> Iterator[Problem]:
    first: dict[str, Asset] = {}
    for asset in sorted(assets, key=lambda asset: (asset.code.file, asset.code.line)):
        other = first.setdefault(asset.key, asset)
        if other is not asset:
            where = f"{other.code.file}:{other.code.line}"
            yield Problem.at(
                asset.code, f"{asset.key} is declared twice", f"also in {where}", asset.key
            )


def renames_are_free(assets: Sequence[Asset]) -> Iterator[Problem]:
    keys = {asset.key for asset in assets}
    claimed: dict[str, str] = {}
    for asset in sorted(assets, key=lambda asset: asset.key):
        old = asset.renamed_from
        if not old:
            continue
        if old in keys:
            message = f"renamed_from={old!r} is the key of an existing asset"
            yield Problem.at(asset.code, message, "rename it, or remove renamed_from", asset.key)
        other = claimed.setdefault(old, asset.key)
        if other != asset.key:
            message = f"both {other} and {asset.key} are renamed from {old}"
            yield Problem.at(asset.code, message, "only one of them can be", asset.key)
        yield from _valid(asset, old)


def _valid(asset: Asset, old: str) -> Iterator[Problem]:
    try:
        AssetKey.parse(old)
    except Invalid as error:
        message = f"renamed_from: {error.message}"
        yield Problem.at(asset.code, message, error.hint, asset.key)
