"""Checks: whether data is as its asset says it is."""

from __future__ import annotations

from arco.worker.checks.evaluate import evaluate
from arco.worker.checks.subject import CheckContext, File, Subject

__all__ = ["CheckContext", "File", "Subject", "evaluate"]
