"""Sensors that are due, each with its call for a worker.

Evaluations without effect are not recorded, with two exceptions: the first evaluation of a new
sensor, and the first success after a failure.
"""

from __future__ import annotations

from datetime import UTC, datetime

from arco.automation.sensor_agenda import SensorAgenda, interval_of, next_turn
from arco.automation.sensor_evaluations import definition_of
from arco.automation.sensor_tables import SensorRow
from servo.contract.sensing import SensorCall


def sensor_calls(agenda: SensorAgenda, now: datetime) -> list[tuple[SensorRow, SensorCall]]:
    """The sensors that are due, each with its call. The payload of a message is not in it yet."""
    calls = []
    for row in agenda.due(now):
        message_id = agenda.next_message(row.sensor_id) if row.kind == "webhook" else ""
        calls.append((row, _call(row, message_id, now)))
    return calls


def _call(row: SensorRow, message_id: str, now: datetime) -> SensorCall:
    sensor = definition_of(row)
    turn = next_turn(row, now).replace(tzinfo=UTC)
    return SensorCall(
        sensor_id=row.sensor_id,
        name=row.name,
        kind=row.kind,
        number=row.number,
        cursor=row.cursor,
        due_s=int(turn.timestamp()) - interval_of(row),
        has_function=sensor.has_function,
        is_told=row.at_once or row.failures > 0 or bool(message_id),
        skip_reason=row.skip_reason,
        message_id=message_id,
        url=sensor.url,
        pattern=sensor.pattern,
        existing=sensor.existing,
        asset=sensor.asset,
        workspace=sensor.workspace,
    )
