"""When sensors are due: turns that all orchestrators agree on, and what does not wait for them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec

from arco.automation.sensor_agenda import QUIET, RESEND_S, SensorAgenda, next_turn
from arco.automation.sensor_tables import (
    MessageState,
    SensorMessageRow,
    SensorRow,
    SensorStatus,
)
from arco.orchestration.declarations import DeployedSensor

START = datetime(2026, 1, 5, 8, 0, 30)
MINUTE = timedelta(minutes=1)


def sensor(**fields: Any) -> SensorRow:
    kind = fields.get("kind", "polling")
    row = SensorRow(
        sensor_id="p/s",
        project="p",
        name="s",
        kind=kind,
        status=SensorStatus.ACTIVE,
        cursor="",
        number=1,
        last_evaluation_at=START,
        selection=["x.y"],
        interval_s=60,
        definition=msgspec.json.encode(DeployedSensor(name="s", type=kind, asset="x.y")).decode(),
        failures=0,
        error="",
        hint="",
        skip_reason="",
        at_once=False,
        waiting=0,
        deployment_id="D1",
        since=START,
        paused_at=None,
        paused_by="",
        pause_reason="",
    )
    return msgspec.structs.replace(row, **fields)


def message(id: str, position: int, state: MessageState = MessageState.PENDING) -> SensorMessageRow:
    return SensorMessageRow("p/s", id, state, "", position, 0, "", START, "", None, 0)


def agenda_of(row: SensorRow, *messages: SensorMessageRow) -> SensorAgenda:
    agenda = SensorAgenda()
    agenda.take([row], messages)
    return agenda


def test_turns_are_a_whole_interval_apart_and_the_same_for_everybody() -> None:
    row = sensor()
    turn = next_turn(row, START)
    assert START < turn <= START + MINUTE
    assert next_turn(row, turn) == turn + MINUTE
    assert next_turn(row, turn - timedelta(microseconds=1)) == turn
    assert next_turn(sensor(cursor="x", number=9), START) == turn


def test_a_sensor_is_due_until_it_was_sent_and_then_at_its_next_turn() -> None:
    row = sensor()
    agenda, turn = agenda_of(row), next_turn(row, START)
    assert (agenda.next_due(), agenda.due(turn - timedelta(seconds=1))) == (turn, [])
    assert agenda.due(turn) == [row]
    assert agenda.due(turn) == [row]  # it could not be sent
    agenda.sent(row, turn)
    assert (agenda.due(turn), agenda.next_due()) == ([], turn + MINUTE)


def test_what_is_new_or_has_more_does_not_wait_for_its_turn() -> None:
    for row in (sensor(at_once=True), sensor(last_evaluation_at=None)):
        assert agenda_of(row).due(START) == [row]


def test_what_does_not_wait_for_its_turn_is_sent_again_until_it_was_evaluated() -> None:
    for kind in ("polling", "asset"):
        row = sensor(kind=kind, at_once=True, interval_s=86_400)
        agenda = agenda_of(row)
        agenda.sent(row, START)
        assert agenda.next_due() == START + timedelta(seconds=RESEND_S)
        agenda.take([sensor(kind=kind, interval_s=86_400)], [])
        assert agenda.next_due() == next_turn(row, START)


def test_a_sensor_that_cannot_be_sent_is_due_again_soon() -> None:
    row = sensor(kind="asset", interval_s=3_600)
    agenda, turn = agenda_of(row), next_turn(sensor(interval_s=3_600), START)
    agenda.postpone(row, turn)
    assert agenda.next_due() == turn + timedelta(seconds=RESEND_S)


def test_after_failures_a_sensor_waits_longer() -> None:
    assert agenda_of(sensor(failures=1)).next_due() == START + MINUTE
    assert agenda_of(sensor(failures=4)).next_due() == START + 8 * MINUTE
    assert agenda_of(sensor(failures=40, at_once=True)).next_due() == START + 60 * MINUTE


def test_a_sensor_that_is_paused_or_removed_is_never_due() -> None:
    agenda = agenda_of(sensor(at_once=True))
    agenda.take([sensor(status=SensorStatus.PAUSED)], [])
    assert (agenda.next_due(), agenda.rows) == (None, {})
    agenda.take([sensor(status=SensorStatus.REMOVED)], [])
    assert agenda.next_due() is None


def test_a_webhook_is_due_for_its_messages_alone_in_the_order_of_the_log() -> None:
    row = sensor(kind="webhook", at_once=True, failures=3)
    agenda = agenda_of(row)
    assert agenda.next_due() is None
    agenda.take([sensor(kind="webhook")], [message("b", 2), message("a", 3), message("c", 1)])
    assert len(agenda.due(START)) == 1
    assert agenda.next_message("p/s") == "c"
    agenda.take([], [message("c", 1, MessageState.DONE)])
    assert agenda.next_message("p/s") == "b"
    done = MessageState.DONE
    agenda.take([], [message("b", 2, done), message("a", 3, MessageState.FAILED)])
    assert (agenda.next_due(), agenda.next_message("p/s")) == (None, "")


def test_a_sensor_of_an_asset_is_due_when_something_was_materialized() -> None:
    row = sensor(kind="asset")
    agenda, turn = agenda_of(row), next_turn(row, START)
    assert agenda.watches_assets
    agenda.sent(row, turn)
    assert agenda.next_due() == turn + QUIET
    agenda.versions_changed()
    assert agenda.next_due() == turn + MINUTE  # no more often than its interval
    agenda.versions_changed()
    assert agenda.due(turn + MINUTE) == [row]


def test_a_sensor_is_due_once_however_many_evaluations_it_has_had() -> None:
    agenda, now = agenda_of(row := sensor()), START
    for number in range(2, 6):
        now = next_turn(row, now)
        assert agenda.due(now) == agenda.due(now) == [row]
        agenda.sent(row, now)
        row = msgspec.structs.replace(row, number=number, last_evaluation_at=now)
        agenda.take([row], [])
        assert agenda.due(now) == []
