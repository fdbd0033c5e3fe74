"""What can happen to sensors.

| category | events | who |
|---|---|---|
| commands | SensorPaused, SensorResumed, SensorReset | people |
| | SensorMessagePushed | people, and programs that push |
| facts | SensorEvaluated | workers |

Declarations, changes and removals are derived facts of deployments.
"""

from __future__ import annotations

import hashlib
from typing import ClassVar

import msgspec

from arco.automation.events import AutomationCommand
from arco.log.envelope import Payload
from arco.orchestration.packing import pack, unpack
from servo.contract.sensing import SensorAnswer
from servo.errors import Invalid

PLAIN_BYTES = 32 << 10
"""A larger answer is packed."""
PACKED_BYTES = 900 << 10
"""What is larger when it is packed does not fit into an event."""


class SensorPaused(AutomationCommand, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "automation.sensor_paused"
    sensor_id: str
    reason: str = ""


class SensorResumed(AutomationCommand, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "automation.sensor_resumed"
    sensor_id: str


class SensorReset(AutomationCommand, frozen=True, kw_only=True):
    """The cursor of a sensor is set. Running evaluations do not count."""

    TYPE: ClassVar[str] = "automation.sensor_reset"
    sensor_id: str
    cursor: str = ""
    reason: str = ""


class SensorMessagePushed(AutomationCommand, frozen=True, kw_only=True):
    """A message was pushed to a webhook sensor. The first one with an id counts."""

    TYPE: ClassVar[str] = "automation.sensor_message_pushed"
    sensor_id: str
    message_id: str
    payload: str = ""


class EvaluationError(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    code: str
    message: str
    hint: str = ""
    place: str = ""
    """The file and line of the author's that it comes from."""


class SensorEvaluated(Payload, frozen=True, kw_only=True, omit_defaults=True):
    """A worker has evaluated a sensor: its answer, or the error.

    The fold accepts it if the sensor's number of recorded evaluations and its cursor are still
    those that the evaluation started from.
    """

    TYPE: ClassVar[str] = "automation.sensor_evaluated"
    sensor_id: str
    number: int
    started_from: str
    """`cursor_digest` of the cursor."""
    answer: SensorAnswer | None = None
    packed: str = ""
    """An answer that is large, as base64 of deflated JSON."""
    error: EvaluationError | None = None
    message_id: str = ""
    worker_id: str = ""
    log: str = ""
    """What the paths of its log's parts begin with; empty if it has none."""
    wall_ms: int = 0


def cursor_digest(cursor: str) -> str:
    return hashlib.sha256(cursor.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def with_answer(event: SensorEvaluated, answer: SensorAnswer) -> SensorEvaluated:
    """The event with an answer. Raises Invalid if that is too large."""
    raw = msgspec.json.encode(answer)
    if len(raw) <= PLAIN_BYTES:
        return msgspec.structs.replace(event, answer=answer)
    packed = pack(raw)
    if len(packed) > PACKED_BYTES:
        raise Invalid(
            f"the result of {event.sensor_id} has {len(raw):,} bytes, which is too large",
            hint="return fewer requests per evaluation, with a cursor to go on from, and more=True",
        )
    return msgspec.structs.replace(event, packed=packed)


def answer_of(event: SensorEvaluated) -> SensorAnswer:
    """Raises ValueError if there is none that can be read."""
    if event.packed:
        return msgspec.json.decode(unpack(event.packed), type=SensorAnswer)
    if event.answer is None:
        raise ValueError("it has neither an answer nor an error")
    return event.answer


COMMANDS: tuple[type[AutomationCommand], ...] = (
    SensorPaused,
    SensorResumed,
    SensorReset,
    SensorMessagePushed,
)
EVENTS: tuple[type[Payload], ...] = (*COMMANDS, SensorEvaluated)
