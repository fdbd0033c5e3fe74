"""The fold of a sensor's evaluations: accepted answers, and failures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import msgspec

from arco.automation.sensor_events import (
    EvaluationError,
    SensorEvaluated,
    answer_of,
    cursor_digest,
)
from arco.automation.sensor_tables import (
    SENSOR_MESSAGES,
    SENSORS,
    EvaluationState,
    MessageState,
    SensorEvaluationRow,
    SensorMessageRow,
    SensorRow,
    SensorStatus,
)
from arco.log.envelope import Payload
from arco.orchestration.declarations import DeployedSensor
from arco.orchestration.derived import AutomationFailed, AutomationRecovered, PartitionKeysFound
from arco.orchestration.plan import PlanRequest
from arco.orchestration.run_requests import RunAsked, packed_request, request_fingerprint
from arco.orchestration.states import RunTrigger
from arco.state.copied_rows import row_from
from arco.state.fold import Change, Emit, Fact, Put, Rows
from servo.contract.sensing import SensorAnswer, SensorRun, check_answer
from servo.errors import Invalid

replace = msgspec.structs.replace

MAX_ATTEMPTS = 5
"""After this many failures a message is FAILED, so that others are processed."""
LISTED = 20
CURSOR_CHARS = 200
TEXT_CHARS = 4_000


class EvaluationRecorded(Payload, frozen=True, kw_only=True):
    """Derived: an evaluation was accepted."""

    TYPE: ClassVar[str] = "automation.evaluation_recorded"
    row: SensorEvaluationRow


def request_key(sensor: str, key: str) -> str:
    return f"sensor:{sensor}:{key}"


def _kind(row: SensorRow) -> RunTrigger:
    """Of its requests."""
    return RunTrigger.WEBHOOK if row.kind == "webhook" else RunTrigger.SENSOR


def definition_of(row: SensorRow) -> DeployedSensor:
    return msgspec.json.decode(row.definition, type=DeployedSensor)


def dealt_with(message: SensorMessageRow, fact: Fact, number: int) -> SensorMessageRow:
    return replace(
        message,
        state=MessageState.DONE,
        payload="",
        error="",
        decided_at=fact.received_at,
        number=number,
    )


def evaluate(rows: Rows, fact: Fact, e: SensorEvaluated) -> Iterator[Change]:
    row = rows.get(SENSORS, e.sensor_id)
    if row is None or not row.is_evaluated:
        return
    if row.number != e.number or cursor_digest(row.cursor) != e.started_from:
        return
    message = rows.get(SENSOR_MESSAGES, e.sensor_id, e.message_id) if e.message_id else None
    if e.message_id and (message is None or message.state != MessageState.PENDING):
        return
    if e.error is not None:
        yield from _fail(fact, row, e, e.error, message)
        return
    try:
        answer = answer_of(e)
        check_answer(answer)
    except Invalid as invalid:
        error = EvaluationError(code="answer", message=invalid.message, hint=invalid.hint)
        yield from _fail(fact, row, e, error, message)
        return
    except (ValueError, msgspec.MsgspecError) as unreadable:
        text = f"its answer cannot be read: {unreadable}"
        yield from _fail(fact, row, e, EvaluationError(code="answer", message=text), message)
        return
    evaluated = replace(
        after(row, fact),
        cursor=row.cursor if answer.cursor is None else answer.cursor,
        skip_reason="" if answer.runs else answer.skip_reason[:TEXT_CHARS],
        at_once=answer.more,
        went_well=answer.more,
        waiting=row.waiting - (message is not None),
    )
    yield Put(SENSORS, evaluated)
    yield from recovered(row)
    if message is not None:
        yield Put(SENSOR_MESSAGES, dealt_with(message, fact, evaluated.number))
    yield from ask(fact, evaluated, e, answer)


def recovered(row: SensorRow) -> Iterator[Change]:
    """The fact that failures of a sensor are over. It has no effect if there were none."""
    if not is_well(row):
        yield Emit(AutomationRecovered(kind=_kind(row), name=row.sensor_id))


def is_well(row: SensorRow) -> bool:
    """Whether its last evaluation went well, whoever has declared, reset or resumed it since."""
    if row.failures or row.error or row.status == SensorStatus.ERROR:
        return False
    return row.went_well or not row.at_once


def after(row: SensorRow, fact: Fact) -> SensorRow:
    """The row after an evaluation that went well."""
    return replace(
        row,
        status=SensorStatus.ACTIVE,
        number=row.number + 1,
        last_evaluation_at=fact.received_at,
        failures=0,
        error="",
        hint="",
        at_once=False,
        went_well=False,
    )


def ask(fact: Fact, row: SensorRow, e: SensorEvaluated, answer: SensorAnswer) -> Iterator[Change]:
    for name in sorted(answer.keys):
        yield Emit(PartitionKeysFound(keys=name, added=tuple(dict.fromkeys(answer.keys[name]))))
    runs: dict[str, SensorRun] = {}
    for run in answer.runs:
        runs.setdefault(run.key, run)
    twice = len(answer.runs) - len(runs)
    skipped = answer.skip_reason[:TEXT_CHARS]
    merged = f"requests of this evaluation have the same key: {twice:,} are merged"
    yield _recorded(
        fact,
        row,
        e,
        state=EvaluationState.REQUESTED if runs else EvaluationState.SKIPPED,
        requests=len(answer.runs),
        merged=twice,
        request_keys=[request_key(row.sensor_id, key) for key in list(runs)[:LISTED]],
        keys_added=sum(len(keys) for keys in answer.keys.values()),
        reason=merged if twice else "" if runs else skipped,
        more=answer.more,
    )
    for key, run in runs.items():
        request = PlanRequest(
            selection=tuple(row.selection),
            partitions=run.partitions,
            force=run.force,
            config=run.config,
        )
        yield Emit(
            RunAsked(
                request_key=request_key(row.sensor_id, key),
                fingerprint=request_fingerprint(request),
                kind=_kind(row),
                reference=f"{row.sensor_id}#{row.number}",
                **packed_request(request),
            )
        )


def _fail(
    fact: Fact,
    row: SensorRow,
    e: SensorEvaluated,
    error: EvaluationError,
    message: SensorMessageRow | None,
) -> Iterator[Change]:
    place = f" ({error.place})" if error.place else ""
    text = f"{error.message[:TEXT_CHARS]}{place}"
    failed = replace(
        row,
        status=SensorStatus.ERROR,
        number=row.number + 1,
        last_evaluation_at=fact.received_at,
        failures=row.failures + 1,
        error=text,
        hint=error.hint[:TEXT_CHARS],
        went_well=False,
    )
    if message is not None:
        attempts = message.attempts + 1
        has_failed = attempts >= MAX_ATTEMPTS
        tried = replace(message, attempts=attempts, error=text)
        if has_failed:
            tried = replace(
                tried,
                state=MessageState.FAILED,
                payload="",
                decided_at=fact.received_at,
                number=failed.number,
            )
            failed = replace(failed, waiting=row.waiting - 1, failures=0)
        yield Put(SENSOR_MESSAGES, tried)
    yield Put(SENSORS, failed)
    yield Emit(AutomationFailed(kind=_kind(row), name=row.sensor_id, code=error.code))
    yield _recorded(
        fact,
        failed,
        e,
        state=EvaluationState.FAILED,
        reason=text,
        hint=failed.hint,
        error_code=error.code,
    )


def _recorded(
    fact: Fact, row: SensorRow, e: SensorEvaluated, *, state: EvaluationState, **fields: Any
) -> Emit:
    empty: dict[str, Any] = {
        "requests": 0,
        "merged": 0,
        "refused": 0,
        "request_keys": [],
        "keys_added": 0,
        "reason": "",
        "hint": "",
        "error_code": "",
        "more": False,
    }
    evaluation = row_from(
        SensorEvaluationRow,
        e,
        number=row.number,
        state=state,
        cursor=row.cursor[:CURSOR_CHARS],
        evaluated_at=fact.received_at,
        **(empty | fields),
    )
    return Emit(EvaluationRecorded(row=evaluation))
