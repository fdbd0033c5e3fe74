"""Evaluations of sensors that no worker has taken."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from arco.automation.sensor_tables import SensorRow, SensorStatus
from arco.dispatch.sensor_sender import message_name
from arco.dispatch.waiting import GRACE, Liveness, slots_text
from arco.storage.port import Store
from arco.transport.liveness import worker_signs
from arco.transport.queues.objectstore import contents


def untaken(store: Store, sensors: Iterable[SensorRow], now: datetime) -> dict[str, str]:
    """By sensor: since when its evaluation has been in the queue, and why it still is.

    The queue is listed once, for all of them.
    """
    idle = (SensorStatus.PAUSED, SensorStatus.REMOVED)
    names = {
        message_name(row.sensor_id): row.sensor_id for row in sensors if row.status not in idle
    }
    queue = contents(store) if names else None
    if queue is None:
        return {}
    waiting = {
        sensor: queue.put_at[name]
        for name, sensor in names.items()
        if name in queue.put_at and name not in queue.claimed and now - queue.put_at[name] > GRACE
    }
    if not waiting:
        return {}
    why = slots_text(Liveness((), worker_signs(store), queue), now)
    return {
        sensor: f"no worker has taken its evaluation since {put_at:%Y-%m-%d %H:%M:%S} UTC: {why}"
        for sensor, put_at in waiting.items()
    }
