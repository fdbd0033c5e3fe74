"""Commands about sensors."""

from __future__ import annotations

from typing import NamedTuple

from arco.automation.sensor_events import (
    SensorMessagePushed,
    SensorPaused,
    SensorReset,
    SensorResumed,
)
from arco.automation.sensor_reader import SensorReader
from arco.automation.sensor_tables import MessageState
from arco.errors import Invalid
from arco.state.core import Core
from arco.state.tier1 import Acknowledged, Tier1
from servo.contract.sensing import MAX_CURSOR_BYTES, MAX_MESSAGE_ID_BYTES, MAX_PAYLOAD_BYTES


class Pushed(NamedTuple):
    sensor_id: str
    message_id: str
    state: MessageState
    is_repeated: bool
    """Whether a message of this id was pushed before; then nothing has changed."""


class SensorCommands:
    def __init__(self, core: Core, tier1: Tier1, actor: str = "") -> None:
        self._core = core
        self._tier1 = tier1
        self._actor = actor

    def pause(self, sensor: str, *, reason: str = "") -> Acknowledged:
        """It is not evaluated until it is resumed. Deployments do not resume it."""
        return self._execute(SensorPaused(sensor_id=self._id(sensor), reason=reason))

    def resume(self, sensor: str) -> Acknowledged:
        return self._execute(SensorResumed(sensor_id=self._id(sensor)))

    def reset(self, sensor: str, *, cursor: str = "", reason: str = "") -> Acknowledged:
        """Set the cursor, by default to an empty one."""
        if len(cursor.encode("utf-8", "replace")) > MAX_CURSOR_BYTES:
            raise Invalid(f"the cursor is longer than {MAX_CURSOR_BYTES:,} bytes")
        return self._execute(SensorReset(sensor_id=self._id(sensor), cursor=cursor, reason=reason))

    def push(self, sensor: str, message_id: str, payload: str = "") -> Pushed:
        """Push a message to a webhook sensor. A repeated id changes nothing."""
        size = len(message_id.encode("utf-8", "replace"))
        if not 1 <= size <= MAX_MESSAGE_ID_BYTES or not message_id.isprintable():
            raise Invalid(
                f"{message_id[:50]!r} is not the id of a message",
                hint=f"1 to {MAX_MESSAGE_ID_BYTES} bytes that can be printed",
            )
        size = len(payload.encode("utf-8", "replace"))
        if size > MAX_PAYLOAD_BYTES:
            raise Invalid(
                f"the payload has {size:,} bytes; the limit is {MAX_PAYLOAD_BYTES:,}",
                hint="store it, and push a reference to it",
            )
        key = self._id(sensor)
        before = SensorReader(self._core.snapshot()).message(key, message_id)
        if before is None:
            event = SensorMessagePushed(sensor_id=key, message_id=message_id, payload=payload)
            self._execute(event)
        row = SensorReader(self._core.snapshot()).message(key, message_id)
        state = MessageState.PENDING if row is None else row.state
        return Pushed(key, message_id, state, before is not None)

    def _execute(
        self, event: SensorPaused | SensorResumed | SensorReset | SensorMessagePushed
    ) -> Acknowledged:
        return self._tier1.execute(event, actor=self._actor)

    def _id(self, sensor: str) -> str:
        return SensorReader(self._core.snapshot()).sensor(sensor).sensor_id
