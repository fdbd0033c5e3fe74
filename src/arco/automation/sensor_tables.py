"""The tables of sensors: their cursors, messages, and evaluations."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum

from arco.state.table import History, Row, Table
from servo.contract.manifest import SensorKind

EVALUATIONS_KEPT_HOT = timedelta(days=2)
MESSAGE_IDS_KEPT = timedelta(days=30)
"""How long the id of a processed message is refused."""


class SensorStatus(StrEnum):
    ACTIVE = "ACTIVE"
    ERROR = "ERROR"
    """Its last evaluation failed. It is evaluated again, with increasing pauses."""
    PAUSED = "PAUSED"
    REMOVED = "REMOVED"
    """No deployment of its project has it now. Its cursor and a pause are kept."""


class MessageState(StrEnum):
    PENDING = "PENDING"
    DONE = "DONE"
    FAILED = "FAILED"
    """The function failed with it too often."""


class EvaluationState(StrEnum):
    REQUESTED = "REQUESTED"
    SKIPPED = "SKIPPED"
    """It requested nothing."""
    FAILED = "FAILED"
    """It changed nothing."""


class SensorRow(Row, frozen=True):
    sensor_id: str
    """`project/name`."""
    project: str
    name: str
    kind: SensorKind
    status: SensorStatus
    cursor: str
    number: int
    """How many evaluations and resets were recorded. With the cursor, what an evaluation starts
    from."""
    last_evaluation_at: datetime | None
    """Of the last recorded one; evaluations without effect are not recorded."""
    selection: list[str]
    interval_s: int
    definition: str
    """All that is declared of it, as JSON."""
    failures: int
    """How many evaluations in a row have failed."""
    error: str
    hint: str
    skip_reason: str
    """Of the last evaluation that requested nothing."""
    at_once: bool
    """It does not wait for its interval: it was declared or reset, or there is more to see."""
    waiting: int
    """Messages that were not processed yet."""
    deployment_id: str
    """The one that last changed it, or removed it."""
    since: datetime
    """When that was."""
    paused_at: datetime | None
    paused_by: str
    pause_reason: str
    went_well: bool = False
    """Of a sensor that is due at once: whether its last evaluation went well. Any other shows that
    by its error."""

    @property
    def is_evaluated(self) -> bool:
        return self.status in (SensorStatus.ACTIVE, SensorStatus.ERROR)


class SensorMessageRow(Row, frozen=True):
    sensor_id: str
    message_id: str
    state: MessageState
    payload: str
    """Until it was processed."""
    position: int
    """In the log: messages are processed in this order."""
    attempts: int
    error: str
    pushed_at: datetime
    pushed_by: str
    decided_at: datetime | None
    number: int
    """The evaluation that processed it."""


class SensorEvaluationRow(Row, frozen=True):
    sensor_id: str
    number: int
    state: EvaluationState
    requests: int
    """How many runs it requested, including merged and refused ones."""
    merged: int
    """Those among them whose key was used before."""
    refused: int
    request_keys: list[str]
    """The first of them."""
    keys_added: int
    """Keys of dynamic partitions."""
    reason: str
    """Why it requested nothing, what failed, or why requests were merged or refused."""
    hint: str
    error_code: str
    cursor: str
    """After it; only the beginning of a long one."""
    more: bool
    message_id: str
    worker_id: str
    log: str
    wall_ms: int
    evaluated_at: datetime


SENSORS = Table("automation", "sensors", SensorRow, key=["sensor_id"])
SENSOR_MESSAGES = Table(
    "automation",
    "sensor_messages",
    SensorMessageRow,
    key=["sensor_id", "message_id"],
    history=History("decided_at", MESSAGE_IDS_KEPT),
)
SENSOR_EVALUATIONS = Table(
    "automation",
    "sensor_evaluations",
    SensorEvaluationRow,
    key=["sensor_id", "number"],
    history=History("evaluated_at", EVALUATIONS_KEPT_HOT),
)


def sensor_id(project: str, name: str) -> str:
    return f"{project}/{name}"
