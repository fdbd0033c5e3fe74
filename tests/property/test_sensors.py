"""Whatever evaluations are reported, in whatever order and however often: all of an answer is
taken, or none of it."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from arco.automation.sensor_events import (
    EvaluationError,
    SensorEvaluated,
    SensorPaused,
    SensorReset,
    SensorResumed,
    cursor_digest,
    with_answer,
)
from arco.automation.sensor_tables import SENSOR_EVALUATIONS, SENSORS, EvaluationState
from arco.log.envelope import Payload
from arco.orchestration.declarations import DeployedSensor
from arco.orchestration.events import DeploymentCreated
from arco.orchestration.tables import DYNAMIC_KEYS, RUN_REQUESTS
from servo.contract.sensing import SensorAnswer, SensorRun
from tests.kit.runs import Folding

KEYS = st.sampled_from(["a", "b", "c", "d", ""])
CURSORS = st.sampled_from(["", "1", "2", "3"])
DEPLOYED = DeploymentCreated(
    deployment_id="D1",
    manifest="m",
    artifact="z",
    project="p",
    sensors=1,
    declarations=(DeployedSensor(name="s", selection=("x.y",)),),
)


class Step(NamedTuple):
    number: int
    """Where the evaluation says that it started: the number, and the cursor."""
    cursor: str
    answer: SensorAnswer | None
    times: int


answers = st.builds(
    SensorAnswer,
    cursor=st.none() | CURSORS,
    runs=st.lists(st.builds(SensorRun, KEYS), max_size=3).map(tuple),
    keys=st.dictionaries(st.just("set"), st.lists(KEYS, max_size=2).map(tuple)),
    skip_reason=st.sampled_from(["", "nothing"]),
    more=st.booleans(),
)
steps = st.builds(Step, st.integers(0, 4), CURSORS, st.none() | answers, st.integers(1, 2))
commands = st.sampled_from(
    [
        SensorPaused(sensor_id="p/s"),
        SensorResumed(sensor_id="p/s"),
        SensorReset(sensor_id="p/s", cursor="2"),
    ]
)


class Model:
    """What must be there after the events, worked out one by one."""

    def __init__(self) -> None:
        self.cursor = ""
        self.number = 0
        self.paused = False
        self.requests: set[str] = set()
        self.keys: set[str] = set()
        self.failed = 0
        self.merged = 0

    def take(self, payload: Payload) -> None:
        match payload:
            case SensorPaused():
                self.paused = True
            case SensorResumed():
                self.paused = False
            case SensorReset(cursor=cursor):
                self.cursor, self.number = cursor, self.number + 1

    def evaluate(self, step: Step) -> None:
        if self.paused or (step.number, step.cursor) != (self.number, self.cursor):
            return
        self.number += 1
        answer = step.answer
        keys = [key for each in answer.keys.values() for key in each] if answer else []
        if answer is None or not all(run.key for run in answer.runs) or not all(keys):
            self.failed += 1
            return
        self.cursor = self.cursor if answer.cursor is None else answer.cursor
        for run in answer.runs:
            self.merged += run.key in self.requests
            self.requests.add(run.key)
        self.keys.update(keys)


def event_of(step: Step) -> SensorEvaluated:
    event = SensorEvaluated(
        sensor_id="p/s", number=step.number, started_from=cursor_digest(step.cursor)
    )
    if step.answer is None:
        error = EvaluationError(code="x", message="failed")
        return msgspec.structs.replace(event, error=error)
    return with_answer(event, step.answer)


@given(st.lists(steps | commands, max_size=12))
def test_all_of_an_answer_is_taken_or_none_of_it(story: list[Any]) -> None:
    model = Model()
    payloads: list[Payload] = [DEPLOYED]
    for step in story:
        if not isinstance(step, Step):
            payloads.append(step)
            model.take(step)
            continue
        for _ in range(step.times):
            payloads.append(event_of(step))
            model.evaluate(step)
    log = Folding()
    for payload in payloads:
        log.add(payload)

    def rows(table: Any) -> list[Any]:
        return log.all(table)

    (sensor,) = rows(SENSORS)
    assert (sensor.cursor, sensor.number) == (model.cursor, model.number)
    requests = {row.request_key.removeprefix("sensor:p/s:") for row in rows(RUN_REQUESTS)}
    assert requests == model.requests
    assert {row.key for row in rows(DYNAMIC_KEYS)} == model.keys
    history = rows(SENSOR_EVALUATIONS)
    assert sum(e.state == EvaluationState.FAILED for e in history) == model.failed
    assert sum(e.merged for e in history) == model.merged
    assert sum(e.requests - e.merged for e in history) == len(model.requests)
