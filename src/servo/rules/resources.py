from __future__ import annotations

from collections.abc import Iterator, Sequence

from servo.contract.manifest import Asset
from servo.project import Problem


def resources_are_sound(assets: Sequence[Asset]) -> Iterator[Problem]:
    for asset in assets:
        for name, least in (("cpu", 1), ("memory_mib", 0)):
            value = getattr(asset.resources, name)
            if value < least:
                message = f"Resources: {name}={value!r} is not a whole number from {least}"
                yield Problem.at(asset.code, message, asset=asset.key)
