"""Projects to validate, and their problems."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from servo import (
    asset,
    daily,
)
from servo.asset import AnyAsset
from servo.project import Problem, Project
from servo.validate import validate

HERE = Path(__file__).resolve().parents[1]
DAYS = daily("date", start="2025-01-01")


def make(key: str, **settings: Any) -> AnyAsset:
    """An asset under this key."""

    def function() -> None: ...

    namespace, _, name = key.partition(".")
    return asset(**{"namespace": namespace, "name": name, **settings})(function)


def problems(assets: Sequence[AnyAsset], **more: Any) -> list[Problem]:
    return validate(Project(HERE, assets=assets, **more))


def said(assets: Sequence[AnyAsset], **more: Any) -> list[str]:
    return [
        f"{problem.message} ({problem.hint})" if problem.hint else problem.message
        for problem in problems(assets, **more)
    ]
