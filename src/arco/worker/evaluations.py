"""What the supervisor records of a sensor's evaluation.

An evaluation without effect is not recorded, and its log is not stored: it costs one message of the
queue.
"""

from __future__ import annotations

import logging
from typing import Final

import msgspec

from arco.automation.sensor_events import (
    EvaluationError,
    SensorEvaluated,
    cursor_digest,
    with_answer,
)
from arco.worker.capture import LogCapture
from servo.contract.sensing import SensorAnswer, SensorCall
from servo.contract.task import ErrorInfo, TaskRequest
from servo.errors import Invalid

process_log = logging.getLogger(__name__)


SILENT_S: Final = 1e9
"""The log of an evaluation is stored at its end, if it is at all."""
MESSAGE_CHARS: Final = 4_000
UNANSWERED: Final = ErrorInfo(
    category="infrastructure",
    code="infrastructure.worker",
    message="the worker could not evaluate it",
    hint="see the log of the worker",
)


def evaluated(
    request: TaskRequest,
    log: LogCapture,
    answer: SensorAnswer | None,
    error: ErrorInfo | None,
    worker_id: str,
    wall_ms: int,
) -> SensorEvaluated | None:
    """The event of an evaluation; None if it is not recorded. Closes the log."""
    call = request.sensor
    assert call is not None
    event = started(call, worker_id, wall_ms)
    if answer is not None and error is None:
        if not has_effect(call, answer):
            log.discard()
            process_log.info("sensor %s had nothing new, in %d ms", call.sensor_id, wall_ms)
            return None
        try:
            event = with_answer(event, answer)
        except Invalid as invalid:
            error = ErrorInfo(
                category="user_code",
                code="sensor.result",
                message=invalid.message,
                hint=invalid.hint,
            )
    if answer is None or error is not None:
        error = error or UNANSWERED
        event = failed_event(event, error)
        log.line("ERROR", error.traceback.rstrip("\n") or error.message)
        log.close(f"failed: {error.message}", always=True)
    else:
        log.close(f"asked for {len(answer.runs):,} runs")
    return msgspec.structs.replace(event, log=log.path if log.is_stored else "")


def has_effect(call: SensorCall, answer: SensorAnswer) -> bool:
    if call.is_told or answer.runs or answer.keys or answer.more:
        return True
    if answer.cursor is not None and answer.cursor != call.cursor:
        return True
    return bool(answer.skip_reason) and answer.skip_reason != call.skip_reason


def started(call: SensorCall, worker_id: str, wall_ms: int = 0) -> SensorEvaluated:
    """The event of an evaluation, without its result."""
    return SensorEvaluated(
        sensor_id=call.sensor_id,
        number=call.number,
        started_from=cursor_digest(call.cursor),
        message_id=call.message_id,
        worker_id=worker_id,
        wall_ms=wall_ms,
    )


def failed_event(event: SensorEvaluated, error: ErrorInfo) -> SensorEvaluated:
    place = f"{error.file}:{error.line}" if error.file else ""
    if error.category == "timeout":
        hint = "raise timeout=, or read less per evaluation and return a cursor"
        message = error.message.replace("the task took", "the evaluation took")
        error = msgspec.structs.replace(error, message=message, hint=hint)
    return msgspec.structs.replace(
        event,
        error=EvaluationError(
            code=error.code,
            message=error.message[:MESSAGE_CHARS],
            hint=error.hint[:MESSAGE_CHARS],
            place=place,
        ),
    )
