"""Which secrets were read is in the log before the code that asked for them has them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from arco.clock import Clock, SystemClock
from arco.errors import Unavailable
from arco.log.append import Receipt
from arco.log.envelope import Event, Payload, make_event
from arco.security.events import SecretRead
from arco.transport.reports import Reports
from arco.transport.work_grants import WorkGrant, is_read_of
from arco.worker.failures import Interrupted
from arco.worker.secret_log import SENSOR_EVERY_S, SecretLog
from servo.contract.manifest import SecretRef
from servo.contract.task import TaskResult
from tests.kit.bench import Bench, NoControl, Switch
from tests.kit.clocks import SimClock

OF_SENSOR = SecretRead(
    reference="env:A", provider="env", name="a", worker_id="w", sensor_id="main/poll"
)
replace = msgspec.structs.replace


class Kept:
    """A log in memory, which may be unavailable."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.is_down = False
        self.names = 0

    def event(self, payload: Payload) -> Event:
        now = SimClock().now()
        return make_event(payload, id="e", time=now, source="w", tenant="t", workspace="w")

    def new_batch(self) -> str:
        self.names += 1
        return f"b{self.names}"

    def append(self, events: Sequence[Event], *, batch: str, notify: bool) -> Receipt:
        if self.is_down:
            raise Unavailable("down")
        self.events += events
        return Receipt(batch, ())

    def reads(self) -> list[SecretRead]:
        return [msgspec.json.decode(event.data, type=SecretRead) for event in self.events]


class Logged:
    """A log of secrets whose reports are appended by a thread, as a worker's are."""

    def __init__(self, clock: Clock) -> None:
        self.kept = Kept()
        self.reports = Reports(self.kept, clock, linger_s=0.0)
        self.log = SecretLog(self.reports, clock)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self.reports.run, args=(self._ended,), daemon=True)
        self._thread.start()

    def tell(self, *reads: SecretRead) -> list[SecretRead]:
        """What is in the log once it was told of these."""
        self.log.record(reads, NoControl())
        return self.kept.reads()

    def close(self) -> None:
        self._ended.set()
        self._thread.join(60)


def test_code_is_not_called_before_its_reads_are_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARCO_TEST_SECRET", "hunter2-value")
    kept = Kept()
    reports = Reports(kept, SystemClock(), linger_s=0.0)
    bench = Bench(tmp_path, secret_log=SecretLog(reports, SystemClock()))
    called = tmp_path / "called"
    bench.deploy(f"""
        from pathlib import Path
        @asset
        def f(ctx: AssetContext) -> None:
            Path({str(called)!r}).write_text(ctx.secret("db"))
    """)
    secrets = {
        "db": SecretRef(provider="env", path="ARCO_TEST_SECRET"),
        "mail": SecretRef(provider="env", path="ARCO_TEST_SECRET"),
    }
    results: list[TaskResult] = []
    request = bench.request(secrets=secrets)
    run = bench.executor.run
    thread = threading.Thread(target=lambda: results.append(run(request, NoControl())))
    thread.start()
    while not reports.waiting:
        assert thread.is_alive()
    assert reports.due_in_s == 0.0
    kept.is_down = True
    with pytest.raises(Unavailable):
        reports.flush()
    assert not called.exists() and not results
    kept.is_down = False
    reports.flush()
    thread.join(60)
    assert [(result.outcome, result.error) for result in results] == [("succeeded", None)]
    assert called.read_text() == "hunter2-value"
    read = SecretRead(
        reference="env:ARCO_TEST_SECRET",
        provider="env",
        name="db",
        worker_id="w1",
        asset=request.asset,
        partition=request.partition,
        run_id=request.run_id,
        task_id=request.task_id,
        attempt=request.attempt,
        attempt_id=request.attempt_id,
    )
    assert kept.reads() == [read, replace(read, name="mail")]


def test_a_secret_that_is_missing_is_told_and_those_after_it_are_not_read(tmp_path: Path) -> None:
    logged = Logged(SystemClock())
    bench = Bench(tmp_path, secret_log=logged.log).deploy("@asset\ndef f() -> None: pass")
    missing = SecretRef(provider="env", path="ARCO_NOT_SET")
    secrets = {"a": missing, "b": SecretRef(provider="env", path="PATH")}
    result = bench.run(secrets=secrets)
    logged.close()
    assert result.error is not None and result.error.code == "secret.missing"
    told = [(read.name, read.reference, read.code) for read in logged.kept.reads()]
    assert told == [("a", "env:ARCO_NOT_SET", "secret.missing")]


def test_who_waits_for_the_log_can_be_stopped() -> None:
    reports = Reports(Kept(), SimClock(), linger_s=0.0)  # which nobody appends
    control = Switch()
    control.stop = True
    with pytest.raises(Interrupted):
        SecretLog(reports, SimClock()).record([replace(OF_SENSOR, sensor_id="")], control)


def test_reads_of_a_sensor_are_told_once_an_hour_with_their_number() -> None:
    clock = SimClock()
    logged = Logged(clock)
    try:
        assert logged.tell(OF_SENSOR) == [OF_SENSOR]
        assert logged.tell(OF_SENSOR) == [OF_SENSOR]
        failed = replace(OF_SENSOR, code="secret.missing")
        other = replace(OF_SENSOR, sensor_id="main/other")
        assert logged.tell(failed, other, OF_SENSOR) == [OF_SENSOR, failed, other]
        clock.advance(timedelta(seconds=SENSOR_EVERY_S))
        assert logged.tell(OF_SENSOR)[3:] == [replace(OF_SENSOR, count=3)]
        clock.advance(timedelta(seconds=SENSOR_EVERY_S))
        assert logged.tell(OF_SENSOR)[4:] == [OF_SENSOR]
    finally:
        logged.close()


def test_a_worker_of_the_api_tells_of_its_own_attempts_and_sensors_alone() -> None:
    grant = WorkGrant(
        audience="claim",
        tenant="t",
        workspace="w",
        worker="w",
        caller="key:k",
        expires=0,
        run_id="r",
        task_id="t",
        attempt=1,
        attempt_id="a",
        asset_id="i",
        partition="date=d:2026-01-01",
        output="data/sales/orders/date=d:2026-01-01",
        message="m",
        number=1,
        nonce="n",
    )
    read = SecretRead(
        reference="env:A",
        provider="env",
        name="a",
        worker_id="w",
        asset="sales.orders",
        partition="date=d:2026-01-01",
        run_id="r",
        task_id="t",
        attempt=1,
        attempt_id="a",
    )
    assert is_read_of(grant, read)
    for changes in (
        {"asset": "hr.people"},
        {"partition": ""},
        {"run_id": "other"},
        {"task_id": "other"},
        {"attempt_id": "other"},
        {"sensor_id": "main/poll"},
    ):
        assert not is_read_of(grant, replace(read, **changes)), changes
    sensing = replace(grant, sensor_id="main/poll", output="")
    assert is_read_of(sensing, OF_SENSOR)
    assert not is_read_of(sensing, replace(OF_SENSOR, sensor_id="main/other"))
    assert not is_read_of(sensing, replace(OF_SENSOR, asset="hr.people"))
    assert not is_read_of(sensing, read)
