from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from servo.contract.manifest import Asset
from servo.project import Problem


def columns_are_named_once(assets: Sequence[Asset]) -> Iterator[Problem]:
    for asset in assets:
        for name, count in Counter(column.name for column in asset.columns).items():
            if count > 1:
                yield Problem.at(
                    asset.code, f"the column {name!r} is declared twice", asset=asset.key
                )
