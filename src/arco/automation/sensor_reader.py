"""Reading sensors, their messages and their evaluations at one generation."""

from __future__ import annotations

import pyarrow.compute as pc

from arco.automation.name_lookup import by_name
from arco.automation.sensor_tables import (
    SENSOR_EVALUATIONS,
    SENSOR_MESSAGES,
    SENSORS,
    MessageState,
    SensorEvaluationRow,
    SensorMessageRow,
    SensorRow,
    SensorStatus,
)
from arco.errors import NotFound
from arco.state.days import newest_first
from arco.state.snapshot import Snapshot


class SensorReader:
    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    def sensors(self, *, removed: bool = False) -> list[SensorRow]:
        rows = self.snapshot.all(SENSORS)
        chosen = [row for row in rows if removed or row.status != SensorStatus.REMOVED]
        return sorted(chosen, key=lambda row: row.sensor_id)

    def sensor(self, text: str) -> SensorRow:
        """A sensor by `project/name`, or by its name where that is enough."""
        row = self.snapshot.get(SENSORS, text)
        if row is not None:
            return row
        rows = self.sensors(removed=True)
        removed = {row.sensor_id: row for row in rows if row.status == SensorStatus.REMOVED}
        active = {row.sensor_id: row for row in rows if row.sensor_id not in removed}
        return by_name("sensor", text, active, removed)

    def evaluations(self, sensor: SensorRow, limit: int) -> list[SensorEvaluationRow]:
        """The newest that were recorded."""
        chosen: list[SensorEvaluationRow] = []
        table = SENSOR_EVALUATIONS
        for rows, rest_before in newest_first(self.snapshot, table, sensor.sensor_id):
            page = rows.take(pc.select_k_unstable(rows, limit, [("number", "descending")]))
            chosen += table.rows_of(page)
            chosen.sort(key=lambda row: row.number, reverse=True)
            if rest_before is None or len(chosen) >= limit:
                break
        return chosen[:limit]

    def evaluation(self, sensor: SensorRow, number: int) -> SensorEvaluationRow:
        row = self.snapshot.get(SENSOR_EVALUATIONS, sensor.sensor_id, number)
        if row is None:
            raise NotFound(
                f"{sensor.sensor_id} has no recorded evaluation {number}",
                hint=f"see `servo sensors show {sensor.name}`",
            )
        return row

    def message(self, sensor: str, message_id: str) -> SensorMessageRow | None:
        return self.snapshot.get(SENSOR_MESSAGES, sensor, message_id)

    def undone(self, sensor: SensorRow, limit: int) -> list[SensorMessageRow]:
        """Messages that wait or have failed, the oldest first."""
        if sensor.kind != "webhook":
            return []
        rows = self.snapshot.rows_versioned(
            SENSOR_MESSAGES, (sensor.sensor_id,), history=False
        ).values()
        undone = [row for _, row in rows if row is not None and row.state != MessageState.DONE]
        return sorted(undone, key=lambda row: row.position)[:limit]
