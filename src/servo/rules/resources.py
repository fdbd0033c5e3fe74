from __future__ import annotations

from collections.abc import Iterator, Sequence

from servo.contract.manifest import POOL_NAME, Asset
from servo.project import Problem


def resources_are_sound(assets: Sequence[Asset]) -> Iterator[Problem]:
    for asset in assets:
        for name, least in (("cpu", 1), ("memory_mib", 0)):
            value = getattr(asset.resources, name)
            if value < least:
                message = f"Resources: {name}={value!r} is not a whole number from {least}"
                yield Problem.at(asset.code, message, asset=asset.key)
        pool = asset.resources.pool
        if pool is not None and POOL_NAME.fullmatch(pool) is None:
            yield Problem.at(
                asset.code,
                f"Resources: pool={pool!r} is not the name of a pool",
                hint="up to 64 of a-z, A-Z, 0-9, '_', '-' and '.', as in \"jdbc\"",
                asset=asset.key,
            )
