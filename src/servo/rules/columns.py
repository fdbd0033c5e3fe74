from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from servo.contract.manifest import Asset
from servo.project import Problem
from servo.rules.foreign import is_foreign, own_namespaces
from servo.suggest import did_you_mean


def lineage_leads_somewhere(assets: Sequence[Asset]) -> Iterator[Problem]:
    """Each is `namespace.asset.column`, of an asset that exists or is another project's."""
    keys = {asset.key for asset in assets}
    namespaces = own_namespaces(assets)
    for asset in assets:
        for column in asset.columns:
            for source in column.lineage:
                key, _, name = str(source).rpartition(".")
                if name and (key in keys or is_foreign(key, namespaces)):
                    continue
                message = f"the column {column.name!r} comes from the unknown {source!r}"
                hint = did_you_mean(key, keys) or "write namespace.asset.column"
                yield Problem.at(asset.code, message, hint, asset.key)


def columns_are_named_once(assets: Sequence[Asset]) -> Iterator[Problem]:
    for asset in assets:
        for name, count in Counter(column.name for column in asset.columns).items():
            if count > 1:
                yield Problem.at(
                    asset.code, f"the column {name!r} is declared twice", asset=asset.key
                )


def renamed_columns_leave_their_names(assets: Sequence[Asset]) -> Iterator[Problem]:
    """A column that was renamed has another name than before, and nobody else has the old one."""
    for asset in assets:
        names = {column.name for column in asset.columns}
        former = Counter(column.renamed_from for column in asset.columns if column.renamed_from)
        for column in asset.columns:
            old = column.renamed_from
            if old in names:
                message = f"the column {column.name!r} is renamed from {old!r}, which is declared"
                hint = "remove renamed_from, or the other column"
                yield Problem.at(asset.code, message, hint, asset.key)
            elif former[old] > 1:
                message = f"the column {column.name!r} is renamed from {old!r}, and another one too"
                yield Problem.at(asset.code, message, "keep one of them", asset.key)
