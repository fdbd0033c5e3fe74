"""When sensors were last evaluated, with effect or without."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from arco.app import Workspace
from arco.automation.sensor_tables import SensorRow
from arco.cli.session import Session
from arco.dispatch.sensor_sender import task_of
from arco.transport.sensor_turns import DatedTurn, last_turn, turn_times


def last_evaluated(
    session: Session, workspace: Workspace, rows: Sequence[SensorRow]
) -> dict[str, datetime | None]:
    """By sensor, when it was last evaluated, with or without effect."""
    names = {} if session.at() else {row.sensor_id: task_of(row.sensor_id) for row in rows}
    turns = turn_times(workspace.store, names.values())
    times = {
        row.sensor_id: (row.last_evaluation_at, turns.get(names.get(row.sensor_id, "")))
        for row in rows
    }
    return {id: max(filter(None, pair), default=None) for id, pair in times.items()}


def turn_without_effect(workspace: Workspace, row: SensorRow) -> DatedTurn | None:
    """The last evaluation, if it was one without effect."""
    dated = last_turn(workspace.store, task_of(row.sensor_id))
    recorded = row.last_evaluation_at
    if dated is None or (recorded is not None and dated.at < recorded):
        return None
    return dated


def turn_text(dated: DatedTurn) -> str:
    turn = dated.turn
    why = f", {turn.skip_reason}" if turn.skip_reason else ""
    at = dated.at.isoformat(" ", "seconds")
    return f"at {at}, in {turn.wall_ms:,} ms, by {turn.worker_id}{why}"
