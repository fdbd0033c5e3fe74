"""Builds everything once: a workspace, for those who read, command, maintain and run it."""

from __future__ import annotations

from arco.app.domains import EVENTS, chain
from arco.app.workspace import Workspace

__all__ = ["EVENTS", "Workspace", "chain"]
