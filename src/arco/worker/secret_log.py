"""Records which secrets a worker has read, for the audit log.

User code gets a secret only after the event of its read is durable, so that the log has it even if
the worker dies. The event is in one batch with the attempt's start.

Most evaluations of sensors find nothing new and write nothing to the log. So a worker records the
first read of a sensor's secret, then one each hour, with the number of reads in between. If the
worker dies, that number is lost.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from arco.clock import Clock
from arco.security.events import SecretRead
from arco.transport.reports import Reports
from arco.worker.failures import Interrupted
from arco.worker.supervise import POLL_S, Control
from servo.contract.manifest import SecretRef
from servo.contract.task import TaskRequest

SENSOR_EVERY_S: Final = 3600.0
REMEMBERED: Final = 10_000
"""Maximum of sensors' secrets in memory; one that was dropped is recorded again."""

_SensorSecret = tuple[str, str, str, str]


def secret_read(
    request: TaskRequest, worker_id: str, name: str, ref: SecretRef, code: str
) -> SecretRead:
    """The fact that a secret was resolved, or why it was not."""
    if request.sensor is not None:
        return SecretRead(
            reference=str(ref),
            provider=ref.provider,
            name=name,
            worker_id=worker_id,
            sensor_id=request.sensor.sensor_id,
            code=code,
        )
    return SecretRead(
        reference=str(ref),
        provider=ref.provider,
        name=name,
        worker_id=worker_id,
        asset=request.asset,
        partition=request.partition,
        run_id=request.run_id,
        task_id=request.task_id,
        attempt=request.attempt,
        attempt_id=request.attempt_id,
        code=code,
    )


class SecretLog:
    """Of one worker; shared by its threads."""

    def __init__(self, reports: Reports, clock: Clock) -> None:
        self._reports = reports
        self._clock = clock
        self._lock = threading.Lock()
        self._recorded: OrderedDict[_SensorSecret, tuple[float, int]] = OrderedDict()
        """When a read by a sensor was recorded, and the number of reads since."""

    def record(self, reads: Sequence[SecretRead], control: Control) -> None:
        """Wait until the facts are in the log. Raises Interrupted if `control` ends it first."""
        facts = [fact for read in reads if (fact := self._due(read)) is not None]
        if not facts:
            return
        durable = threading.Event()
        self._reports.submit(facts, done=durable.set)
        while not durable.wait(POLL_S):
            if control.cancelled():
                raise Interrupted()

    def _due(self, read: SecretRead) -> SecretRead | None:
        """The event to record now; None for a read that a later event counts."""
        if not read.sensor_id:
            return read
        key = (read.sensor_id, read.name, read.reference, read.code)
        now = self._clock.monotonic()
        with self._lock:
            recorded_at, count = self._recorded.pop(key, (float("-inf"), 0))
            is_due = now - recorded_at >= SENSOR_EVERY_S
            self._recorded[key] = (now, 0) if is_due else (recorded_at, count + 1)
            if len(self._recorded) > REMEMBERED:
                self._recorded.popitem(last=False)
        return replace(read, count=count + 1) if is_due else None
