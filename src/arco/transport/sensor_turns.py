"""When a sensor was last evaluated without effect: one small object for each sensor.

    liveness/sensors/{sensor}.json

The log has only evaluations that have an effect; others may come every few seconds for years. To
show that a sensor is evaluated, the worker overwrites this object; GC removes it when it has not
been written for long, like other liveness records.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

import msgspec

from arco.errors import Invalid, NotFound
from arco.storage import paths
from arco.storage.port import Mode, Store


class SensorTurn(msgspec.Struct, frozen=True, omit_defaults=True):
    """An evaluation that found nothing new."""

    sensor_id: str
    worker_id: str
    wall_ms: int = 0
    skip_reason: str = ""


class DatedTurn(NamedTuple):
    turn: SensorTurn
    at: datetime
    """By the store's clock."""


_turns = msgspec.json.Decoder(SensorTurn)


def record_turn(store: Store, name: str, turn: SensorTurn) -> None:
    """`name` is the sensor's name in paths of objects."""
    store.put(paths.sensor_turn(name), msgspec.json.encode(turn), Mode.OVERWRITE)


def last_turn(store: Store, name: str) -> DatedTurn | None:
    """None if it is missing or invalid."""
    try:
        record = store.get(paths.sensor_turn(name))
        return DatedTurn(_turns.decode(record.data), record.meta.last_modified)
    except (NotFound, Invalid, msgspec.DecodeError):
        return None


def turn_times(store: Store, names: Iterable[str]) -> dict[str, datetime]:
    """By name, when a sensor was last evaluated without effect: one listing for all of them."""
    by_path = {paths.sensor_turn(name): name for name in names}
    if not by_path:
        return {}
    listed = store.list(paths.SENSOR_TURNS)
    return {by_path[meta.path]: meta.last_modified for meta in listed if meta.path in by_path}
