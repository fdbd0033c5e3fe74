"""Sending evaluations of sensors to the queue.

A sensor has one message, whose name is its own: while the queue has it, waiting or claimed, a
second one changes nothing. So a sensor has at most one evaluation at a time, and the message of a
lost worker is delivered again when its claim expires.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import timedelta

import msgspec

from arco.automation.sensor_evaluations import definition_of
from arco.automation.sensor_tables import SENSOR_MESSAGES, SensorRow
from arco.orchestration.limits import Timing
from arco.orchestration.tables import DEPLOYMENTS
from arco.state.core import Core
from arco.state.snapshot import Snapshot
from arco.transport.queues.port import Message, Queue
from arco.transport.task_envelope import EnvelopeSigner
from servo.contract.identity import attempt_id
from servo.contract.sensing import SensorCall
from servo.contract.task import SENSING, CodeRef, TaskRequest

RUN = "sensors"
"""Used as run id in the names of evaluations."""


class SensorSender:
    def __init__(
        self, core: Core, queue: Queue, signer: EnvelopeSigner, *, timing: Timing | None = None
    ) -> None:
        self._core = core
        self._queue = queue
        self._signer = signer
        self._ttl = timedelta(seconds=(timing or Timing()).envelope_s)
        self._artifacts: dict[tuple[str, str], str] = {}
        """By project and deployment."""

    def send(
        self,
        calls: Sequence[tuple[SensorRow, SensorCall]],
        deployments: dict[str, str],
        snapshot: Snapshot,
    ) -> None:
        """Enqueue evaluations. Raises errors of the store."""
        messages = []
        for row, call in calls:
            artifact = self._artifact(snapshot, row.project, deployments.get(row.project, ""))
            request = self.request(row, _with_payload(call, snapshot), artifact)
            messages.append(
                Message(message_name(row.sensor_id), self._signer.seal(request, self._ttl))
            )
        if messages:
            self._queue.put(messages)

    def request(self, row: SensorRow, call: SensorCall, artifact: str) -> TaskRequest:
        sensor, task = definition_of(row), task_of(row.sensor_id)
        manifests = self._core.manifests
        return TaskRequest(
            contract=SENSING,
            tenant_id=manifests.tenant,
            workspace_id=manifests.workspace,
            run_id=RUN,
            task_id=task,
            plan_id="",
            attempt=call.number + 1,
            attempt_id=attempt_id(RUN, task, call.number + 1),
            asset=f"sensor {row.sensor_id}",
            asset_id="",
            code=CodeRef(
                artifact=artifact, module=sensor.module, name=sensor.variable, root=sensor.root
            ),
            timeout_s=sensor.timeout_s,
            secrets=sensor.secrets,
            sensor=call,
        )

    def _artifact(self, snapshot: Snapshot, project: str, deployment: str) -> str:
        key = (project, deployment)
        if key not in self._artifacts:
            row = snapshot.get(DEPLOYMENTS, project, deployment)
            self._artifacts = {k: v for k, v in self._artifacts.items() if k[0] != project}
            self._artifacts[key] = "" if row is None else row.artifact
        return self._artifacts[key]


def _with_payload(call: SensorCall, snapshot: Snapshot) -> SensorCall:
    if not call.message_id:
        return call
    message = snapshot.get(SENSOR_MESSAGES, call.sensor_id, call.message_id)
    return call if message is None else msgspec.structs.replace(call, payload=message.payload)


def task_of(sensor_id: str) -> str:
    """The task id in the names of evaluations and of their logs."""
    name = sensor_id.replace("/", "-")
    digest = hashlib.sha256(sensor_id.encode()).hexdigest()[:12]
    return f"{name[:100]}-{digest}"


def message_name(sensor_id: str) -> str:
    return f"s_{task_of(sensor_id)}"
