"""Whether, and when, a failed attempt is followed by another."""

from __future__ import annotations

from arco.orchestration.tables import TaskRow
from servo.contract.manifest import RETRIABLE
from servo.contract.task import ErrorInfo


def will_retry(task: TaskRow, error: ErrorInfo) -> bool:
    """Whether a failed attempt is followed by another: `never_on`, then `retry_on`, then kind."""
    if task.attempt >= task.max_attempts:
        return False
    names = {error.category, error.code, error.exception} - {""}
    if names & set(task.never_on):
        return False
    return bool(names & set(task.retry_on)) or error.retriable or error.category in RETRIABLE


def retry_delay_s(task: TaskRow) -> int:
    """1 min, 2, 4 … up to an hour, by default."""
    doubled = task.retry_delay_s << min(task.attempt - 1, 30)
    return min(doubled, task.retry_max_delay_s)
