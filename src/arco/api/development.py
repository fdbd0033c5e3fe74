"""What `servo dev` tells its page: whether the last save was deployed, and if not, why."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from servo.project import Problem

PATH = "/api/v1/development"
"""Only `servo dev` has this route, only for who started it; `GET /auth/session` names it."""


class SaveState(StrEnum):
    DEPLOYING = "DEPLOYING"
    DEPLOYED = "DEPLOYED"
    BROKEN = "BROKEN"
    """The last save could not be deployed. What was deployed before stays."""


class DevelopmentState(Struct, frozen=True, kw_only=True):
    state: SaveState
    folder: str
    """Of the project."""
    changed_at: datetime
    saves: int = 0
    """How many were looked at since the server has started."""
    deployment: int | None = None
    """The number of the deployment that runs use; null before the first one."""
    message: str = ""
    """Why the last save could not be deployed."""
    hint: str = ""
    problems: tuple[Problem, ...] = ()
    """The same, by file and line, where the project itself is wrong."""
    warnings: tuple[str, ...] = ()
