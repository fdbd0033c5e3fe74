"""Sensors, and freshness."""

from __future__ import annotations

import msgspec

from arco.automation.freshness_events import (
    FreshnessEvaluated,
    FreshnessObserved,
    FreshnessRunDue,
    SeriesData,
)
from arco.automation.freshness_tables import FreshnessStatus
from arco.automation.sensor_events import (
    EvaluationError,
    SensorEvaluated,
    SensorMessagePushed,
    SensorPaused,
    SensorReset,
    SensorResumed,
    cursor_digest,
)
from arco.orchestration.declarations import (
    DeployedFreshness,
    DeployedSensor,
)
from arco.orchestration.events import (
    DeploymentCreated,
)
from arco.orchestration.packing import pack
from servo.contract.manifest import SecretRef, TimeDimension
from servo.contract.sensing import SensorAnswer, SensorRun
from tests.golden.stories.recorded_log import Log
from tests.golden.stories.runs import deployed


def aged() -> Log:
    """A policy begins with data of before; it becomes stale, asks for a run, and is removed."""
    log = Log()
    policy = DeployedFreshness(
        name="raw.orders",
        max_age_s=60,
        cron="* * * * *",
        timezone="Europe/Berlin",
        request_run=True,
        partitions=(TimeDimension(name="date", every="day", start="2025-01-01"),),
        upstream=("raw.events",),
    )
    log.do(
        DeploymentCreated(
            deployment_id="D1",
            manifest="m1",
            artifact="z1",
            project="shop",
            assets=(deployed("raw.orders", "A1"), deployed("raw.rates", "A2")),
            total=2,
            declarations=(policy, DeployedFreshness(name="raw.rates", max_age_s=60)),
        )
    )
    data = SeriesData(partition="date=d:2025-01-01", materialization_id="M1", made_at=log.now)
    log.do(FreshnessObserved(asset_id="A1", shape=1, data=(data,)), actor="")
    log.do(FreshnessObserved(asset_id="A2", shape=1), actor="")
    stale = FreshnessEvaluated(
        asset_id="A1",
        number=1,
        status=FreshnessStatus.STALE,
        materialization_id="M1",
        partition="date=d:2025-01-02",
        due_at=log.now,
        cause="no_recent_run",
        reason="date=2025-01-02 is missing",
    )
    for _ in range(2):
        log.do(stale, actor="")
    due = FreshnessRunDue(
        asset_id="A1", asset="raw.orders", partitions=("date=2025-01-02",), due_at=log.now
    )
    for _ in range(2):
        log.do(due, actor="")
    log.do(
        DeploymentCreated(
            deployment_id="D2",
            parent="D1",
            manifest="m2",
            artifact="z2",
            project="shop",
            total=2,
            removed_declarations=("freshness/raw.rates",),
        )
    )
    return log


def sensed() -> Log:
    """Sensors are evaluated, fail, pause, are reset and pushed to; keys repeat."""
    log = Log()
    poll = DeployedSensor(
        name="poll",
        selection=("raw.orders",),
        interval_s=300,
        timeout_s=30,
        module="shop.sensors",
        variable="poll",
        root="src",
        transform="f1",
        secrets={"token": SecretRef(provider="env", path="TOKEN")},
    )
    hook = DeployedSensor(
        name="hook", type="webhook", selection=("raw.orders",), module="shop.sensors", variable="h"
    )
    plain = DeployedSensor(name="plain", type="webhook", selection=("raw.*",), has_function=False)
    log.do(
        DeploymentCreated(
            deployment_id="D1",
            manifest="m1",
            artifact="z1",
            project="shop",
            assets=(deployed("raw.orders", "A1"),),
            total=1,
            sensors=3,
            declarations=(poll, hook, plain),
        )
    )
    first = SensorEvaluated(
        sensor_id="shop/poll",
        number=0,
        started_from=cursor_digest(""),
        answer=SensorAnswer(
            cursor="10",
            runs=(
                SensorRun("a", ("date=2026-01-01",), {"path": "x"}, False),
                SensorRun("b"),
                SensorRun("b"),
            ),
            keys={"clients": ("acme", "bob")},
            more=True,
        ),
        worker_id="w1",
        log="logs/sensors/shop-poll/1.n",
        wall_ms=12,
    )
    log.do(first, actor="")
    log.do(first, actor="")  # again: it changes nothing
    again = SensorAnswer(runs=(SensorRun("a"),))
    second = SensorEvaluated(
        sensor_id="shop/poll",
        number=1,
        started_from=cursor_digest("10"),
        packed=pack(msgspec.json.encode(again)),
    )
    log.do(second, actor="")
    failed = SensorEvaluated(
        sensor_id="shop/poll",
        number=2,
        started_from=cursor_digest("10"),
        error=EvaluationError(code="user_code.KeyError", message="'x'", hint="h", place="s.py:3"),
    )
    log.do(failed, actor="")
    log.do(SensorPaused(sensor_id="shop/poll", reason="the source is down"))
    log.do(SensorResumed(sensor_id="shop/poll"))
    log.do(SensorReset(sensor_id="shop/poll", cursor="5", reason="once more"))
    for sensor, message in (("shop/hook", "m1"), ("shop/hook", "m1"), ("shop/plain", "m1")):
        log.do(SensorMessagePushed(sensor_id=sensor, message_id=message, payload='{"n":1}'))
    dealt = SensorEvaluated(
        sensor_id="shop/hook",
        number=0,
        started_from=cursor_digest(""),
        answer=SensorAnswer(skip_reason="not for us"),
        message_id="m1",
    )
    log.do(dealt, actor="")
    return log
