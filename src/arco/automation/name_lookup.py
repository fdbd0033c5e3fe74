"""Finds a schedule or a sensor by its name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from arco.automation.sensor_tables import SensorRow
from arco.automation.tables import ScheduleRow
from arco.errors import NotFound
from servo.suggest import did_you_mean

R = TypeVar("R", ScheduleRow, SensorRow)


def by_name(kind: str, text: str, active: Mapping[str, R], removed: Mapping[str, R]) -> R:
    """The row with this name, an active one if there is one. Both are by `project/name`."""
    rows = {**removed, **active}
    matching = {key: row for key, row in active.items() if row.name == text}
    matching = matching or {key: row for key, row in removed.items() if row.name == text}
    if len(matching) == 1:
        return next(iter(matching.values()))
    if matching:
        several = ", ".join(sorted(matching))
        raise NotFound(f"{text!r} names several {kind}s", hint=f"give one of {several}")
    names = [row.name for row in rows.values()]
    hint = did_you_mean(text, names) or f"see `servo {kind}s list`"
    raise NotFound(f"there is no {kind} {text!r}", hint=hint)
