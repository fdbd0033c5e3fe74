"""The fold of sensors: one key for each.

An evaluation counts if the sensor is still where it started from: compare and set. Then cursor,
requests, new partition keys and skip reason are taken together; if one part of the answer is
invalid, none is, and the evaluation has failed. Whoever reports an evaluation again, or too late,
changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import msgspec

from arco.automation.sensor_events import (
    EvaluationError,
    SensorEvaluated,
    SensorMessagePushed,
    SensorPaused,
    SensorReset,
    SensorResumed,
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
    sensor_id,
)
from arco.log.envelope import Payload
from arco.orchestration.declarations import DeployedSensor, SensorDeclared, SensorRemoved
from arco.orchestration.derived import PartitionKeysFound
from arco.orchestration.plan import PlanRequest
from arco.orchestration.run_requests import RunAsked, packed_request, request_fingerprint
from arco.state.fold import Change, Emit, Fact, On, Put, Rows, Stage
from arco.state.system import applied, refused
from servo.contract.sensing import SensorAnswer, SensorRun, check_answer
from servo.errors import Invalid

replace = msgspec.structs.replace

MAX_ATTEMPTS = 5
"""A message with which the function fails so often is given up, so that others have their turn."""
MAX_WAITING = 10_000
LISTED = 20
CURSOR_CHARS = 200
TEXT_CHARS = 4_000


class EvaluationRecorded(Payload, frozen=True, kw_only=True):
    """Derived: an evaluation was taken."""

    TYPE: ClassVar[str] = "automation.evaluation_recorded"
    row: SensorEvaluationRow


def request_key(sensor: str, key: str) -> str:
    return f"sensor:{sensor}:{key}"


def definition_of(row: SensorRow) -> DeployedSensor:
    return msgspec.json.decode(row.definition, type=DeployedSensor)


# -- deployments --------------------------------------------------------------------------


def _declare(rows: Rows, fact: Fact, e: SensorDeclared) -> Iterator[Change]:
    sensor = e.declaration
    row = SensorRow(
        sensor_id=sensor_id(e.project, sensor.name),
        project=e.project,
        name=sensor.name,
        kind=sensor.type,
        status=SensorStatus.ACTIVE,
        cursor="",
        number=0,
        last_evaluation_at=None,
        selection=list(sensor.selection),
        interval_s=sensor.interval_s,
        definition=msgspec.json.encode(sensor).decode(),
        failures=0,
        error="",
        hint="",
        skip_reason="",
        more=False,
        waiting=0,
        deployment_id=e.deployment_id,
        since=fact.received_at,
        paused_at=None,
        paused_by="",
        pause_reason="",
    )
    old = rows.get(SENSORS, row.sensor_id)
    if old is not None:
        goes_on = _place(definition_of(old)) == _place(sensor)
        row = replace(
            row,
            status=SensorStatus.ACTIVE if old.paused_at is None else SensorStatus.PAUSED,
            cursor=old.cursor if goes_on else "",
            number=old.number + (not goes_on),
            last_evaluation_at=old.last_evaluation_at,
            more=old.more and goes_on,
            waiting=old.waiting,
            paused_at=old.paused_at,
            paused_by=old.paused_by,
            pause_reason=old.pause_reason,
        )
    yield from _with_waiting(rows, fact, row)


def _place(sensor: DeployedSensor) -> tuple[str, ...]:
    """What the cursor is about: where it differs, there is nothing to go on from."""
    return sensor.type, sensor.url, sensor.pattern, sensor.asset, sensor.workspace


def _remove(rows: Rows, fact: Fact, e: SensorRemoved) -> Iterator[Change]:
    row = rows.get(SENSORS, sensor_id(e.project, e.name))
    if row is not None:
        removed = replace(
            row,
            status=SensorStatus.REMOVED,
            deployment_id=e.deployment_id,
            since=fact.received_at,
        )
        yield Put(SENSORS, removed)


# -- people -------------------------------------------------------------------------------


def _known(rows: Rows, sensor: str) -> SensorRow | None:
    row = rows.get(SENSORS, sensor)
    return None if row is None or row.status == SensorStatus.REMOVED else row


def _unknown(fact: Fact, sensor: str) -> Change:
    return refused(fact, "sensor_not_found", f"there is no sensor {sensor}")


def _pause(rows: Rows, fact: Fact, e: SensorPaused) -> Iterator[Change]:
    row = _known(rows, e.sensor_id)
    if row is None:
        yield _unknown(fact, e.sensor_id)
        return
    if row.status != SensorStatus.PAUSED:
        paused = replace(
            row,
            status=SensorStatus.PAUSED,
            paused_at=fact.received_at,
            paused_by=fact.actor,
            pause_reason=e.reason,
        )
        yield Put(SENSORS, paused)
    yield applied(fact)


def _resume(rows: Rows, fact: Fact, e: SensorResumed) -> Iterator[Change]:
    row = _known(rows, e.sensor_id)
    if row is None:
        yield _unknown(fact, e.sensor_id)
        return
    if row.status == SensorStatus.PAUSED:
        resumed = replace(
            row,
            status=SensorStatus.ACTIVE,
            failures=0,
            error="",
            hint="",
            paused_at=None,
            paused_by="",
            pause_reason="",
        )
        yield from _with_waiting(rows, fact, resumed)
    yield applied(fact)


def _reset(rows: Rows, fact: Fact, e: SensorReset) -> Iterator[Change]:
    row = _known(rows, e.sensor_id)
    if row is None:
        yield _unknown(fact, e.sensor_id)
        return
    is_paused = row.status == SensorStatus.PAUSED
    anew = replace(
        row,
        status=row.status if is_paused else SensorStatus.ACTIVE,
        cursor=e.cursor,
        number=row.number + 1,
        last_evaluation_at=None,
        failures=0,
        error="",
        hint="",
        skip_reason="",
        more=False,
    )
    yield Put(SENSORS, anew)
    yield applied(fact)


def _push(rows: Rows, fact: Fact, e: SensorMessagePushed) -> Iterator[Change]:
    row = _known(rows, e.sensor_id)
    if row is None:
        yield _unknown(fact, e.sensor_id)
        return
    if row.kind != "webhook":
        reason = f"{e.sensor_id} is a sensor of kind {row.kind}, which takes no messages"
        yield refused(fact, "not_a_webhook", reason)
        return
    if rows.get(SENSOR_MESSAGES, e.sensor_id, e.message_id) is None:
        if row.waiting >= MAX_WAITING:
            reason = f"{row.waiting:,} messages wait for {e.sensor_id} already"
            yield refused(fact, "too_many_messages", reason)
            return
        message = SensorMessageRow(
            sensor_id=e.sensor_id,
            message_id=e.message_id,
            state=MessageState.PENDING,
            payload=e.payload,
            position=fact.position,
            attempts=0,
            error="",
            pushed_at=fact.received_at,
            pushed_by=fact.actor,
            decided_at=None,
            number=0,
        )
        if _answers_itself(row):
            yield from _answer_itself(fact, row, [message])
        else:
            yield Put(SENSOR_MESSAGES, message)
            yield Put(SENSORS, replace(row, waiting=row.waiting + 1))
    yield applied(fact)


def _answers_itself(row: SensorRow) -> bool:
    return row.kind == "webhook" and row.is_evaluated and not definition_of(row).has_function


def _with_waiting(rows: Rows, fact: Fact, row: SensorRow) -> Iterator[Change]:
    """The row; messages that waited for a sensor without a function ask for their runs."""
    if not row.waiting or not _answers_itself(row):
        yield Put(SENSORS, row)
        return
    messages = rows.scan(SENSOR_MESSAGES, row.sensor_id)
    pending = [each for each in messages if each.state == MessageState.PENDING]
    pending.sort(key=lambda each: each.position)
    yield from _answer_itself(fact, replace(row, waiting=0), pending)


def _answer_itself(
    fact: Fact, row: SensorRow, messages: list[SensorMessageRow]
) -> Iterator[Change]:
    """Without a function, each message asks for one run."""
    for message in messages:
        answer = SensorAnswer(runs=(SensorRun(message.message_id),))
        evaluated = SensorEvaluated(
            sensor_id=row.sensor_id,
            number=row.number,
            started_from="",
            message_id=message.message_id,
        )
        row = replace(_after(row, fact), skip_reason="")
        yield Put(SENSOR_MESSAGES, _dealt_with(message, fact, row.number))
        yield from _ask(fact, row, evaluated, answer)
    yield Put(SENSORS, row)


def _dealt_with(message: SensorMessageRow, fact: Fact, number: int) -> SensorMessageRow:
    return replace(
        message,
        state=MessageState.DONE,
        payload="",
        error="",
        decided_at=fact.received_at,
        number=number,
    )


# -- evaluations --------------------------------------------------------------------------


def _evaluated(rows: Rows, fact: Fact, e: SensorEvaluated) -> Iterator[Change]:
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
    except (ValueError, msgspec.MsgspecError) as unreadable:
        text = f"its answer cannot be read: {unreadable}"
        yield from _fail(fact, row, e, EvaluationError(code="answer", message=text), message)
        return
    except Invalid as invalid:
        error = EvaluationError(code="answer", message=invalid.message, hint=invalid.hint)
        yield from _fail(fact, row, e, error, message)
        return
    taken = replace(
        _after(row, fact),
        cursor=row.cursor if answer.cursor is None else answer.cursor,
        skip_reason="" if answer.runs else answer.skip_reason[:TEXT_CHARS],
        more=answer.more,
        waiting=row.waiting - (message is not None),
    )
    yield Put(SENSORS, taken)
    if message is not None:
        yield Put(SENSOR_MESSAGES, _dealt_with(message, fact, taken.number))
    yield from _ask(fact, taken, e, answer)


def _after(row: SensorRow, fact: Fact) -> SensorRow:
    """The row after an evaluation that went well."""
    return replace(
        row,
        status=SensorStatus.ACTIVE,
        number=row.number + 1,
        last_evaluation_at=fact.received_at,
        failures=0,
        error="",
        hint="",
    )


def _ask(fact: Fact, row: SensorRow, e: SensorEvaluated, answer: SensorAnswer) -> Iterator[Change]:
    for name in sorted(answer.keys):
        yield Emit(PartitionKeysFound(keys=name, added=tuple(dict.fromkeys(answer.keys[name]))))
    runs = {run.key: run for run in reversed(answer.runs)}
    twice = len(answer.runs) - len(runs)
    skipped = answer.skip_reason[:TEXT_CHARS]
    merged = f"{twice:,} requests have a key that another one of the same evaluation has"
    yield _recorded(
        fact,
        row,
        e,
        state=EvaluationState.REQUESTED if runs else EvaluationState.SKIPPED,
        requests=len(answer.runs),
        merged=twice,
        request_keys=[request_key(row.sensor_id, key) for key in list(runs)[::-1][:LISTED]],
        keys_added=sum(len(keys) for keys in answer.keys.values()),
        reason=merged if twice else "" if runs else skipped,
        more=answer.more,
    )
    for key in reversed(runs):
        run = runs[key]
        request = PlanRequest(
            selection=tuple(row.selection), partitions=run.partitions, config=run.config
        )
        yield Emit(
            RunAsked(
                request_key=request_key(row.sensor_id, key),
                fingerprint=request_fingerprint(request),
                kind="webhook" if row.kind == "webhook" else "sensor",
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
    )
    if message is not None:
        attempts = message.attempts + 1
        given_up = attempts >= MAX_ATTEMPTS
        tried = replace(message, attempts=attempts, error=text)
        if given_up:
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
    evaluation = SensorEvaluationRow(
        sensor_id=row.sensor_id,
        number=row.number,
        state=state,
        cursor=row.cursor[:CURSOR_CHARS],
        message_id=e.message_id,
        worker_id=e.worker_id,
        log=e.log,
        wall_ms=e.wall_ms,
        evaluated_at=fact.received_at,
        **(empty | fields),
    )
    return Emit(EvaluationRecorded(row=evaluation))


def _by_declaration(fact: Fact, e: SensorDeclared) -> str:
    return sensor_id(e.project, e.declaration.name)


def _by_removed_name(fact: Fact, e: SensorRemoved) -> str:
    return sensor_id(e.project, e.name)


def _by_sensor(
    fact: Fact,
    e: SensorPaused | SensorResumed | SensorReset | SensorMessagePushed | SensorEvaluated,
) -> str:
    return e.sensor_id


STAGE = Stage(
    "sensors",
    (SENSORS, SENSOR_MESSAGES),
    (
        On(SensorDeclared, _by_declaration, _declare),
        On(SensorRemoved, _by_removed_name, _remove),
        On(SensorPaused, _by_sensor, _pause),
        On(SensorResumed, _by_sensor, _resume),
        On(SensorReset, _by_sensor, _reset),
        On(SensorMessagePushed, _by_sensor, _push),
        On(SensorEvaluated, _by_sensor, _evaluated),
    ),
)
