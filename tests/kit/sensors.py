"""Sensors in a simulated store, with orchestrators and workers that come and go."""

from __future__ import annotations

from typing import Any

from arco.automation.sensor_events import SensorEvaluated, cursor_digest
from arco.automation.sensor_tables import SensorEvaluationRow, SensorRow
from arco.log.envelope import Payload
from arco.orchestration.states import RequestState
from servo.contract.sensing import SensorAnswer, SensorCall
from servo.sensor import RunRequest, SensorContext, SensorResult
from tests.kit.flows import commit_all
from tests.kit.schedules import Town

HEAD = """
from servo import *

@asset(namespace="city")
def alone() -> None: ...
"""
POLL = """
@sensor(selection=[alone], interval="1m", timeout="20s")
def poll(ctx: SensorContext) -> SensorResult:
    return SensorResult()
"""
HOOK = """
@webhook_sensor("hook", selection=[alone])
def hook(ctx: SensorContext) -> SensorResult:
    return SensorResult()
"""
PLAIN_HOOK = """
hook = webhook_sensor("hook", selection=[alone])
"""


class SensorTown(Town):
    """A workspace with sensors. `items` is what the sensor `poll` looks at, two at a time."""

    def __init__(self, *sensors: str, **settings: Any) -> None:
        super().__init__(HEAD + "".join(sensors or (POLL,)), **settings)
        self.items: list[str] = []
        self.error: Exception | None = None
        self.garbage: object = None
        self.crowd.sense = self.sense

    def sense(self, call: SensorCall, context: SensorContext) -> object:
        if self.error is not None:
            raise self.error
        if self.garbage is not None:
            return self.garbage
        if call.kind == "webhook":
            return SensorResult(runs=[RunRequest(f"{context.message_id}={context.payload}")])
        begin = int(context.cursor or 0)
        items = self.items[begin : begin + 2]
        end = begin + len(items)
        return SensorResult(
            cursor=str(end), runs=[RunRequest(item) for item in items], more=end < len(self.items)
        )

    def redeclare(self, *sensors: str) -> None:
        self.deploy(HEAD + "".join(sensors))

    def sensor(self, name: str = "poll") -> SensorRow:
        return self.fresh().read.sensors().sensor(name)

    def history(self, name: str = "poll") -> list[SensorEvaluationRow]:
        """The oldest first."""
        reader = self.fresh().read.sensors()
        return reader.evaluations(reader.sensor(name), 1_000)[::-1]

    def asked(self) -> dict[str, RequestState]:
        """Requests by key, without the prefix that all of them have."""
        rows, _ = self.fresh().read.orchestration().run_requests(limit=100_000)
        return {row.request_key.removeprefix("sensor:main/"): row.state for row in rows}

    def commit(self, *events: Payload) -> None:
        w = self.fresh()
        w.ledger.append(list(events))
        commit_all(w)


def evaluated_from(row: SensorRow, answer: SensorAnswer | None = None, **fields: Any) -> Payload:
    """The fact of an evaluation that started where the sensor is now."""
    return SensorEvaluated(
        sensor_id=row.sensor_id,
        number=row.number,
        started_from=cursor_digest(row.cursor),
        answer=answer,
        **fields,
    )
