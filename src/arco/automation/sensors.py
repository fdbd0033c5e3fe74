"""The fold of sensors: one key for each.

An evaluation counts if the sensor is still where it started from: compare and set. Then cursor,
requests, new partition keys and skip reason are accepted together; if one part of the answer is
invalid, none is, and the evaluation has failed. Repeated and late reports change nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from arco.automation.sensor_evaluations import (
    after,
    ask,
    dealt_with,
    definition_of,
    evaluate,
    is_well,
    recovered,
)
from arco.automation.sensor_events import (
    SensorEvaluated,
    SensorMessagePushed,
    SensorPaused,
    SensorReset,
    SensorResumed,
)
from arco.automation.sensor_tables import (
    SENSOR_MESSAGES,
    SENSORS,
    MessageState,
    SensorMessageRow,
    SensorRow,
    SensorStatus,
    sensor_id,
)
from arco.orchestration.declarations import DeployedSensor, SensorDeclared, SensorRemoved
from arco.state.copied_rows import row_from
from arco.state.fold import Change, Fact, On, Put, Rows, Stage, by
from arco.state.system import applied, refused
from servo.contract.sensing import SensorAnswer, SensorRun

replace = msgspec.structs.replace

MAX_WAITING = 10_000


# -- deployments --------------------------------------------------------------------------


def _declare(rows: Rows, fact: Fact, e: SensorDeclared) -> Iterator[Change]:
    sensor = e.declaration
    row = row_from(
        SensorRow,
        e,
        sensor,
        sensor_id=sensor_id(e.project, sensor.name),
        kind=sensor.type,
        status=SensorStatus.ACTIVE,
        cursor="",
        number=0,
        last_evaluation_at=None,
        definition=msgspec.json.encode(sensor).decode(),
        failures=0,
        error="",
        hint="",
        skip_reason="",
        at_once=True,
        waiting=0,
        since=fact.received_at,
        paused_at=None,
        paused_by="",
        pause_reason="",
    )
    old = rows.get(SENSORS, row.sensor_id)
    if old is not None:
        continues = _place(definition_of(old)) == _place(sensor)
        row = replace(
            row,
            status=SensorStatus.ACTIVE if old.paused_at is None else SensorStatus.PAUSED,
            cursor=old.cursor if continues else "",
            number=old.number + (not continues),
            last_evaluation_at=old.last_evaluation_at,
            waiting=old.waiting,
            paused_at=old.paused_at,
            paused_by=old.paused_by,
            pause_reason=old.pause_reason,
            went_well=is_well(old) or old.kind != row.kind,
        )
        if old.kind != row.kind:
            yield from recovered(old)  # it is another sensor
    yield from _with_waiting(rows, fact, row)


def _place(sensor: DeployedSensor) -> tuple[str, ...]:
    """What the cursor refers to: if this differs, the cursor is reset."""
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
        yield from recovered(row)


# -- people -------------------------------------------------------------------------------


def _sensor_row(rows: Rows, sensor: str) -> SensorRow | None:
    row = rows.get(SENSORS, sensor)
    return None if row is None or row.status == SensorStatus.REMOVED else row


def _unknown(fact: Fact, sensor: str) -> Change:
    return refused(fact, "sensor_not_found", f"there is no sensor {sensor}")


def _pause(rows: Rows, fact: Fact, e: SensorPaused) -> Iterator[Change]:
    row = _sensor_row(rows, e.sensor_id)
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
    row = _sensor_row(rows, e.sensor_id)
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
            at_once=True,
            went_well=is_well(row),
            paused_at=None,
            paused_by="",
            pause_reason="",
        )
        yield from _with_waiting(rows, fact, resumed)
    yield applied(fact)


def _reset(rows: Rows, fact: Fact, e: SensorReset) -> Iterator[Change]:
    row = _sensor_row(rows, e.sensor_id)
    if row is None:
        yield _unknown(fact, e.sensor_id)
        return
    is_paused = row.status == SensorStatus.PAUSED
    reset_row = replace(
        row,
        status=row.status if is_paused else SensorStatus.ACTIVE,
        went_well=is_well(row),
        cursor=e.cursor,
        number=row.number + 1,
        failures=0,
        error="",
        hint="",
        skip_reason="",
        at_once=True,
    )
    yield Put(SENSORS, reset_row)
    yield applied(fact)


def _push(rows: Rows, fact: Fact, e: SensorMessagePushed) -> Iterator[Change]:
    row = _sensor_row(rows, e.sensor_id)
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
        message = row_from(
            SensorMessageRow,
            e,
            state=MessageState.PENDING,
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
    """The row; messages that waited for a sensor without a function request their runs."""
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
    """Without a function, each message requests one run."""
    if messages:
        yield from recovered(row)
    for message in messages:
        answer = SensorAnswer(runs=(SensorRun(message.message_id),))
        evaluated = SensorEvaluated(
            sensor_id=row.sensor_id,
            number=row.number,
            started_from="",
            message_id=message.message_id,
        )
        row = replace(after(row, fact), skip_reason="")
        yield Put(SENSOR_MESSAGES, dealt_with(message, fact, row.number))
        yield from ask(fact, row, evaluated, answer)
    yield Put(SENSORS, row)


_by_sensor = by("sensor_id")
STAGE = Stage(
    "sensors",
    (SENSORS, SENSOR_MESSAGES),
    (
        On(SensorDeclared, lambda _, e: sensor_id(e.project, e.declaration.name), _declare),
        On(SensorRemoved, lambda _, e: sensor_id(e.project, e.name), _remove),
        On(SensorPaused, _by_sensor, _pause),
        On(SensorResumed, _by_sensor, _resume),
        On(SensorReset, _by_sensor, _reset),
        On(SensorMessagePushed, _by_sensor, _push),
        On(SensorEvaluated, _by_sensor, evaluate),
    ),
)
