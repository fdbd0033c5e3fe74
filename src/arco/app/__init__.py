"""Builds a workspace with its parts: reading, commands, upkeep and runtime."""

from __future__ import annotations

from arco.app.domains import EVENTS, chain
from arco.app.workspace import Workspace

__all__ = ["EVENTS", "Workspace", "chain"]
